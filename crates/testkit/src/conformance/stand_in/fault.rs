//! What can go wrong between a provider and its cloud, and for which calls.

use std::time::Duration;

/// A way to fail. None of them changes anything in the cloud, [`Fault::LostAnswer`] excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The credential is expired or unknown: 401.
    Unauthorized,
    /// The credential may not do this: 403.
    Forbidden,
    /// Too many calls: 429, with the time to wait if the cloud says one.
    Throttled(Option<Duration>),
    /// The cloud is broken: 5xx.
    Unavailable,
    /// No answer in time; the cloud did not act.
    TimesOut,
    /// The cloud acts, and its answer is lost.
    LostAnswer,
    /// Nothing ever comes back, not even an error.
    Hangs,
    /// An answer that cannot be read.
    Unreadable,
    /// A list stops before its end, without saying more than that the rest is missing.
    TruncatedList,
    /// A list of instances is empty, as with the credential of another project.
    EmptyInventory,
    /// The account has no room for one more.
    QuotaExceeded,
}

/// Which calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Those that only read.
    Reads,
    /// Those that may change something.
    Writes,
    /// All.
    All,
}

/// Which calls a fault hits, counted from the moment it is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aim {
    /// Which calls.
    pub calls: Calls,
    /// How many of them pass unharmed first.
    pub after: u64,
    /// How many are hit then; `None` for all.
    pub times: Option<u64>,
}

impl Aim {
    /// Every one of these calls.
    pub fn every(calls: Calls) -> Self {
        Self { calls, after: 0, times: None }
    }

    /// One of these calls only: the one after this many have passed.
    pub fn one(calls: Calls, after: u64) -> Self {
        Self { calls, after, times: Some(1) }
    }
}
