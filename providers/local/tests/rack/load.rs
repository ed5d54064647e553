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

use tokio::task::JoinSet;

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
