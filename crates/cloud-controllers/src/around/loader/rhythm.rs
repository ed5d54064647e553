//! How long single questions are gathered: hardly at all for the first ones, longer while they keep coming.
//!
//! A thousand machines that join within seconds would otherwise cost a list each time that a few of them asked. A batch
//! leaves when nobody has asked for a moment; the moment doubles with each batch that follows another closely. The last
//! of a crowd therefore waits for that moment, not for the longest that a batch may gather.

use std::time::Duration;

use tokio::time::Instant;

/// The moment is the window times two to the power of this at most.
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

    /// A batch leaves now.
    pub(super) fn left(&mut self, linger: Duration, now: Instant) {
        self.following = if self.follows(linger, now) { self.following.saturating_add(1) } else { 1 };
        self.last = Some(now);
    }

    /// Whether what happens now follows closely on the last batch: twice the longest that one gathers.
    fn follows(&self, linger: Duration, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < 2 * linger)
    }
}
