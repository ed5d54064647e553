//! Growing pauses between failures, jittered from the injected randomness. The numbers are client-go's reflector's.

use std::time::Duration;

use crate::random::Randomness;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);

pub(super) struct Backoff {
    next: Duration,
    random: Randomness,
}

impl Backoff {
    pub(super) fn new(random: Randomness) -> Self {
        Self { next: FIRST, random }
    }

    /// Things work again.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Sleeps for the current pause, up to twice as long, and doubles the next.
    pub(super) async fn pause(&mut self) {
        let pause = self.random.jitter(self.next, 1.0);
        self.next = (self.next * 2).min(LONGEST);
        tokio::time::sleep(pause).await;
    }
}
