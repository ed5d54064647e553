//! The chores of this repository, in reading order.
//!
//! * [`rooms`]: which crate may import which; `tests/rooms.rs` holds the workspace to it.
//! * [`spec`]: the list of upstream behaviours, the areas they belong to and the differences we chose.
//! * [`proofs`]: finds the tests that say which behaviours they prove.
//! * [`coverage`]: joins the two into the pages of `docs/reference/`, and says what is missing.
//! * [`words`]: what must not stand in a tracked file.
//!
//! Each of them is a pure function over plain data; [`repository`] alone touches the file system and other
//! programs. Nothing here is linked into what users run.

pub mod coverage;
pub mod proofs;
pub mod repository;
pub mod rooms;
pub mod spec;
pub mod words;
