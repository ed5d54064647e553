//! The route controller as a whole, on the API server in virtual time and a cloud that misbehaves on demand.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod conditions;
mod crashes;
mod frozen;
mod ownership;
mod quiet;
mod routes;
mod scene;
#[path = "../node_stories/stage.rs"]
mod stage;
mod trouble;
