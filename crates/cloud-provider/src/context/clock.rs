//! Time, injected, so that whole providers run in virtual time.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::BoxFuture;

/// What time it is, and how to wait.
pub trait Clock: Send + Sync + 'static {
    /// The time of day: only for timestamps that people read.
    fn wall(&self) -> Timestamp;

    /// Time since some fixed moment; it never goes back. For ages, deadlines and back-off.
    fn monotonic(&self) -> Duration;

    /// Completes after this long.
    fn sleep(&self, duration: Duration) -> BoxFuture<()>;
}
