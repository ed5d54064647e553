//! Random schedules of queue operations, compared step by step with a model that is too simple to be wrong: a list of
//! wanted runs, a set of running keys and a map of delays.
//!
//! `QUEUE_SCHEDULES` sets how many schedules run; a failure names its seed, and `QUEUE_SEED` runs that one alone.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller_kit::queue::{Item, Metrics, Priority, Queue, RateLimits};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, advance, sleep};

const BASE: Duration = Duration::from_millis(5);
const MAX: Duration = Duration::from_millis(500);

type Key = u8;

/// A run that was asked for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    key: Key,
    priority: Priority,
    since: u64,
}

#[derive(Debug, Default)]
struct Model {
    wanted: Vec<Wanted>,
    running: BTreeSet<Key>,
    delayed: BTreeMap<Key, (Instant, u64, Priority)>,
    failures: BTreeMap<Key, u32>,
    unfinished: BTreeSet<Key>,
    ticks: u64,
    closed: bool,
}

impl Model {
    fn add(&mut self, key: Key, priority: Priority) {
        if self.closed {
            self.unfinished.extend(self.running.contains(&key).then_some(key));
            return;
        }
        self.ticks += 1;
        match self.wanted.iter_mut().find(|wanted| wanted.key == key) {
            Some(wanted) => wanted.priority = wanted.priority.max(priority),
            None => self.wanted.push(Wanted { key, priority, since: self.ticks }),
        }
    }

    fn add_after(&mut self, key: Key, delay: Duration, priority: Priority, now: Instant) {
        if delay.is_zero() || self.closed {
            return self.add(key, priority);
        }
        self.ticks += 1;
        let (at, tick) = (now + delay, self.ticks);
        let (old_at, old_tick, old_priority) =
            self.delayed.get(&key).copied().unwrap_or((at, tick, priority));
        let (at, tick) = (at, tick).min((old_at, old_tick));
        self.delayed.insert(key, (at, tick, priority.max(old_priority)));
    }

    fn add_rate_limited(&mut self, key: Key, priority: Priority, now: Instant) {
        if self.closed {
            return self.add(key, priority);
        }
        let failures = self.failures.entry(key).or_insert(0);
        let delay = (BASE * 2_u32.pow((*failures).min(20))).min(MAX);
        *failures += 1;
        self.add_after(key, delay, priority, now);
    }

    fn let_time_pass(&mut self, now: Instant) {
        let mut due: Vec<_> = self.delayed.iter().filter(|(_, (at, ..))| *at <= now).collect();
        due.sort_by_key(|(_, (at, tick, _))| (*at, *tick));
        let due: Vec<(Key, Priority)> =
            due.into_iter().map(|(key, (_, _, priority))| (*key, *priority)).collect();
        for (key, priority) in due {
            if !self.closed {
                self.delayed.remove(&key);
                self.add(key, priority);
            }
        }
    }

    /// What must be handed out next.
    fn take(&mut self) -> Option<(Key, Priority)> {
        let free = self.wanted.iter().enumerate().filter(|(_, wanted)| !self.running.contains(&wanted.key));
        let first = free.min_by_key(|(_, wanted)| (std::cmp::Reverse(wanted.priority), wanted.since));
        let (index, _) = first.filter(|_| !self.closed)?;
        let wanted = self.wanted.remove(index);
        self.running.insert(wanted.key);
        Some((wanted.key, wanted.priority))
    }

    fn left(&self) -> Vec<Key> {
        let wanted = self.wanted.iter().map(|wanted| wanted.key);
        let left: BTreeSet<Key> =
            wanted.chain(self.delayed.keys().copied()).chain(self.unfinished.iter().copied()).collect();
        left.into_iter().collect()
    }
}

async fn schedule(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let queue = Queue::new("model", RateLimits::backoff(BASE, MAX), &Metrics::unregistered());
    let mut model = Model::default();
    let mut items: Vec<Item<Key>> = Vec::new();
    let keys = rng.random_range(1..6);
    for step in 0..rng.random_range(10..60) {
        let now = Instant::now();
        model.let_time_pass(now);
        let key = rng.random_range(0..keys);
        let priority = *[Priority::LOW, Priority::NORMAL, Priority::HIGH].choose(&mut rng).unwrap();
        let delay = Duration::from_millis(rng.random_range(0..40));
        match rng.random_range(0..100) {
            0..20 => {
                queue.add(key, priority);
                model.add(key, priority);
            }
            20..32 => {
                queue.add_after(key, delay, priority);
                model.add_after(key, delay, priority, now);
            }
            32..40 => {
                queue.add_rate_limited(key, priority);
                model.add_rate_limited(key, priority, now);
            }
            40..65 => {
                let item = queue.try_next();
                let taken = item.as_ref().map(|item| (*item.key(), item.priority()));
                assert_eq!(taken, model.take(), "seed {seed} step {step}: handed out the wrong key");
                items.extend(item);
            }
            65..85 if !items.is_empty() => {
                let item = items.swap_remove(rng.random_range(0..items.len()));
                settle(item, &mut model, now, delay, rng.random_range(0..4));
            }
            85..88 => {
                queue.forget(&key);
                model.failures.remove(&key);
            }
            99 if rng.random_bool(0.3) => {
                queue.close();
                model.closed = true;
            }
            _ => advance(delay).await,
        }
        let now = Instant::now();
        model.let_time_pass(now);
        assert_eq!(
            queue.failures(&key),
            model.failures.get(&key).copied().unwrap_or(0),
            "seed {seed} step {step}"
        );
        let running: Vec<Key> = queue.running().into_iter().map(|running| running.key).collect();
        assert_eq!(running, model.running.iter().copied().collect::<Vec<_>>(), "seed {seed} step {step}");
    }
    finish(queue, model, items, seed).await;
}

/// Ends one item in one of the four ways.
fn settle(item: Item<Key>, model: &mut Model, now: Instant, delay: Duration, way: u8) {
    let (key, priority) = (*item.key(), item.priority());
    match way {
        0 => {
            item.done();
            model.failures.remove(&key);
        }
        1 => {
            item.retry();
            model.add_rate_limited(key, priority, now);
        }
        2 => {
            item.retry_after(delay);
            model.add_after(key, delay, priority, now);
        }
        _ => {
            drop(item);
            model.add(key, priority);
        }
    }
    model.running.remove(&key);
}

/// Everything that was asked for comes out: by running it if the queue is open, as a left-over if it is closed.
async fn finish(queue: Queue<Key>, mut model: Model, items: Vec<Item<Key>>, seed: u64) {
    for item in items {
        let now = Instant::now();
        model.let_time_pass(now);
        settle(item, &mut model, now, Duration::ZERO, 0);
    }
    if model.closed {
        assert!(queue.next().await.is_none());
        assert_eq!(queue.drain(Duration::ZERO).await.queued, model.left(), "seed {seed}: lost after closing");
        return;
    }
    advance(MAX * 2).await;
    model.let_time_pass(Instant::now());
    loop {
        let item = queue.try_next();
        assert_eq!(
            item.as_ref().map(|item| *item.key()),
            model.take().map(|(key, _)| key),
            "seed {seed}: at the end"
        );
        let Some(item) = item else { break };
        model.running.remove(item.key());
        item.done();
    }
    assert_eq!((queue.len(), queue.waiting()), (0, 0), "seed {seed}");
}

fn seeds(variable: &str, usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("QUEUE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number(variable).unwrap_or(usual)).collect(),
    }
}

/// Proves: RT-5
#[tokio::test(start_paused = true)]
async fn ten_thousand_random_schedules_agree_with_the_model() {
    for seed in seeds("QUEUE_SCHEDULES", 10_000) {
        schedule(seed).await;
    }
}

/// The same promises seen from outside, with real waiting: workers block in `next`, producers add at random times.
async fn crowd(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let queue: Queue<Key> = Queue::new("crowd", RateLimits::backoff(BASE, MAX), &Metrics::unregistered());
    let diary = std::sync::Arc::new(std::sync::Mutex::new(Diary::default()));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..rng.random_range(1..4_u64) {
        let (queue, diary) = (queue.clone(), diary.clone());
        let mut rng = SmallRng::seed_from_u64(seed ^ (worker << 32));
        workers.spawn(async move {
            while let Some(item) = queue.next().await {
                diary.lock().unwrap().begin(*item.key());
                sleep(Duration::from_millis(rng.random_range(0..30))).await;
                diary.lock().unwrap().end(*item.key());
                if rng.random_bool(0.2) { item.retry() } else { item.done() }
            }
        });
    }
    let mut last_due = BTreeMap::new();
    for _ in 0..20 {
        let (key, delay) = (rng.random_range(0..4), Duration::from_millis(rng.random_range(0..50)));
        queue.add_after(key, delay, Priority::NORMAL);
        let due: &mut Instant = last_due.entry(key).or_insert(Instant::now());
        *due = (*due).max(Instant::now());
        sleep(Duration::from_millis(rng.random_range(0..20))).await;
    }
    sleep(Duration::from_secs(60)).await;
    queue.close();
    while workers.join_next().await.is_some() {}
    let diary = diary.lock().unwrap();
    assert!(!diary.overlapped, "seed {seed}: two workers on one key");
    for (key, asked) in last_due {
        let last = diary.begun.get(&key).copied();
        assert!(last.is_some_and(|begun| begun >= asked), "seed {seed}: an add of {key} was lost");
    }
    assert_eq!((queue.len(), queue.waiting(), diary.running.len()), (0, 0, 0), "seed {seed}");
}

#[derive(Debug, Default)]
struct Diary {
    running: BTreeSet<Key>,
    begun: BTreeMap<Key, Instant>,
    overlapped: bool,
}

impl Diary {
    fn begin(&mut self, key: Key) {
        self.overlapped |= !self.running.insert(key);
        self.begun.insert(key, Instant::now());
    }

    fn end(&mut self, key: Key) {
        self.running.remove(&key);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_workers_lose_no_add_and_never_share_a_key() {
    for seed in seeds("QUEUE_CROWDS", 1_000) {
        crowd(seed).await;
    }
}
