//! The fence: whether this process may write now.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::timing::Timing;

/// How far past its lease a leader may be before its health check fails, as upstream.
const TOLERATED: Duration = Duration::from_secs(20);

/// Answers, at the moment of asking, whether this process may write. Cheap to clone; clones answer alike.
///
/// The answer is computed from the *sending* of the last renewal that succeeded (see [`Timing::validity`]) and the clock
/// at the call, so nothing needs to run for it to turn into a no: a process that was stopped, starved or swapped out for
/// longer than its lease gets the no with its first question. The clock is `CLOCK_MONOTONIC`, which goes on while a
/// process is stopped; it does not count the time a whole machine is suspended. A machine that wakes from suspension may
/// be told yes once until the renewal that is due by then fails: do not run managers on machines that sleep.
#[derive(Debug, Clone)]
pub struct Leadership(Option<Arc<Fence>>);

#[derive(Debug)]
struct Fence {
    lease: String,
    timing: Timing,
    /// When the renewal was sent that we stand on; `None` while we do not hold the lease.
    renewed: Mutex<Option<Instant>>,
}

/// This process believes to lead and has not renewed its lease for much longer than it lasts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {0}")]
pub struct Unrenewed(String);

impl Leadership {
    /// For a process that runs without leader election: always yes.
    pub fn unconditional() -> Self {
        Self(None)
    }

    pub(super) fn new(lease: &str, timing: Timing) -> Self {
        Self(Some(Arc::new(Fence { lease: lease.to_owned(), timing, renewed: Mutex::new(None) })))
    }

    /// Whether a write may be started now.
    pub fn may_write(&self) -> bool {
        self.valid_until().is_some_and(|end| Instant::now() < end)
    }

    /// Until when writes may be started if the lease is not renewed again; `None` if it is not held.
    pub fn valid_until(&self) -> Option<Instant> {
        let Some(fence) = &self.0 else {
            return Some(Instant::now() + Duration::from_secs(365 * 86_400));
        };
        fence.lock().map(|renewed| renewed + fence.timing.validity())
    }

    /// Whether this process holds the lease as far as it knows; unlike [`Leadership::may_write`] this stays true while
    /// renewals fail.
    pub fn is_leader(&self) -> bool {
        self.0.as_ref().is_none_or(|fence| fence.lock().is_some())
    }

    /// The health check `leaderElection`: fails only if this process leads and has not renewed for its lease and 20 s.
    pub fn check(&self) -> Result<(), Unrenewed> {
        let Some(fence) = &self.0 else { return Ok(()) };
        let limit = fence.timing.lease_duration + TOLERATED;
        match *fence.lock() {
            Some(renewed) if renewed.elapsed() > limit => Err(Unrenewed(fence.lease.clone())),
            _ => Ok(()),
        }
    }

    /// A renewal that was sent at `sent` succeeded.
    pub(super) fn extend(&self, sent: Instant) {
        if let Some(fence) = &self.0 {
            *fence.lock() = Some(sent);
        }
    }

    /// The lease is lost or about to be released.
    pub(super) fn revoke(&self) {
        if let Some(fence) = &self.0 {
            *fence.lock() = None;
        }
    }
}

impl Fence {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[tokio::test(start_paused = true)]
    async fn validity_counts_from_the_sending_and_ends_without_anybody_acting() {
        let leadership = Leadership::new("ccm", Timing::default());
        assert!(!leadership.may_write());
        let sent = Instant::now();
        advance(secs(4)).await;
        leadership.extend(sent);
        assert!(leadership.may_write() && leadership.is_leader());
        assert_eq!(leadership.valid_until(), Some(sent + Duration::from_millis(13_500)));
        // A clone taken before a long stop knows at once.
        let clone = leadership.clone();
        advance(Duration::from_millis(9_500)).await;
        assert!(!clone.may_write() && clone.is_leader());
        leadership.extend(Instant::now());
        assert!(clone.may_write());
        leadership.revoke();
        assert!(!clone.may_write() && !clone.is_leader());
    }

    /// Proves: APP-33
    #[tokio::test(start_paused = true)]
    async fn health_fails_only_for_a_leader_that_is_20_s_past_its_lease() {
        let leadership = Leadership::new("ccm", Timing::default());
        advance(secs(1000)).await;
        assert_eq!(leadership.check(), Ok(()), "a standby is healthy");
        leadership.extend(Instant::now());
        advance(secs(35)).await;
        assert_eq!(leadership.check(), Ok(()));
        advance(Duration::from_millis(1)).await;
        assert_eq!(
            leadership.check().unwrap_err().to_string(),
            "failed election to renew leadership on lease ccm"
        );
        leadership.revoke();
        assert_eq!(leadership.check(), Ok(()));
    }

    /// Proves: APP-36
    #[tokio::test(start_paused = true)]
    async fn without_election_writes_are_always_allowed() {
        let leadership = Leadership::unconditional();
        leadership.revoke();
        advance(secs(100_000)).await;
        assert!(leadership.may_write() && leadership.is_leader());
        assert_eq!(leadership.check(), Ok(()));
    }
}
