//! The elector: the life of one candidate, from standing for the lease over holding it to releasing it.
//! One try is in `attempt.rs`; how a standby spends its time between two tries is in `standby.rs`.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::attempt::Attempt;
use super::decide::View;
use super::leadership::Leadership;
use super::metrics::{ElectorMetrics, Metrics};
use super::notice::{Listener, Notice};
use super::record::{Lease, Record};
use super::store::{LeaseStore, StoreError};
use super::timing::{InvalidTiming, JITTER_FACTOR, Timing};
use crate::clock::SharedClock;
use crate::random::Randomness;

/// Who stands for which lease.
#[derive(Debug, Clone)]
pub struct Config {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name, which is also the label of the metrics.
    pub name: String,
    /// Our identity; see [`super::identity`].
    pub identity: String,
    /// The three numbers.
    pub timing: Timing,
}

/// What an elector works with.
#[derive(Clone)]
pub struct Surroundings {
    /// Where the Lease is.
    pub store: Arc<dyn LeaseStore>,
    /// Only for the times written into the record.
    pub clock: SharedClock,
    /// For jitter.
    pub random: Randomness,
    /// What is counted.
    pub metrics: Metrics,
    /// Who is told of changes.
    pub listener: Listener,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended<T> {
    /// Asked to stop before it led.
    NeverLed,
    /// The work ended by itself; the lease was released after it.
    Finished(T),
    /// The lease is lost and the work was dropped. The process should end: what it knows may be out of date.
    Lost,
}

/// A run of failed calls: its first failure and its end are said aloud, the failures in between only to those who ask.
#[derive(Debug, Default)]
struct Outage {
    said: bool,
}

impl Outage {
    fn seen(&mut self, lease: &str, error: &StoreError, what: &str) {
        let error = error as &dyn std::error::Error;
        if self.said {
            debug!(lease, error, "{what}");
        } else {
            warn!(lease, error, "{what}");
        }
        self.said = true;
    }

    fn over(&mut self, lease: &str) {
        if std::mem::take(&mut self.said) {
            info!(lease, "the lease can be reached again");
        }
    }
}

/// A candidate for one lease.
pub struct Elector {
    pub(super) config: Config,
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) clock: SharedClock,
    pub(super) random: Randomness,
    pub(super) metrics: ElectorMetrics,
    listener: Listener,
    pub(super) leadership: Leadership,
    pub(super) view: View,
    /// The object as last seen, whose resourceVersion guards the next update; `None` if there is none.
    pub(super) lease: Option<Lease>,
    /// A write of ours was sent and its answer never came: we may hold the lease without knowing.
    pub(super) in_doubt: bool,
    /// Whether the role allows a watch, as far as is known.
    pub(super) may_watch: bool,
}

impl Elector {
    /// A candidate that has not tried yet.
    pub fn new(config: Config, surroundings: Surroundings) -> Result<Self, InvalidTiming> {
        config.timing.validate()?;
        let Surroundings { store, clock, random, metrics, listener } = surroundings;
        let metrics = metrics.of(&config.name);
        metrics.master_status.set(0);
        Ok(Self {
            leadership: Leadership::new(&config.name, config.timing),
            view: View::new(Instant::now()),
            config,
            store,
            clock,
            random,
            metrics,
            listener,
            lease: None,
            in_doubt: false,
            may_watch: true,
        })
    }

    /// The handle that says whether this process may write; valid for the elector's whole life.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Stands for the lease, does `work` while holding it, and releases it when the work has ended.
    ///
    /// `stop` ends the waiting only. Work that has begun must watch for it itself; the lease is renewed until the work
    /// returns, so that its last writes are still covered, and is released only then.
    pub async fn run<W, F>(mut self, stop: &CancellationToken, work: W) -> Ended<F::Output>
    where
        W: FnOnce(Leadership) -> F,
        F: Future,
    {
        if !self.acquire(stop).await {
            return Ended::NeverLed;
        }
        let leadership = self.leadership();
        let finished = CancellationToken::new();
        let ending = finished.clone();
        // A task of its own, so that work that keeps its thread busy does not cost the lease.
        let mut renewal = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::select! {
                biased;
                () = ending.cancelled() => self.release().await,
                () = self.hold() => {}
            }
        }));
        tokio::select! {
            biased;
            _ = &mut renewal => Ended::Lost,
            output = work(leadership) => {
                finished.cancel();
                // The only way for it to fail is a panic, and then the lease runs out by itself.
                let _ = renewal.await;
                Ended::Finished(output)
            }
        }
    }

    /// Waits until we hold the lease; false if `stop` came first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let acquired = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.stand() => true,
        };
        if acquired {
            info!(lease = self.config.name, identity = self.config.identity, "became leader");
            self.metrics.master_status.set(1);
            self.notify(&Notice::BecameLeader { identity: self.config.identity.clone() });
        } else {
            self.release().await;
        }
        acquired
    }

    async fn stand(&mut self) {
        let mut outage = Outage::default();
        loop {
            let attempt = self.attempt().await;
            if !matches!(attempt, Attempt::Failed(_)) {
                outage.over(&self.config.name);
            }
            match attempt {
                Attempt::Holding => return,
                Attempt::Waiting { until } => self.await_turn(until).await,
                Attempt::Displaced => {}
                Attempt::Failed(error) => {
                    outage.seen(
                        &self.config.name,
                        &error,
                        "acquiring failed; trying again until it succeeds",
                    );
                    sleep(self.random.jitter(self.config.timing.retry_period, JITTER_FACTOR)).await;
                }
            }
        }
    }

    /// Renews the lease until it is lost.
    pub async fn hold(&mut self) {
        let Timing { renew_deadline, retry_period, .. } = self.config.timing;
        loop {
            sleep(retry_period).await;
            let deadline = Instant::now() + renew_deadline;
            if let Ok(true) = timeout_at(deadline, self.renew()).await {
                continue;
            }
            self.leadership.revoke();
            warn!(lease = self.config.name, identity = self.config.identity, "leaderelection lost");
            self.stopped_leading();
            return;
        }
    }

    /// Tries until it succeeds; false once another holds the lease.
    async fn renew(&mut self) -> bool {
        let mut outage = Outage::default();
        loop {
            match self.attempt().await {
                Attempt::Holding => {
                    outage.over(&self.config.name);
                    return true;
                }
                Attempt::Displaced | Attempt::Waiting { .. } => return false,
                Attempt::Failed(error) => {
                    outage.seen(
                        &self.config.name,
                        &error,
                        "renewing failed; trying again until the renew deadline",
                    );
                    sleep(self.config.timing.retry_period).await;
                }
            }
        }
    }

    /// Gives the lease up if we hold it or may hold it, so that a standby need not wait for it to expire.
    pub async fn release(&mut self) {
        let led = self.leadership.is_leader();
        if !led && !self.in_doubt {
            return;
        }
        // First of all: from here on nothing may rely on the lease.
        self.leadership.revoke();
        match timeout(self.config.timing.call_timeout(), self.try_release()).await {
            Ok(Ok(())) => {
                info!(lease = self.config.name, identity = self.config.identity, "released the lease");
            }
            Ok(Err(error)) => {
                warn!(lease = self.config.name, error = &error as &dyn std::error::Error, "releasing failed");
            }
            Err(_) => warn!(lease = self.config.name, "releasing took too long"),
        }
        if led {
            self.stopped_leading();
        }
    }

    async fn try_release(&mut self) -> Result<(), StoreError> {
        let mut fresh = !self.in_doubt;
        loop {
            if !fresh {
                let lease = self.store.get().await?;
                self.view.see(lease.record(), Instant::now());
                self.lease = Some(lease);
            }
            let (Some(lease), true) = (&self.lease, self.view.is_held_by(&self.config.identity)) else {
                return Ok(());
            };
            let released = lease.with_record(&Record::release(&lease.record(), self.clock.now()));
            match self.store.update(&released).await {
                // A renewal that was cut short may have landed after all: look again.
                Err(StoreError::Conflict) => fresh = false,
                Err(error) => return Err(error),
                Ok(lease) => {
                    self.view.see(lease.record(), Instant::now());
                    self.lease = Some(lease);
                    self.in_doubt = false;
                    return Ok(());
                }
            }
        }
    }

    fn stopped_leading(&self) {
        self.metrics.master_status.set(0);
        self.notify(&Notice::StoppedLeading { identity: self.config.identity.clone() });
    }

    pub(super) fn notify(&self, notice: &Notice) {
        (self.listener)(notice);
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("config", &self.config)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}
