//! Holds the intent in force: takes a new one only if it is sound and made from the one in force, keeps it on disk, and
//! has it carried out. A data plane in the manager's own process is fed here, one of its own through `server`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tracing::error;

use super::{FeedError, Proxy};
use crate::intent::{Intent, Status, Store, StoreError};

/// The intent in force, and what makes it true.
#[derive(Debug)]
pub struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    proxy: Proxy,
    /// Where the intent survives this process; `None` if it need not.
    store: Option<Store>,
    /// Held over a whole change.
    intent: Mutex<Arc<Intent>>,
}

impl Keeper {
    /// A keeper whose intent ends with the process.
    pub fn in_memory() -> Self {
        Self(Arc::new(Inner { proxy: Proxy::new(), store: None, intent: Mutex::default() }))
    }

    /// Takes up what the last process had. A file that cannot be understood is put aside, so that the manager's next
    /// intent can be kept; until then nothing is served.
    pub async fn take_up(store: Store) -> Result<Self, StoreError> {
        let kept = match store.read() {
            Ok(kept) => kept.unwrap_or_default(),
            Err(broken @ (StoreError::Parse(..) | StoreError::Refused(..))) => {
                let aside = store.put_aside()?;
                let why = std::error::Error::source(&broken).map(ToString::to_string);
                error!(error = %broken, why, aside = %aside.display(), "the kept intent is unusable");
                Intent::empty()
            }
            Err(unreadable) => return Err(unreadable),
        };
        let proxy = Proxy::new();
        proxy.apply(kept.clone()).await;
        Ok(Self(Arc::new(Inner { proxy, store: Some(store), intent: Mutex::new(Arc::new(kept)) })))
    }

    /// The intent in force.
    pub async fn intent(&self) -> Arc<Intent> {
        Arc::clone(&*self.0.intent.lock().await)
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
        let change = tokio::spawn(async move { inner.apply(wanted).await });
        change.await.unwrap_or_else(|panicked| Err(FeedError::Failed(panicked.to_string())))
    }

    /// Takes no new client, lets those who are here finish for at most `grace`, and ends. What is on disk stays.
    pub async fn stop(&self, grace: Duration) {
        self.0.proxy.stop(grace).await;
    }
}

impl Inner {
    async fn apply(&self, wanted: Intent) -> Result<u64, FeedError> {
        let mut in_force = self.intent.lock().await;
        if wanted.revision != in_force.revision {
            return Err(FeedError::Conflict { in_force: in_force.revision, made_from: wanted.revision });
        }
        wanted.check().map_err(|refusal| FeedError::Refused(refusal.to_string()))?;
        if wanted == **in_force {
            return Ok(in_force.revision);
        }
        let wanted = Arc::new(Intent { revision: in_force.revision + 1, ..wanted });
        self.keep(&wanted).await?;
        self.proxy.apply((*wanted).clone()).await;
        *in_force = Arc::clone(&wanted);
        Ok(wanted.revision)
    }

    async fn keep(&self, intent: &Arc<Intent>) -> Result<(), FeedError> {
        let Some(store) = self.store.clone() else { return Ok(()) };
        let intent = Arc::clone(intent);
        let written = tokio::task::spawn_blocking(move || store.write(&intent)).await;
        let told = |error: &dyn std::error::Error| {
            let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            FeedError::Failed(format!("{error}{source}"))
        };
        written.map_err(|error| told(&error))?.map_err(|error| told(&error))
    }
}
