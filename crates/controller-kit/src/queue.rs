//! The work queue: keys that want a run, each at most once, handed to at most one worker at a time.
//!
//! What it promises:
//! - a key that is added while it is queued is not queued twice; one that is added while it runs runs once more;
//! - higher [`Priority`] first, first come first served within one. A second add can raise the priority of a queued key,
//!   never lower it, and the key keeps its place in line. Priorities are strict: lower ones wait for as long as
//!   something higher is ready. That cannot starve them for long, because a key stands in the queue only once and a
//!   failing one leaves it for its back-off;
//! - a delayed key is never early; of two delays the earlier wins. A plain add does not cancel a delay: the promise
//!   to come back later is kept;
//! - a key whose worker vanished without a verdict (its task was aborted) is ready again.
//!
//! It does not run anything: see [`crate::worker`].

mod limiter;
mod metrics;
mod state;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::limiter::Limiter;
pub use self::limiter::{Bucket, RateLimits};
pub(crate) use self::metrics::Labels;
pub use self::metrics::Metrics;
use self::metrics::{Gauged, Levels, QueueMetrics};
use self::state::{Effect, State};

/// What can be queued.
pub trait Key: Clone + Ord + Debug + Send + Sync + 'static {}

impl<T: Clone + Ord + Debug + Send + Sync + 'static> Key for T {}

/// Who goes first; higher numbers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Work nobody waits for: resyncs, drift scans, the first pass over objects that did not change.
    pub const LOW: Priority = Priority(-100);
    /// Work that follows from a change.
    pub const NORMAL: Priority = Priority(0);
    /// Work a person waits for.
    pub const HIGH: Priority = Priority(100);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// A key in the hands of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running<K> {
    /// What is being worked on.
    pub key: K,
    /// Since when.
    pub started: Instant,
    /// When it should be finished, if the workers have a deadline.
    pub deadline: Option<Instant>,
}

/// What a closed queue did not get done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover<K> {
    /// Asked for and not begun, or begun and handed back.
    pub queued: Vec<K>,
    /// Still in the hands of a worker.
    pub running: Vec<K>,
}

/// A work queue; clones are handles to the same queue.
#[derive(Debug)]
pub struct Queue<K: Key>(Arc<Shared<K>>);

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<K: Key> {
    name: String,
    state: Mutex<State<K>>,
    metrics: QueueMetrics,
    /// Told once per key that becomes ready, and to all waiters when the next wake-up moves or the queue closes.
    ready: Notify,
    /// Told to all waiters when a worker gives a key back.
    returned: Notify,
}

impl<K: Key> Queue<K> {
    /// A queue called `name` in the metrics.
    pub fn new(name: &str, limits: RateLimits, metrics: &Metrics) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::new(State::new(limits, Instant::now())),
            metrics: metrics.of(name),
            ready: Notify::new(),
            returned: Notify::new(),
        });
        let gauged: Weak<Shared<K>> = Arc::downgrade(&shared);
        metrics.observe(name, gauged);
        Self(shared)
    }

    /// The name it was built with.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Asks for a run of `key` as soon as a worker is free. Once the queue is closed nothing is queued any more; a key
    /// that is running then is handed back instead.
    pub fn add(&self, key: K, priority: Priority) {
        self.change(|state, now| state.add(key, priority, now));
    }

    /// Asks for a run of `key` after `delay`. Of several delays of one key the earliest counts.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        self.count_retry();
        self.change(|state, now| state.add_after(key, delay, priority, now));
    }

    /// Asks for a run of `key` after its back-off, which grows with each call until [`Queue::forget`].
    pub fn add_rate_limited(&self, key: K, priority: Priority) {
        self.count_retry();
        self.change(|state, now| state.add_rate_limited(key, priority, now));
    }

    /// Lets the back-off of `key` start over.
    pub fn forget(&self, key: &K) {
        self.lock().forget(key);
    }

    /// How often `key` was added with back-off since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        self.lock().failures(key)
    }

    /// The next key, as soon as there is one; `None` once the queue is closed. Safe to cancel.
    pub async fn next(&self) -> Option<Item<K>> {
        loop {
            // Registered before the look at the state, so that nothing that comes between is missed.
            let notified = self.0.ready.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(item) = self.try_next() {
                return Some(item);
            }
            let (closed, due) = {
                let state = self.lock();
                (state.is_closed(), state.next_due())
            };
            if closed {
                return None;
            }
            tokio::select! {
                biased;
                () = notified => {}
                () = sleep_until(due) => {}
            }
        }
    }

    /// The next key if one is ready now.
    pub fn try_next(&self) -> Option<Item<K>> {
        let taken = self.change(State::take)?;
        self.0.metrics.queue_duration.observe(taken.queued_for.as_secs_f64());
        Some(Item { queue: self.clone(), key: taken.key, priority: taken.priority, settled: false })
    }

    /// Runs asked for and not begun; delayed ones do not count until they are due.
    pub fn len(&self) -> usize {
        self.lock().depth()
    }

    /// Whether no run is asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for their time.
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    /// What is being worked on, by key.
    pub fn running(&self) -> Vec<Running<K>> {
        self.lock().running().collect()
    }

    /// Stops intake: nothing is added and nothing is handed out any more.
    pub fn close(&self) {
        self.lock().close();
        self.0.ready.notify_waiters();
    }

    /// Whether intake has stopped.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// Closes the queue, waits until the running keys are finished, at most for `within`, and hands back the rest.
    pub async fn drain(&self, within: Duration) -> Leftover<K> {
        self.close();
        let idle = async {
            loop {
                let returned = self.0.returned.notified();
                tokio::pin!(returned);
                returned.as_mut().enable();
                if self.lock().is_idle() {
                    return;
                }
                returned.await;
            }
        };
        // Whether it became idle or time ran out shows in what is left.
        let _ = tokio::time::timeout(within, idle).await;
        self.lock().leftover()
    }

    fn count_retry(&self) {
        if !self.is_closed() {
            self.0.metrics.retries.inc();
        }
    }

    fn change<T>(&self, operation: impl FnOnce(&mut State<K>, Instant) -> T) -> T::Answer
    where
        T: Changed,
    {
        let (answer, effect) = operation(&mut self.lock(), Instant::now()).split();
        self.0.metrics.adds.inc_by(effect.added as u64);
        for _ in 0..effect.released {
            self.0.ready.notify_one();
        }
        if effect.earlier {
            self.0.ready.notify_waiters();
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a change of the state returns: an effect, with or without an answer.
trait Changed {
    type Answer;
    fn split(self) -> (Self::Answer, Effect);
}

impl Changed for Effect {
    type Answer = ();
    fn split(self) -> ((), Effect) {
        ((), self)
    }
}

impl<A> Changed for (A, Effect) {
    type Answer = A;
    fn split(self) -> (A, Effect) {
        self
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl<K: Key> Gauged for Shared<K> {
    fn levels(&self) -> Levels {
        let now = Instant::now();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut levels = Levels { depth: state.depth(), ..Levels::default() };
        for running in state.running() {
            let elapsed = now.saturating_duration_since(running.started);
            levels.unfinished += elapsed;
            levels.longest = levels.longest.max(elapsed);
        }
        levels
    }
}

/// A key in a worker's hands. Settle it with one of the three verdicts; if it is dropped without one, as happens when a
/// task is aborted, the key is ready again.
#[derive(Debug)]
pub struct Item<K: Key> {
    queue: Queue<K>,
    key: K,
    priority: Priority,
    settled: bool,
}

impl<K: Key> Item<K> {
    /// What is to be worked on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority it was taken with.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// It is finished: its back-off starts over.
    pub fn done(mut self) {
        self.queue.forget(&self.key);
        self.give_back();
    }

    /// It failed: again after its back-off.
    pub fn retry(mut self) {
        self.queue.add_rate_limited(self.key.clone(), self.priority);
        self.give_back();
    }

    /// It asks to be run again after `delay`; its back-off neither grows nor starts over.
    pub fn retry_after(mut self, delay: Duration) {
        self.queue.add_after(self.key.clone(), delay, self.priority);
        self.give_back();
    }

    fn give_back(&mut self) {
        self.settled = true;
        if let Some(ran) = self.queue.change(|state, now| state.done(&self.key, now)) {
            self.queue.0.metrics.work_duration.observe(ran.as_secs_f64());
        }
        self.queue.0.returned.notify_waiters();
    }
}

impl<K: Key> Drop for Item<K> {
    fn drop(&mut self) {
        if !self.settled {
            self.queue.add(self.key.clone(), self.priority);
            self.give_back();
        }
    }
}
