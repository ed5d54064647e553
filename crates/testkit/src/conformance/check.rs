//! One promise of the contract, and how a check says that it was broken.

use std::fmt::{self, Debug};

use cloud_provider::Error;
use futures::future::LocalBoxFuture;

use super::Stage;
use super::stand_in::Unsupported;

/// One check: a promise, and a function that holds a provider to it.
#[derive(Clone, Copy)]
pub struct Check {
    /// What it is about.
    pub group: Group,
    /// Its name: a sentence, with underscores for spaces.
    pub id: &'static str,
    /// What is promised, in one sentence: shown when it is broken.
    pub promise: &'static str,
    /// Plays it on a fresh stage.
    pub run: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Verdict>,
}

impl Check {
    /// The name as a sentence.
    pub fn name(&self) -> String {
        self.id.replace('_', " ")
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check({})", self.id)
    }
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Building, standing by, ending.
    Life,
    /// Whether instances exist.
    Existence,
    /// Looking up in bulk, and what is told of an instance.
    Instances,
    /// Load balancers, from nothing to changed.
    Balancers,
    /// Load balancers, to nothing again.
    Deletion,
    /// Whose is it.
    Ownership,
    /// Routes.
    Routes,
    /// Volumes.
    Volumes,
    /// Every write passes the gate.
    Gate,
    /// Errors are decisions.
    Errors,
    /// Lost answers, failures half-way, cancelled calls.
    Interruption,
    /// Whole stories: nothing leaks, nothing foreign is touched.
    Stories,
}

impl Group {
    /// The words for it in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Life => "life",
            Self::Existence => "existence",
            Self::Instances => "instances",
            Self::Balancers => "load balancers",
            Self::Deletion => "deletion",
            Self::Ownership => "ownership",
            Self::Routes => "routes",
            Self::Volumes => "volumes",
            Self::Gate => "the gate",
            Self::Errors => "errors",
            Self::Interruption => "interruption",
            Self::Stories => "stories",
        }
    }
}

/// How a check ends: kept, or [stopped](Stop).
pub type Verdict = Result<(), Stop>;

/// Why a check did not end with the promise kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The promise is broken; the text says what was seen.
    Broken(String),
    /// It could not be checked; the text says why.
    Skipped(String),
}

impl From<Unsupported> for Stop {
    fn from(unsupported: Unsupported) -> Self {
        Self::Skipped(unsupported.0)
    }
}

/// The promise is broken: this was seen.
pub(super) fn broken<T>(seen: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Broken(seen.into()))
}

/// It cannot be checked here.
pub(super) fn skip<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skipped(why.into()))
}

/// Holds the promise to this condition.
pub(super) fn promised(holds: bool, seen: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { broken(seen()) }
}

/// Holds the promise to this equality.
pub(super) fn equal<T: PartialEq + Debug>(what: &str, seen: &T, expected: &T) -> Verdict {
    promised(seen == expected, || format!("{what}: expected {expected:?}, saw {seen:?}"))
}

/// A call that must not fail.
pub(super) trait MustSucceed<T> {
    /// Breaks the promise if it did.
    fn must(self, attempt: &str) -> Result<T, Stop>;
}

impl<T> MustSucceed<T> for Result<T, Error> {
    fn must(self, attempt: &str) -> Result<T, Stop> {
        self.or_else(|error| broken(format!("{attempt} failed: {error:?}")))
    }
}

/// Lists the checks of a file: each is a function whose name is its sentence.
macro_rules! checks {
    ($group:ident, $($name:ident => $promise:literal,)+) => {
        /// The checks of this group.
        pub(super) const CHECKS: &[$crate::conformance::Check] = &[$($crate::conformance::Check {
            group: $crate::conformance::Group::$group,
            id: stringify!($name),
            promise: $promise,
            run: |stage| Box::pin($name(stage)),
        }),+];
    };
}

pub(super) use checks;
