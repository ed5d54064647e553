//! One try to acquire or renew the lease: read, decide, write, each within its time.

use std::future::Future;

use tokio::time::{Instant, timeout};
use tracing::{debug, info};

use super::decide::{Decision, decide};
use super::elector::{Config, Elector};
use super::notice::Notice;
use super::record::{Lease, Record};
use super::store::StoreError;
use super::timing::Timing;

/// What one try came to.
#[derive(Debug)]
pub(super) enum Attempt {
    Holding,
    Waiting {
        until: Instant,
    },
    /// We held it, and now it says something else.
    Displaced,
    Failed(StoreError),
}

impl Elector {
    /// One try to acquire or renew: client-go's `tryAcquireOrRenew`.
    pub(super) async fn attempt(&mut self) -> Attempt {
        let led = self.leadership.is_leader();
        if led {
            // The fast path: nobody else can have written while our lease was valid, so there is no need to look.
            if self.lease.is_some() && Instant::now() < self.view.expires() {
                match self.claim(Decision::Renew).await {
                    Ok(()) => return Attempt::Holding,
                    Err(error) => {
                        debug!(error = &error as &dyn std::error::Error, "optimistic renewal failed");
                    }
                }
            }
            self.metrics.slowpath.inc();
        }
        if let Err(error) = self.look().await {
            return Attempt::Failed(error);
        }
        let displaced = !self.view.is_held_by(&self.config.identity)
            || (!self.view.exists() && !self.leadership.may_write());
        if led && displaced {
            return Attempt::Displaced;
        }
        match decide(&self.config.identity, &self.view, Instant::now()) {
            Decision::Wait { until } => Attempt::Waiting { until },
            decision => self.claim(decision).await.map_or_else(Attempt::Failed, |()| Attempt::Holding),
        }
    }

    /// Reads the lease.
    async fn look(&mut self) -> Result<(), StoreError> {
        match within(self.config.timing, self.store.get()).await {
            Ok(lease) => self.saw(lease),
            Err(StoreError::NotFound) => self.saw_nothing(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The lease was read.
    pub(super) fn saw(&mut self, lease: Lease) {
        let before = self.view.record().map(|record| record.holder.clone());
        self.view.see(lease.record(), Instant::now());
        let holder = lease.record().holder;
        self.lease = Some(lease);
        if !holder.is_empty() && holder != self.config.identity && before.as_ref() != Some(&holder) {
            info!(lease = self.config.name, holder, "new leader elected");
            self.notify(&Notice::NewLeader { identity: holder });
        }
    }

    /// There was no lease.
    pub(super) fn saw_nothing(&mut self) {
        self.view.see_nothing();
        self.lease = None;
    }

    /// Writes us in as the holder.
    async fn claim(&mut self, decision: Decision) -> Result<(), StoreError> {
        let Config { namespace, name, identity, timing } = &self.config;
        let record = Record::claim(identity, timing.lease_seconds(), self.view.record(), self.clock.now());
        let base = self.lease.clone().unwrap_or_else(|| Lease::new(namespace, name));
        let lease = base.with_record(&record);
        // An update without a version would overwrite whatever is there.
        if decision != Decision::Create && lease.resource_version().is_none() {
            return Err(StoreError::Conflict);
        }
        let sent = Instant::now();
        self.in_doubt = true;
        let answer = match decision {
            Decision::Create => within(*timing, self.store.create(&lease)).await,
            _ => within(*timing, self.store.update(&lease)).await,
        };
        match answer {
            Ok(lease) => {
                self.in_doubt = false;
                // The time of sending, not of the answer: others may have begun to count in between.
                self.view.see(lease.record(), sent);
                self.lease = Some(lease);
                self.leadership.extend(sent);
                Ok(())
            }
            Err(error) => {
                let refused =
                    matches!(error, StoreError::Conflict | StoreError::NotFound | StoreError::Forbidden(_));
                self.in_doubt = !refused;
                Err(error)
            }
        }
    }
}

/// Bounds a call, because a half-open connection would hold it for ever.
async fn within<T>(
    timing: Timing,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(timing.call_timeout(), call).await.unwrap_or(Err(StoreError::Timeout))
}
