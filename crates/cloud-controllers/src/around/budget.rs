//! The budget of one cloud account, shared by all controllers: how many calls are under way at once, and whose turn it is.
//!
//! The more urgent goes first, and equals in the order they came. Some slots are kept free for creates, so that a
//! thousand refreshes, or ten that hang, do not keep a user waiting. How many slots there are is learned from the cloud:
//! see `budget/pace.rs`.

mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Decision, Error};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

pub use self::pace::Feedback;
use self::pace::{Era, Pace};
use super::metrics::{CloudMetrics, Metrics};
use super::urgency::Urgency;

/// The numbers of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many calls may be under way at once while the cloud does not complain.
    pub slots: NonZeroUsize,
    /// How many of these only creates may take. At least one is always left to the others.
    pub kept_for_creates: usize,
    /// All slots are back two windows after the cloud last throttled.
    pub window: Duration,
    /// The first pause when a cloud throttles and does not say for how long; it doubles, up to a window. A cloud that asks
    /// for less than a tenth of this gets the tenth.
    pub pause: Duration,
    /// A cloud that asks for a longer pause than this gets this one.
    pub longest_pause: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: NonZeroUsize::MIN.saturating_add(15),
            kept_for_creates: 4,
            window: Duration::from_secs(30),
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
        }
    }
}

/// A budget; clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when the pace changed, so that those who wait set their clocks anew.
    changed: Notify,
    metrics: CloudMetrics,
    account: String,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    creates: usize,
    ordinary: usize,
    next_number: u64,
    /// By [`Urgency::rank`], each in the order of the numbers.
    waiting: [VecDeque<(u64, oneshot::Sender<Slot>)>; 4],
}

impl Budget {
    /// A budget for the account of this name, which is the label of its metrics. Must be called inside a tokio runtime.
    pub fn new(account: &str, settings: Settings, metrics: &Metrics) -> Self {
        let metrics = metrics.of(account);
        metrics.slots(settings.slots.get());
        let state = State {
            pace: Pace::new(settings, Instant::now()),
            creates: 0,
            ordinary: 0,
            next_number: 0,
            waiting: Default::default(),
        };
        let (state, changed, account) = (Mutex::new(state), Notify::new(), account.to_owned());
        Self(Arc::new(Shared { state, changed, metrics, account }))
    }

    /// Waits for a slot, as long as it takes. Cancel safe: whoever gives up loses its place and costs nothing.
    pub async fn enter(&self, urgency: Urgency) -> Slot {
        let mut waiting = self.queue(urgency);
        loop {
            // Before the look, so that no change between the look and the wait is missed.
            let changed = self.0.changed.notified();
            let until = self.serve();
            let wake = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                slot = &mut waiting.slot => {
                    if let Ok(slot) = slot {
                        return slot;
                    }
                    // Nobody drops a place but its owner; should it ever happen, the call queues again.
                    waiting = self.queue(urgency);
                }
                () = changed => {}
                () = wake => {}
            }
        }
    }

    /// Until when no call of this urgency is started, because the cloud asked for a pause.
    pub fn paused_until(&self, urgency: Urgency) -> Option<Instant> {
        let mut state = self.lock();
        state.pace.advance(Instant::now());
        state.pace.paused_until(urgency)
    }

    /// How many calls may be under way at once, now.
    pub fn slots(&self) -> usize {
        let mut state = self.lock();
        state.pace.advance(Instant::now());
        state.pace.slots()
    }

    /// How many calls are under way.
    pub fn in_flight(&self) -> usize {
        let state = self.lock();
        state.creates + state.ordinary
    }

    /// How many calls wait for their turn.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.iter().map(VecDeque::len).sum()
    }

    fn queue(&self, urgency: Urgency) -> Place<'_> {
        let (sender, slot) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting[urgency.rank()].push_back((number, sender));
        self.0.metrics.waits(urgency);
        Place { budget: self, urgency, number, since: Instant::now(), slot }
    }

    /// Gives slots to those whose turn it is; says when to look again.
    fn serve(&self) -> Option<Instant> {
        let mut state = self.lock();
        let before = state.pace.slots();
        state.pace.advance(Instant::now());
        for urgency in Urgency::ALL {
            while state.has_room(urgency) {
                let Some((_, place)) = state.waiting[urgency.rank()].pop_front() else { break };
                state.took(urgency);
                let slot = Slot { budget: Some(self.clone()), urgency, era: state.pace.era() };
                if let Err(mut refused) = place.send(slot) {
                    // Its owner is about to leave the queue. Not by drop: that would take the lock again.
                    refused.budget = None;
                    state.left(urgency);
                }
            }
        }
        let (after, full, next) = (state.pace.slots(), state.pace.is_full(), state.pace.next_change());
        drop(state);
        if after > before {
            self.0.metrics.slots(after);
            let account = &self.0.account;
            if full {
                info!(account, slots = after, "the cloud has stopped throttling; back at full speed");
            } else {
                debug!(account, slots = after, "the cloud did not throttle lately; going faster");
            }
        }
        next
    }

    fn learn(&self, feedback: Feedback, urgency: Urgency, era: Era) {
        let mut state = self.lock();
        let now = Instant::now();
        let slower = state.pace.learn(feedback, urgency, era, now);
        let (slots, paused) = (state.pace.slots(), state.pace.paused_until(Urgency::Drift));
        drop(state);
        if let Feedback::Throttled(after) = feedback {
            self.0.metrics.throttled();
            self.0.metrics.slots(slots);
            let (account, pause) = (&self.0.account, paused.map(|end| end.saturating_duration_since(now)));
            if slower {
                warn!(account, %urgency, ?after, slots, ?pause, "the cloud throttles; going slower");
            } else {
                debug!(account, %urgency, ?after, "the cloud throttles what was sent before we knew");
            }
            self.0.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, urgency: Urgency) -> bool {
        let room = self.creates + self.ordinary < self.pace.slots();
        let allowed = urgency == Urgency::Create || self.ordinary < self.pace.ordinary_slots();
        room && allowed && self.pace.paused_until(urgency).is_none()
    }

    fn took(&mut self, urgency: Urgency) {
        *self.lane(urgency) += 1;
    }

    fn left(&mut self, urgency: Urgency) {
        *self.lane(urgency) -= 1;
    }

    fn lane(&mut self, urgency: Urgency) -> &mut usize {
        if urgency == Urgency::Create { &mut self.creates } else { &mut self.ordinary }
    }
}

/// A place in the queue; leaving it, with or without a slot, takes it out.
struct Place<'a> {
    budget: &'a Budget,
    urgency: Urgency,
    number: u64,
    since: Instant,
    /// A slot that nobody took is dropped with this, and so given back.
    slot: oneshot::Receiver<Slot>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.0.metrics.waited(self.urgency, self.since.elapsed());
        let queue = &mut self.budget.lock().waiting[self.urgency.rank()];
        if let Ok(at) = queue.binary_search_by_key(&self.number, |(number, _)| *number) {
            queue.remove(at);
        }
    }
}

/// The right to have one call under way, until it is dropped.
#[derive(Debug)]
#[must_use = "the slot is free again as soon as this is dropped"]
pub struct Slot {
    /// `None` only for a slot that was taken back before anybody had it.
    budget: Option<Budget>,
    urgency: Urgency,
    era: Era,
}

impl Slot {
    /// The call ended like this: what it says of the cloud is learned, and the slot is free.
    pub fn finished<T>(self, result: &Result<T, Error>) {
        self.ended(Feedback::of(result));
    }

    /// The same for a call whose answer says more than its result.
    pub fn ended(self, feedback: Feedback) {
        if let Some(budget) = &self.budget {
            budget.learn(feedback, self.urgency, self.era);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.take() {
            budget.lock().left(self.urgency);
            budget.serve();
        }
    }
}

impl Feedback {
    /// What a result says. Only [`Decision::Throttled`] is throttling: `RetryAfter` is a cloud at work on our behalf, and
    /// what never reached the cloud says nothing of it.
    pub fn of<T>(result: &Result<T, Error>) -> Self {
        match result.as_ref().map_err(Error::decision) {
            Err(Decision::Throttled { after }) => Self::Throttled(*after),
            Err(Decision::Fenced | Decision::Recorded) => Self::Silent,
            _ => Self::Untroubled,
        }
    }
}
