//! The node controller as a whole, on the API server in virtual time and a cloud that misbehaves on demand.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod initialise;
mod refresh;
mod stage;
