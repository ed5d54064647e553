//! The wall clock, injected. Durations, deadlines and back-off are tokio's; this is only for timestamps that are
//! written to objects.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time of day.
pub trait WallClock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;
}

/// A shared wall clock.
pub type SharedClock = Arc<dyn WallClock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A wall clock that runs with tokio's clock, so that virtual time moves timestamps too.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    epoch: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be called inside a tokio runtime.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now() }
    }
}

impl WallClock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed =
            jiff::SignedDuration::try_from(self.started.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
        self.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}
