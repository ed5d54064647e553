//! The service controller: load balancers that are made fast, kept true, and never leaked.
//!
//! [`wish`] says what a Service asks for, [`backends`] which nodes serve, [`plan`] what is next; `sync` does it, in steps:
//! `ensure`, `look`, `cleanup`. `ledger` is what is known meanwhile, `lanes` the two queues: one for what somebody waits
//! for and one for the rest, so that a thousand comparisons never stand before a new Service. `sweep` looks for what was
//! left behind.
//!
//! What it promises: the finalizer stands before the first call to the cloud and until nothing is left there; one worker
//! per load balancer; no status is cleared because of an error; what was not changed is not touched, by a restart
//! either; nothing that a Service asks for is silently left out.

pub mod backends;
mod balancers;
mod cleanup;
mod ensure;
pub mod failure;
mod lanes;
mod ledger;
mod look;
mod metrics;
pub mod plan;
mod pods;
mod settings;
pub mod status;
mod sweep;
mod sync;
#[cfg(test)]
mod tests;
pub mod wish;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::ClusterIdentity;
use cloud_provider::well_known::event_sources;
use controller_kit::cache::{Cache, Change, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use controller_kit::queue::{self, Priority, RateLimits};
use controller_kit::worker::{self, Health, Outcome, Workers};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::time::{Instant, sleep, sleep_until};

pub use self::balancers::{Balancers, NotSupported};
pub use self::metrics::Metrics;
pub use self::settings::{Drift, Settings, Sweep, Unsupported};

use self::lanes::{Lane, Lanes};
use self::plan::Step;
use self::pods::Pods;
use self::sync::Core;
use crate::around::LeaseGate;

/// The name under which the controller is switched on and off.
pub const NAME: &str = "service-lb-controller";

/// The name in `running_managed_controllers`.
pub const RUNNING_NAME: &str = "service";

/// The reason of the Event about a load balancer that is being made for longer than a moment.
pub const PENDING_REASON: &str = "LoadBalancerPending";

/// The reason of the Event about a load balancer that was changed behind our back.
pub const DRIFT_REASON: &str = "LoadBalancerDrifted";

/// The reason of the Event about a field that the provider does not support and that the policy lets pass.
pub const UNSUPPORTED_REASON: &str = "UnsupportedField";

/// How long the comparison sleeps while nothing is due.
const IDLE: Duration = Duration::from_secs(30);

/// What the controller needs of the process it runs in.
pub struct Parts {
    /// How it writes.
    pub client: kube::Client,
    /// The Services; whoever made it runs it.
    pub services: Cache<Service>,
    /// The Nodes; whoever made it runs it.
    pub nodes: Cache<Node>,
    /// The pods behind the Services, if the provider asks for them; whoever made it runs it.
    pub slices: Option<Cache<EndpointSlice>>,
    /// How it calls the cloud.
    pub balancers: Balancers,
    /// The way to change the cloud.
    pub gate: LeaseGate,
    /// Which cluster this is.
    pub cluster: ClusterIdentity,
    /// Where it tells what happened; it speaks as [`event_sources::SERVICE`].
    pub events: Recorder,
    /// The time of day.
    pub clock: SharedClock,
    /// Its own families.
    pub metrics: Metrics,
    /// The families of all queues.
    pub queue_metrics: queue::Metrics,
    /// The families of all workers.
    pub worker_metrics: worker::Metrics,
}

/// The controller; [`Controller::run`] is its life.
pub struct Controller {
    core: Arc<Core>,
    nodes: Cache<Node>,
    pods: Pods,
    workers: worker::Metrics,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("settings", &self.core.settings).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller that does nothing yet.
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let limits = RateLimits::backoff(settings.retry_base, settings.retry_max);
        let pods = Pods::new(parts.slices);
        let core = Core {
            client: parts.client,
            services: parts.services,
            roster: backends::Roster::new(parts.nodes.clone(), pods.clone()),
            balancers: parts.balancers,
            gate: parts.gate,
            cluster: parts.cluster,
            events: parts.events.for_component(event_sources::SERVICE),
            clock: parts.clock,
            metrics: parts.metrics,
            settings,
            ledger: ledger::Ledger::default(),
            lanes: Lanes::new(&limits, &parts.queue_metrics),
        };
        Self { core: Arc::new(core), nodes: parts.nodes, pods, workers: parts.worker_metrics }
    }

    /// Works until `stop` is triggered, then finishes what is under way. Waits for both caches first. `told` is handed
    /// the health of those who work on what somebody waits for.
    pub async fn run(&self, stop: &Shutdown, told: impl FnOnce(Health)) {
        let synced = async { tokio::join!(self.core.services.wait_synced(), self.nodes.wait_synced()) };
        if stop.or_stop(synced).await.is_none() {
            return;
        }
        let urgent = self.spawn(Lane::Urgent, self.core.settings.workers);
        let upkeep = self.spawn(Lane::Upkeep, self.core.settings.upkeep_workers);
        told(urgent.health());
        stop.or_stop(async {
            tokio::join!(
                self.listen(),
                self.follow_nodes(),
                self.follow_pods(),
                self.compare_now_and_then(),
                self.sweep_now_and_then()
            )
        })
        .await;
        let drain = self.core.settings.drain;
        tokio::join!(urgent.drain(drain), upkeep.drain(drain));
    }

    fn spawn(&self, lane: Lane, workers: usize) -> Workers<Key> {
        let core = Arc::clone(&self.core);
        let settings = worker::Settings { workers: workers.max(1), deadline: None };
        Workers::spawn(self.core.lanes.queue(lane).clone(), settings, &self.workers, move |key: Key| {
            let core = Arc::clone(&core);
            async move {
                // Whoever works on it now runs it again in this lane.
                let Some(_turn) = core.lanes.enter(lane, &key) else { return Ok(Outcome::Done) };
                Ok::<_, Infallible>(core.sync(&key, lane).await)
            }
        })
    }

    /// Queues Services whose change can mean work.
    async fn listen(&self) {
        let mut changes = self.core.services.subscribe();
        while let Some(change) = changes.next().await {
            match change {
                Change::Added(service) => self.take_in(&service, true),
                Change::Updated { old, new } => {
                    let matters = wish::matters(&old, &new, &self.core.terms());
                    self.take_in(&new, matters);
                }
                Change::Deleted(service) => {
                    let key = Key::of(&*service);
                    self.core.ledger.see(&key, None);
                    if !self.core.ledger.departed(&key).is_empty() {
                        self.core.lanes.add(Lane::Upkeep, key, Priority::NORMAL);
                    }
                }
                Change::Synced => {}
            }
        }
    }

    fn take_in(&self, service: &Arc<Service>, matters: bool) {
        let key = Key::of(&**service);
        self.core.ledger.see(&key, Some(service));
        let departed = !self.core.ledger.departed(&key).is_empty();
        let step = self.core.next(&key).filter(|_| matters).map_or(Step::Rest, |(_, step)| step);
        let (lane, priority) = match step {
            Step::Rest if departed => (Lane::Upkeep, Priority::NORMAL),
            Step::Rest => return,
            Step::Ensure if wish::has_address(service) => (Lane::Urgent, Priority::NORMAL),
            Step::Ensure => (Lane::Urgent, Priority::HIGH),
            Step::Look => (Lane::Upkeep, Priority::LOW),
            Step::UpdateBackends | Step::Mend | Step::CleanUp => (Lane::Upkeep, Priority::NORMAL),
        };
        self.core.lanes.add(lane, key, priority);
    }

    /// Gathers node changes, and has the load balancers follow them once it is quiet.
    async fn follow_nodes(&self) {
        let settings = &self.core.settings;
        let mut changes = self.nodes.subscribe();
        let mut due: Option<(Instant, Instant)> = None;
        loop {
            let wake = async {
                match due {
                    Some((quiet, latest)) => sleep_until(quiet.min(latest)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                change = changes.next() => {
                    let Some(change) = change else { return };
                    self.core.roster.is_stale();
                    if backends::triggers(&change) {
                        let now = Instant::now();
                        let latest = due.map_or(now + settings.quiet_at_most, |(_, latest)| latest);
                        due = Some((now + settings.quiet, latest));
                    }
                }
                () = wake => {
                    due = None;
                    self.follow_now();
                }
            }
        }
    }

    /// Has the load balancers that go to pods follow them, each by itself and at once.
    async fn follow_pods(&self) {
        let Some(slices) = self.pods.slices() else { return };
        let mut changes = slices.subscribe();
        while let Some(change) = changes.next().await {
            let owners = match &change {
                Change::Added(slice) | Change::Deleted(slice) => vec![pods::owner(slice)],
                Change::Updated { old, new } => vec![pods::owner(old), pods::owner(new)],
                Change::Synced => {
                    self.core.services.list().iter().map(|each| Some(Key::of(&**each))).collect()
                }
            };
            for key in owners.into_iter().flatten() {
                if self.core.services.get(&key).is_some_and(|service| self.pods.serve(&service)) {
                    self.core.lanes.add(Lane::Upkeep, key, Priority::NORMAL);
                }
            }
        }
    }

    fn follow_now(&self) {
        let backends = self.core.roster.nodes();
        let keys = self.core.ledger.follow(&backends, || self.core.metrics.node_sync());
        tracing::debug!(nodes = backends.nodes().len(), services = keys.len(), "The nodes changed");
        for key in keys {
            self.core.lanes.add(Lane::Upkeep, key, Priority::NORMAL);
        }
    }

    /// Has each load balancer compared with the cloud once in a period, and not too many in a row.
    async fn compare_now_and_then(&self) {
        let settings = &self.core.settings;
        if settings.drift == Drift::Off {
            return;
        }
        loop {
            let now = Instant::now();
            let oldest = self.core.ledger.least_compared();
            let due = oldest.as_ref().map_or(now + IDLE, |(_, compared)| *compared + settings.drift_period);
            match oldest {
                Some((key, _)) if due <= now => {
                    self.core.ledger.look_again(&key);
                    self.core.lanes.add(Lane::Upkeep, key, Priority::LOW);
                    sleep(settings.drift_pace).await;
                }
                _ => sleep_until(due.min(now + IDLE)).await,
            }
        }
    }

    /// Looks for what was left behind.
    async fn sweep_now_and_then(&self) {
        if self.core.settings.sweep == Sweep::Off {
            return;
        }
        let mut quarantine = sweep::Quarantine::default();
        loop {
            sleep(self.core.settings.sweep_period).await;
            self.core.sweep(&mut quarantine).await;
        }
    }
}
