//! The contract's clock on tokio's time, virtual or real.

use std::time::Duration;

use cloud_provider::context::{BoxFuture, Clock};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A clock that follows tokio's time. The time of day starts at a fixed moment, so that a trace is the same each time.
#[derive(Debug, Clone, Copy)]
pub struct TestClock {
    start: Instant,
}

impl TestClock {
    /// The moment at which every test's day begins, in seconds since 1970.
    const DAWN: i64 = 1_800_000_000;

    /// A clock that starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        let millis = i64::try_from(self.monotonic().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(Self::DAWN * 1000 + millis).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
