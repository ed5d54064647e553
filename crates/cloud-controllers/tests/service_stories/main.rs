//! The service controller as a whole, on the API server in virtual time and a cloud that misbehaves on demand.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod between;
mod change;
mod crash;
mod drift;
#[path = "../route_stories/frozen.rs"]
mod frozen;
mod nodes;
mod oracle;
mod pods;
mod provision;
mod restart;
mod stage;
mod sweep;
