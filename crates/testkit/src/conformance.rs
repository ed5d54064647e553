//! The conformance suite: one set of checks for every provider, against whatever stands in for its cloud.
//!
//! A provider crate calls it with a [`StandIn`] of its own:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # fn stand_in() -> Arc<dyn testkit::conformance::StandIn> { unimplemented!() }
//! // #[test] fn the_provider_keeps_every_promise()
//! let report = testkit::conformance::run(&stand_in());
//! println!("{report}");
//! report.write().unwrap();
//! report.assert_conforms();
//! ```
//!
//! In reading order: [`StandIn`] is what a provider's author writes (a way to build the provider, a back door into the
//! cloud, faults, counters). [`Check`] is one promise of the contract; [`checks`] has them all, in [groups](Group). Each
//! is played on a [`Stage`]: a fresh cloud, the provider built against it, and the [parts of a context](context) as
//! recorders. A [`Report`] says what was kept, what was broken and what was skipped, and [`page`] makes the reference
//! page of it.
//!
//! What a provider does not declare and what a stand-in cannot do is **skipped visibly**: it never counts as kept. The
//! suite itself is held to account by deliberately broken variants of the fake cloud, each of which must fail.

use std::fmt;

pub mod checks;
pub mod context;
pub mod page;
pub mod stand_in;

mod check;
mod interruption;
mod objects;
mod play;
mod report;
mod run;
mod stage;

pub use check::{Check, Group, Stop, Verdict};
pub use report::{BLESS, Finding, OUT, Outcome, Report};
pub use run::{run, run_where};
pub use stage::Stage;
pub use stand_in::{Control, StandIn, Unsupported};

/// How time passes while the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Tokio's paused clock: an hour passes at once when everybody waits. For stand-ins inside the process.
    Virtual,
    /// The real clock. For stand-ins behind a socket.
    Real,
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual time",
            Self::Real => "real time",
        })
    }
}
