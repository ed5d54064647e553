//! When something moved last on a connection or a session, and when that is too long ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// When something moved last, in either direction.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Milliseconds after the start.
    last: AtomicU64,
}

impl Activity {
    /// It moved now.
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Something moved.
    pub(super) fn note(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// Returns when nothing moved for this long; never if that is zero. One timer, set anew only when it fires.
    pub(super) async fn ceases_for(&self, timeout: Duration) {
        if timeout.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let last = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed));
            let Some(end) = last.checked_add(timeout) else {
                return std::future::pending().await;
            };
            if Instant::now() >= end {
                return;
            }
            sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ceases_the_timeout_after_the_last_move() {
        let start = Instant::now();
        let activity = Activity::new();
        let moves = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(7)).await;
                activity.note();
            }
        };
        tokio::join!(moves, activity.ceases_for(Duration::from_secs(10)));
        assert_eq!(start.elapsed().as_secs(), 31);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timeout_it_never_ceases() {
        let activity = Activity::new();
        let year = Duration::from_secs(365 * 24 * 3600);
        assert!(tokio::time::timeout(year, activity.ceases_for(Duration::ZERO)).await.is_err());
    }
}
