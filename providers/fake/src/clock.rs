//! Time for programs that run on tokio: real in the server, virtual in tests that pause it.

use std::time::Duration;

use cloud_provider::context::{BoxFuture, Clock};
use jiff::Timestamp;
use tokio::time::Instant;

/// tokio's clock. Its monotonic time starts when it is made.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    started: Instant,
}

impl TokioClock {
    /// A clock that starts now. Must be called inside a tokio runtime.
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
