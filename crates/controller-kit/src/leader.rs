//! Leader election on a Lease: who may work.
//!
//! The algorithm is client-go's, and so is the record, so that Go and Rust replicas can share one lease: expiry is judged
//! on the local monotonic clock since the record was last seen to change, every write carries the resourceVersion, a
//! leader that cannot renew in time ends. Three things are better than there:
//! - the lease is released on exit, after the last write, and standbys notice at once;
//! - [`Leadership`] fences: it answers at call time whether a write may still be started;
//! - a leader that sees another's name in the record stops at once, not after its renew deadline.
//!
//! Read in this order: `timing` (the numbers), `record` (what is written), `decide` (the pure decision), `leadership` (the
//! fence), `elector` (a candidate's life), `attempt` (one try) and `standby` (the time between two).

mod attempt;
mod decide;
mod elector;
mod leadership;
mod metrics;
mod notice;
mod record;
mod standby;
mod store;
mod timing;

pub use self::decide::{Decision, View, decide};
pub use self::elector::{Config, Elector, Ended, Surroundings};
pub use self::leadership::{Leadership, Unrenewed};
pub use self::metrics::Metrics;
pub use self::notice::{Listener, Notice};
pub use self::record::{Lease, Record};
pub use self::store::{KubeLease, LeaseStore, LeaseWatch, StoreError};
pub use self::timing::{InvalidTiming, JITTER_FACTOR, Timing};

use crate::random::Randomness;

/// A candidate's identity: the host's name and a UUID, so that two processes on one host differ.
pub fn identity(hostname: &str, random: &Randomness) -> String {
    format!("{hostname}_{}", random.uuid())
}
