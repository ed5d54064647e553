//! Leader election with several candidates in virtual time, on a Lease in memory that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod candidate;
mod safety;
mod store;
mod stories;
