//! Clients that ask without end, and count what failed.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by several test targets, each of which uses its own part"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use testkit::Awake;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::servers::{ask, eventually};

/// Clients at work.
pub struct Load {
    clients: JoinSet<Outcome>,
    enough: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
}

/// What they met.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Conversations that were as they should be.
    pub good: usize,
    /// What the others ended with.
    pub failures: Vec<String>,
    /// By whom they were served.
    pub shares: BTreeMap<String, usize>,
}

impl Load {
    /// So many clients, each with one short connection after another.
    pub fn start(entrance: SocketAddr, clients: usize) -> Self {
        let (enough, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (enough, done) = (Arc::clone(&enough), Arc::clone(&done));
            tasks.spawn(async move {
                let mut outcome = Outcome::default();
                while !enough.load(Ordering::Relaxed) {
                    match ask(entrance).await {
                        Ok(introduction) => {
                            outcome.good += 1;
                            *outcome.shares.entry(introduction.name).or_default() += 1;
                        }
                        Err(error) => outcome.failures.push(error.to_string()),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                outcome
            });
        }
        Self { clients: tasks, enough, done }
    }

    /// Conversations so far.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until there were this many more.
    pub async fn goes_on(&self, more: usize) {
        let goal = self.done() + more;
        eventually("the load goes on", || async { self.done() >= goal }).await;
    }

    /// Goes on through ten thousand conversations and two dozen changes at least: every other change takes one backend of three
    /// away, and the next brings it back. None may fail, and all three must have served.
    pub async fn through_changes(self, change: impl AsyncFn(Option<usize>)) {
        let (start, mut changes) = (Awake::now(), 0);
        while self.done() < 10_000 || changes < 24 {
            assert!(start.elapsed() < Duration::from_secs(120), "only {} conversations", self.done());
            change((changes % 2 == 0).then_some(changes % 3)).await;
            changes += 1;
            sleep(Duration::from_millis(20)).await;
        }
        let outcome = self.end().await;
        assert!(outcome.failures.is_empty(), "{} good, {:?}", outcome.good, outcome.failures);
        assert_eq!(outcome.shares.len(), 3, "{changes} changes, {outcome:?}");
    }

    /// Ends it.
    pub async fn end(mut self) -> Outcome {
        self.enough.store(true, Ordering::Relaxed);
        let mut sum = Outcome::default();
        while let Some(outcome) = self.clients.join_next().await {
            let outcome = outcome.unwrap();
            sum.good += outcome.good;
            sum.failures.extend(outcome.failures);
            for (name, count) in outcome.shares {
                *sum.shares.entry(name).or_default() += count;
            }
        }
        sum
    }
}
