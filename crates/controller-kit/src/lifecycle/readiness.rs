//! Whether everything that has to be ready is ready. The answer is what a `/readyz` endpoint gives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Counts handles that were handed out and not completed; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Names of the handles that are still out, with how many of that name there are.
    open: Mutex<BTreeMap<String, usize>>,
    /// Bumped whenever a handle is completed.
    completed: watch::Sender<u64>,
}

impl Readiness {
    /// Hands out a handle: from now on the process is not ready until it is completed or dropped.
    #[must_use = "the process is not ready until this handle is completed or dropped"]
    pub fn handle(&self, name: impl Into<String>) -> ReadyHandle {
        let name = name.into();
        *self.open().entry(name.clone()).or_insert(0) += 1;
        ReadyHandle { name, readiness: self.clone() }
    }

    /// Whether every handle was completed.
    pub fn is_ready(&self) -> bool {
        self.open().is_empty()
    }

    /// What the process still waits for.
    pub fn waiting_for(&self) -> Vec<String> {
        self.open().keys().cloned().collect()
    }

    /// Waits until every handle was completed.
    pub async fn wait(&self) {
        self.wait_until(BTreeMap::is_empty).await;
    }

    /// Waits until the handles of these names were completed.
    pub async fn wait_for(&self, names: &[String]) {
        self.wait_until(|open| names.iter().all(|name| !open.contains_key(name))).await;
    }

    async fn wait_until(&self, done: impl Fn(&BTreeMap<String, usize>) -> bool) {
        let mut completed = self.0.completed.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = completed.wait_for(|_| done(&self.open())).await;
    }

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody's promise to become ready. Dropping it keeps the promise too, so that a task that has nothing to prepare
/// need not know of it.
#[derive(Debug)]
pub struct ReadyHandle {
    name: String,
    readiness: Readiness,
}

impl ReadyHandle {
    /// Says that its holder is ready.
    pub fn complete(self) {
        drop(self);
    }
}

impl Drop for ReadyHandle {
    fn drop(&mut self) {
        let mut open = self.readiness.open();
        if let Some(count) = open.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.name);
            }
        }
        drop(open);
        self.readiness.0.completed.send_modify(|count| *count += 1);
    }
}
