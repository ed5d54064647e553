//! Holds the intent in force and has it carried out. A data plane in the manager's own process is fed here, one of its own
//! through `server`.

use std::sync::Arc;
use std::time::Duration;

use super::{FeedError, Proxy};
use crate::intent::{Held, Intent, Status, Store, StoreError};

/// The intent in force, and what makes it true.
#[derive(Debug)]
pub struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    proxy: Proxy,
    held: Held,
}

impl Keeper {
    /// A keeper whose intent ends with the process.
    pub fn in_memory() -> Self {
        Self(Arc::new(Inner { proxy: Proxy::new(), held: Held::default() }))
    }

    /// Takes up what the last process had. A file that cannot be understood is put aside, so that the manager's next
    /// intent can be kept; until then nothing is served.
    pub async fn take_up(store: Store) -> Result<Self, StoreError> {
        let held = Held::take_up(store)?;
        let proxy = Proxy::new();
        proxy.apply((*held.now().await).clone()).await;
        Ok(Self(Arc::new(Inner { proxy, held })))
    }

    /// The intent in force.
    pub async fn intent(&self) -> Arc<Intent> {
        self.0.held.now().await
    }

    /// What of the intent is true.
    pub async fn status(&self) -> Status {
        self.0.proxy.status().await
    }

    /// The counters, in the text format of Prometheus.
    pub async fn metrics(&self) -> String {
        self.0.proxy.metrics().await
    }

    /// Puts a whole new intent in force, which was made from the one of its own revision, and tells the revision that it
    /// has now. Refused whole or taken whole; when this returns, it is on disk and carried out.
    pub async fn apply(&self, wanted: Intent) -> Result<u64, FeedError> {
        let inner = Arc::clone(&self.0);
        // In a task of its own: a caller that loses interest in the middle must not leave half a change.
        let change = tokio::spawn(async move {
            inner.held.change(wanted, async |intent| inner.proxy.apply((*intent).clone()).await).await
        });
        change.await.unwrap_or_else(|panicked| Err(FeedError::Failed(panicked.to_string())))
    }

    /// Takes no new client, lets those who are here finish for at most `grace`, and ends. What is on disk stays.
    pub async fn stop(&self, grace: Duration) {
        self.0.proxy.stop(grace).await;
    }
}
