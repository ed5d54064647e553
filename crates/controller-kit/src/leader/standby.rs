//! How a standby waits for its turn: it watches the Lease where its role allows that, looks often where not, and wakes
//! when the lease expires. Either way it learns of a release within about a second.

use futures::StreamExt;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info};

use super::decide::{Decision, decide};
use super::elector::Elector;
use super::store::{LeaseWatch, StoreError};

impl Elector {
    /// Returns when another try may succeed: the lease was released, deleted or has expired, or it is time to look.
    pub(super) async fn await_turn(&mut self, expiry: Instant) {
        if let Some(watch) = self.open_watch().await
            && self.follow(watch, expiry).await
        {
            return;
        }
        let poll = Instant::now() + self.random.jitter(self.config.timing.poll_period(), 0.2);
        sleep_until(poll.min(expiry)).await;
    }

    async fn open_watch(&mut self) -> Option<LeaseWatch> {
        let version = self.lease.as_ref()?.resource_version().filter(|_| self.may_watch)?.to_owned();
        match timeout(self.config.timing.call_timeout(), self.store.watch(&version)).await {
            Ok(Ok(watch)) => Some(watch),
            Ok(Err(StoreError::Forbidden(_))) => {
                info!(
                    lease = self.config.name,
                    "not allowed to watch the lease, looking at it every second instead"
                );
                self.may_watch = false;
                None
            }
            Ok(Err(error)) => {
                debug!(error = &error as &dyn std::error::Error, "watching the lease failed");
                None
            }
            Err(_) => None,
        }
    }

    /// Follows the lease; true when it is time for another try, false when the watch ended.
    async fn follow(&mut self, mut watch: LeaseWatch, mut expiry: Instant) -> bool {
        loop {
            let silence = Instant::now() + self.config.timing.watch_patience();
            tokio::select! {
                biased;
                event = watch.next() => match event {
                    Some(Ok(Some(lease))) => self.saw(lease),
                    Some(Ok(None)) => self.saw_nothing(),
                    Some(Err(_)) | None => return false,
                },
                () = sleep_until(expiry.min(silence)) => return true,
            }
            match decide(&self.config.identity, &self.view, Instant::now()) {
                Decision::Wait { until } => expiry = until,
                _ => return true,
            }
        }
    }
}
