//! How long single questions are gathered: hardly at all for the first ones, longer while they keep coming.
//!
//! A thousand machines that join within seconds would otherwise cost a list each time that a few of them asked. A batch
//! leaves when nobody has asked for a moment, or when it has gathered for long enough; both grow with each batch that
//! follows another closely. The last of a crowd therefore waits for the moment, not for the longest that a batch gathers.
//! A batch also leaves when it is a good part of the crowd so far: the calls grow with the logarithm of the crowd, and
//! whoever writes what was found is never idle for long, nor left with most of the work in the end.

use std::time::Duration;

use tokio::time::Instant;

/// The moment is at most the window times two to the power of this; a first batch gathers at most that part of the whole.
const MOST_DOUBLINGS: u32 = 4;

/// So many questions are worth a call in any case, once they have gathered for a little while.
const WORTH_A_CALL: usize = 250;

/// And so many of a large crowd: the crowd so far divided by this.
const PART_OF_THE_CROWD: usize = 3;

/// A crowd that comes in bursts has not ended before a pause of this part of the time that it has lasted.
const PART_OF_ITS_TIME: u32 = 16;

/// When batches of single questions left, as far as it matters for the next one.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    last: Option<Instant>,
    following: u32,
    /// When the first left of the batches that followed each other closely.
    began: Option<Instant>,
    /// How many questions left in the batches that followed each other closely.
    crowd: usize,
}

impl Rhythm {
    /// How long nobody must have asked before a batch leaves.
    pub(super) fn moment(&self, window: Duration, linger: Duration, now: Instant) -> Duration {
        if !self.follows(linger, now) {
            return window;
        }
        let lasted = self.began.map(|began| now.saturating_duration_since(began)).unwrap_or_default();
        // Fourfold each time: a crowd is recognised by its second batch.
        let grown = window * 2_u32.pow((2 * self.following).min(MOST_DOUBLINGS));
        grown.max(lasted / PART_OF_ITS_TIME).min(linger.max(window))
    }

    /// How long a batch gathers while questions keep coming or a look-up is under way.
    pub(super) fn longest(&self, window: Duration, linger: Duration, now: Instant) -> Duration {
        let doublings = if self.follows(linger, now) { self.following.min(MOST_DOUBLINGS) } else { 0 };
        (linger / 2_u32.pow(MOST_DOUBLINGS - doublings)).max(window)
    }

    /// How many questions make a batch leave after the [little while](Self::little_while).
    pub(super) fn enough(&self, linger: Duration, now: Instant) -> usize {
        let crowd = if self.follows(linger, now) { self.crowd } else { 0 };
        (crowd / PART_OF_THE_CROWD).max(WORTH_A_CALL)
    }

    /// How long even a batch that has enough gathers: those who all ask at once are asked for at once.
    pub(super) fn little_while(window: Duration, linger: Duration) -> Duration {
        (linger / 2_u32.pow(MOST_DOUBLINGS)).max(window)
    }

    /// A batch of so many questions leaves now.
    pub(super) fn left(&mut self, questions: usize, linger: Duration, now: Instant) {
        if self.follows(linger, now) {
            self.following = self.following.saturating_add(1);
            self.crowd = self.crowd.saturating_add(questions);
        } else {
            (self.following, self.crowd, self.began) = (1, questions, Some(now));
        }
        self.last = Some(now);
    }

    /// A question was answered without a batch: the crowd goes on.
    pub(super) fn goes_on(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// Whether what happens now follows closely on the last batch.
    pub(super) fn follows(&self, linger: Duration, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < linger)
    }
}
