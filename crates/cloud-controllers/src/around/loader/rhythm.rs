//! How long single questions are gathered: hardly at all for the first ones, longer while they keep coming.
//!
//! A thousand machines that join within seconds would otherwise cost a list each time that a few of them asked. A batch
//! leaves when nobody has asked for a moment, or when it has gathered for long enough; both double with each batch that
//! follows another closely. The last of a crowd therefore waits for the moment, not for the longest that a batch gathers.

use std::time::Duration;

use tokio::time::Instant;

/// The moment is at most the window times two to the power of this; a first batch gathers at most that part of the whole.
const MOST_DOUBLINGS: u32 = 4;

/// When batches of single questions left, as far as it matters for the next one.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    last: Option<Instant>,
    following: u32,
}

impl Rhythm {
    /// How long nobody must have asked before a batch leaves.
    pub(super) fn moment(&self, window: Duration, linger: Duration, now: Instant) -> Duration {
        if !self.follows(linger, now) {
            return window;
        }
        (window * 2_u32.pow(self.following.min(MOST_DOUBLINGS))).min(linger.max(window))
    }

    /// How long a batch gathers while questions keep coming or a look-up is under way.
    pub(super) fn longest(&self, window: Duration, linger: Duration, now: Instant) -> Duration {
        let doublings = if self.follows(linger, now) { self.following.min(MOST_DOUBLINGS) } else { 0 };
        (linger / 2_u32.pow(MOST_DOUBLINGS - doublings)).max(window)
    }

    /// A batch leaves now.
    pub(super) fn left(&mut self, linger: Duration, now: Instant) {
        self.following = if self.follows(linger, now) { self.following.saturating_add(1) } else { 1 };
        self.last = Some(now);
    }

    /// Whether what happens now follows closely on the last batch.
    fn follows(&self, linger: Duration, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < linger)
    }
}
