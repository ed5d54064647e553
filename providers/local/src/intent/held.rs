//! The intent in force: one that is sound and was made from the one before, and that outlives the process if it is to.

use std::sync::Arc;

use tokio::sync::Mutex;
use tracing::error;

use super::{Intent, Store, StoreError};
use crate::proxy::FeedError;

/// The intent in force, and where it survives.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// `None` if it need not survive the process.
    store: Option<Store>,
    /// Held over a whole change.
    intent: Mutex<Arc<Intent>>,
}

impl Held {
    /// Takes up what the last process had. A file that cannot be understood is put aside, so that the manager's next
    /// intent can be kept; until then nothing is wanted.
    pub(crate) fn take_up(store: Store) -> Result<Self, StoreError> {
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
        Ok(Self { store: Some(store), intent: Mutex::new(Arc::new(kept)) })
    }

    /// The intent in force.
    pub(crate) async fn now(&self) -> Arc<Intent> {
        Arc::clone(&*self.intent.lock().await)
    }

    /// Puts a new intent in force, which was made from the one of its own revision: checks it, keeps it, has it carried
    /// out, and tells the revision that it has now.
    pub(crate) async fn change(
        &self,
        wanted: Intent,
        carry_out: impl AsyncFnOnce(Arc<Intent>),
    ) -> Result<u64, FeedError> {
        let mut in_force = self.intent.lock().await;
        if wanted.revision != in_force.revision {
            return Err(FeedError::Conflict { in_force: in_force.revision, made_from: wanted.revision });
        }
        wanted.check_after(&in_force).map_err(|refusal| FeedError::Refused(refusal.to_string()))?;
        if wanted == **in_force {
            return Ok(in_force.revision);
        }
        let wanted = Arc::new(Intent { revision: in_force.revision + 1, ..wanted });
        self.keep(&wanted).await?;
        carry_out(Arc::clone(&wanted)).await;
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
