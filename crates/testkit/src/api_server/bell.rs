//! Wakes everybody who waits, in the order in which they began to wait: tokio's `watch` channel wakes in a random order,
//! and two runs of the same seed would differ.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Rung when something happened; what happened is to be looked up elsewhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bell(Arc<Notify>);

impl Bell {
    /// Wakes all who wait now.
    pub(crate) fn ring(&self) {
        self.0.notify_waiters();
    }

    /// Completes when the bell is rung after this call, whether or not anybody waits yet.
    pub(crate) fn next_ring(&self) -> OwnedNotified {
        Arc::clone(&self.0).notified_owned()
    }
}
