//! Node IPAM as a whole, on the API server in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod allocation;
mod chaos;
#[path = "../node_stories/stage.rs"]
mod stage;
