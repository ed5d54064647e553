//! What the workers of a queue are doing, for liveness: which key is past its own deadline.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::queue::{Key, Queue, Running};

/// A view of the running keys of one queue, whatever their type; clones show the same.
#[derive(Clone)]
pub struct Health {
    name: Arc<str>,
    deadline: Option<Duration>,
    snapshot: Arc<dyn Fn() -> Vec<Running<String>> + Send + Sync>,
}

/// Keys that run longer than they may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{queue} has worked on {} for {}s", keys.join(", "), longest.as_secs())]
pub struct Stalled {
    /// The queue's name.
    pub queue: String,
    /// The keys past their deadline.
    pub keys: Vec<String>,
    /// For how long the oldest of them has been running.
    pub longest: Duration,
}

impl Health {
    pub(super) fn new<K: Key>(queue: Queue<K>, deadline: Option<Duration>) -> Self {
        let name = queue.name().into();
        let snapshot = move || {
            let named = |running: Running<K>| Running {
                key: format!("{:?}", running.key),
                started: running.started,
                deadline: deadline.and_then(|limit| running.started.checked_add(limit)),
            };
            queue.running().into_iter().map(named).collect()
        };
        Self { name, deadline, snapshot: Arc::new(snapshot) }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is being worked on now.
    pub fn running(&self) -> Vec<Running<String>> {
        (self.snapshot)()
    }

    /// Fails if a key is past its deadline.
    pub fn check(&self) -> Result<(), Stalled> {
        let now = Instant::now();
        let late: Vec<Running<String>> = self
            .running()
            .into_iter()
            .filter(|running| running.deadline.is_some_and(|end| end <= now))
            .collect();
        let longest = late.iter().map(|running| now.saturating_duration_since(running.started)).max();
        match longest {
            None => Ok(()),
            Some(longest) => {
                let keys = late.into_iter().map(|running| running.key).collect();
                Err(Stalled { queue: self.name.to_string(), keys, longest })
            }
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("name", &self.name)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
