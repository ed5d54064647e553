//! The queue without its clock and its locks: which keys are ready, running, dirty and waiting. Every operation is
//! told the time, so a property test can compare it with a simpler model step by step.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Key, Leftover, Limiter, Priority, RateLimits, Running};

/// Order of the ready keys: higher priority first, then first come.
type Rank = (Reverse<Priority>, u64);

#[derive(Debug)]
pub(super) struct State<K> {
    /// All that is known of each key; a key of which nothing is known has no entry.
    entries: BTreeMap<K, Entry>,
    ready: BTreeMap<Rank, K>,
    waiting: BTreeSet<(Instant, u64, K)>,
    limiter: Limiter<K>,
    /// Numbers arrivals, for the order within one priority and one instant.
    arrivals: u64,
    closed: bool,
    /// Keys that were asked for again by their worker or for their worker after closing.
    returned: BTreeSet<K>,
}

#[derive(Debug, Default)]
struct Entry {
    ready: Option<Ready>,
    running: Option<Instant>,
    waiting: Option<Waiting>,
}

/// A key that wants a run. While the key is running this is its dirty mark and stands in no rank.
#[derive(Debug, Clone, Copy)]
struct Ready {
    priority: Priority,
    arrival: u64,
    since: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    at: Instant,
    arrival: u64,
    priority: Priority,
}

/// What was handed to a worker.
#[derive(Debug)]
pub(super) struct Taken<K> {
    pub(super) key: K,
    pub(super) priority: Priority,
    pub(super) queued_for: Duration,
}

/// What an operation changed that others must hear of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effect {
    /// Keys that a worker can take now and could not before.
    pub(super) released: usize,
    /// Runs newly asked for: what `workqueue_adds_total` counts.
    pub(super) added: usize,
    /// The next waiting key is due earlier than before.
    pub(super) earlier: bool,
}

impl<K: Key> State<K> {
    pub(super) fn new(limits: RateLimits, now: Instant) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: BTreeMap::new(),
            waiting: BTreeSet::new(),
            limiter: Limiter::new(limits, now),
            arrivals: 0,
            closed: false,
            returned: BTreeSet::new(),
        }
    }

    /// Asks for a run now.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Instant) -> Effect {
        if self.closed {
            return self.refuse(key);
        }
        let mut effect = self.promote(now);
        self.want(key, priority, now, &mut effect);
        effect
    }

    /// Asks for a run after `delay`. A key that waits already keeps the earlier of the two times and the higher of
    /// the two priorities.
    pub(super) fn add_after(&mut self, key: K, delay: Duration, priority: Priority, now: Instant) -> Effect {
        if delay.is_zero() || self.closed {
            return self.add(key, priority, now);
        }
        let effect = self.promote(now);
        let before = self.next_due();
        self.arrivals += 1;
        // A delay beyond the clock's range is as good as for ever: a century.
        let at = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400));
        let mut next = Waiting { at, arrival: self.arrivals, priority };
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(old) = entry.waiting {
            self.waiting.remove(&(old.at, old.arrival, key.clone()));
            next.priority = next.priority.max(old.priority);
            if old.at <= next.at {
                (next.at, next.arrival) = (old.at, old.arrival);
            }
        }
        entry.waiting = Some(next);
        self.waiting.insert((next.at, next.arrival, key));
        Effect { earlier: self.next_due() < before || before.is_none(), ..effect }
    }

    /// Asks for a run after the back-off that `key` has earned.
    pub(super) fn add_rate_limited(&mut self, key: K, priority: Priority, now: Instant) -> Effect {
        if self.closed {
            return self.refuse(key);
        }
        let delay = self.limiter.next_delay(&key, now);
        self.add_after(key, delay, priority, now)
    }

    /// Hands the first ready key to a worker.
    pub(super) fn take(&mut self, now: Instant) -> (Option<Taken<K>>, Effect) {
        let effect = self.promote(now);
        if self.closed {
            return (None, effect);
        }
        let Some((_, key)) = self.ready.pop_first() else { return (None, effect) };
        let entry = self.entries.entry(key.clone()).or_default();
        entry.running = Some(now);
        let taken = entry.ready.take().map(|ready| Taken {
            key,
            priority: ready.priority,
            queued_for: now.saturating_duration_since(ready.since),
        });
        (taken, effect)
    }

    /// Takes `key` back from its worker and says how long it ran. If it was dirtied meanwhile it is ready again.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> (Option<Duration>, Effect) {
        let mut effect = self.promote(now);
        let Some(entry) = self.entries.get_mut(key) else { return (None, effect) };
        let ran = entry.running.take().map(|started| now.saturating_duration_since(started));
        if ran.is_some()
            && let Some(ready) = entry.ready
        {
            self.ready.insert((Reverse(ready.priority), ready.arrival), key.clone());
            effect.released += 1;
        }
        self.prune(key);
        (ran, effect)
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.limiter.failures(key)
    }

    /// Stops intake: nothing is added or handed out any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Everything that was asked for and not finished.
    pub(super) fn leftover(&self) -> Leftover<K> {
        let asked = self.entries.iter().filter(|(_, entry)| entry.ready.is_some() || entry.waiting.is_some());
        let queued: BTreeSet<K> =
            asked.map(|(key, _)| key.clone()).chain(self.returned.iter().cloned()).collect();
        let running = self.running().map(|running| running.key).collect();
        Leftover { queued: queued.into_iter().collect(), running }
    }

    /// When the next waiting key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(at, ..)| *at)
    }

    /// Runs asked for and not begun, those of running keys included.
    pub(super) fn depth(&self) -> usize {
        self.entries.values().filter(|entry| entry.ready.is_some()).count()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> impl Iterator<Item = Running<K>> {
        self.entries.iter().filter_map(|(key, entry)| {
            Some(Running { key: key.clone(), started: entry.running?, deadline: None })
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.entries.values().all(|entry| entry.running.is_none())
    }

    /// Moves every waiting key whose time has come to the ready ones.
    fn promote(&mut self, now: Instant) -> Effect {
        let mut effect = Effect::default();
        while !self.closed && self.next_due().is_some_and(|due| due <= now) {
            let Some((at, _, key)) = self.waiting.pop_first() else { break };
            let waited = self.entries.get_mut(&key).and_then(|entry| entry.waiting.take());
            let priority = waited.map_or(Priority::NORMAL, |waiting| waiting.priority);
            self.want(key, priority, at, &mut effect);
        }
        effect
    }

    /// Marks `key` as wanting a run: ready if it is idle, dirty if it is running, and nothing new if it wanted one
    /// already; only its priority can rise, and it keeps its place in line within the higher one.
    fn want(&mut self, key: K, priority: Priority, now: Instant, effect: &mut Effect) {
        self.arrivals += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        let (old, new) = match entry.ready {
            Some(old) => (Some(old), Ready { priority: priority.max(old.priority), ..old }),
            None => (None, Ready { priority, arrival: self.arrivals, since: now }),
        };
        entry.ready = Some(new);
        effect.added += usize::from(old.is_none());
        if entry.running.is_some() {
            return;
        }
        effect.released += usize::from(old.is_none());
        if let Some(old) = old {
            self.ready.remove(&(Reverse(old.priority), old.arrival));
        }
        self.ready.insert((Reverse(new.priority), new.arrival), key);
    }

    /// Intake has stopped. A key that is running is not finished by its present run, so it is handed back.
    fn refuse(&mut self, key: K) -> Effect {
        if self.entries.get(&key).is_some_and(|entry| entry.running.is_some()) {
            self.returned.insert(key);
        }
        Effect::default()
    }

    fn prune(&mut self, key: &K) {
        let idle =
            |entry: &Entry| entry.ready.is_none() && entry.running.is_none() && entry.waiting.is_none();
        if self.entries.get(key).is_some_and(idle) {
            self.entries.remove(key);
        }
    }
}
