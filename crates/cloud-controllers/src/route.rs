//! The route controller: every Node is reached at its pod CIDRs, by a route in the cloud's own table.
//!
//! [`settings`] says whether it can run, [`plan`] compares a whole table with all Nodes, [`table`] remembers what is
//! known of it between two lists, `sync` makes the routes of one Node and writes its condition, and `pass` lists,
//! removes what is provably ours and unwanted, and queues the Nodes that lack something.
//!
//! A Node's change costs that Node's routes and no list. A Node's end, and an occasional audit, cost one list. Nothing
//! else costs anything.

mod condition;
mod metrics;
mod pass;
pub mod plan;
mod proof;
pub mod settings;
mod sync;
pub mod table;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use cloud_provider::well_known::{event_sources, queues};
use cloud_provider::{ClusterIdentity, Routes};
use controller_kit::cache::{Cache, Change, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use controller_kit::queue::{self, Priority, Queue, RateLimits};
use controller_kit::worker::{self, Health, Workers};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::Instant;

pub use self::metrics::Metrics;
pub use self::settings::{Idle, Settings, networks};
use self::sync::{Core, Memory};
use crate::around::{LeaseGate, Surrounded, Urgency};
use crate::news::News;
use crate::pod_networks::PodNetworks;

/// The name under which the controller is switched on and off.
pub const NAME: &str = "node-route-controller";

/// Its former name, which still works.
pub const ALIAS: &str = "route";

/// The name in `running_managed_controllers`.
pub const RUNNING_NAME: &str = "route";

/// The reason of the Event about a Node without pod CIDRs.
pub const NO_CIDR_REASON: &str = "NoPodCIDR";

/// The reason of the Event about a route that could not be removed.
pub const NOT_REMOVED_REASON: &str = "FailedToDeleteRoute";

/// The cloud's route table, for calls that somebody waits for and for calls that nobody does.
#[derive(Clone)]
pub struct Slots {
    urgent: Arc<dyn Routes>,
    calm: Arc<dyn Routes>,
}

impl Slots {
    /// Those of a cloud; `None` if it has no routes.
    pub fn of(cloud: &Surrounded) -> Option<Self> {
        let slot = |urgency| cloud.cloud(urgency).routes;
        Some(Self { urgent: slot(Urgency::Create)?, calm: slot(Urgency::Drift)? })
    }
}

/// What the controller needs of the process it runs in.
pub struct Parts {
    /// How it writes conditions.
    pub client: kube::Client,
    /// The Nodes; whoever made it runs it.
    pub nodes: Cache<Node>,
    /// How it asks the cloud.
    pub routes: Slots,
    /// Through what it changes the cloud.
    pub gate: LeaseGate,
    /// Which cluster this is.
    pub cluster: ClusterIdentity,
    /// Where routes may be ours.
    pub networks: PodNetworks,
    /// Where it tells what happened; it speaks as [`event_sources::ROUTE`].
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

/// What is queued.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// The whole table.
    Table,
    /// One Node.
    Node(Key),
}

/// The controller; [`Controller::run`] is its life.
pub struct Controller {
    core: Arc<Core>,
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
        let core = Core {
            api: Api::all(parts.client),
            nodes: parts.nodes,
            urgent: parts.routes.urgent,
            calm: parts.routes.calm,
            gate: parts.gate,
            cluster: parts.cluster,
            networks: parts.networks,
            events: parts.events.for_component(event_sources::ROUTE),
            clock: parts.clock,
            metrics: parts.metrics,
            queue: Queue::new(queues::ROUTES, limits, &parts.queue_metrics),
            settings,
            news: News::default(),
            memory: Mutex::new(Memory::default()),
        };
        Self { core: Arc::new(core), workers: parts.worker_metrics }
    }

    /// Works until `stop` is triggered, then finishes what it is writing. Waits for the cache first.
    pub async fn run(&self, stop: &Shutdown, told: impl FnOnce(Health)) {
        if stop.or_stop(self.core.nodes.wait_synced()).await.is_none() {
            return;
        }
        let core = Arc::clone(&self.core);
        // One more than for the Nodes: a pass that waits for the cloud holds up none of them.
        let settings = worker::Settings { workers: self.core.settings.workers.max(1) + 1, deadline: None };
        let workers = Workers::spawn(self.core.queue.clone(), settings, &self.workers, move |work| {
            let core = Arc::clone(&core);
            async move {
                Ok::<_, Infallible>(match work {
                    Work::Table => core.pass().await,
                    Work::Node(key) => core.sync_node(&key).await,
                })
            }
        });
        told(workers.health());
        stop.or_stop(async { tokio::join!(self.listen(), self.audit()) }).await;
        workers.drain(self.core.settings.drain).await;
    }

    /// Queues Nodes whose change can mean work.
    async fn listen(&self) {
        let mut changes = self.core.nodes.subscribe();
        while let Some(change) = changes.next().await {
            match change {
                Change::Added(node) => self.core.queue.add(Work::Node(Key::of(&*node)), Priority::HIGH),
                Change::Updated { old, new } if matters(&old, &new) => {
                    self.core.queue.add(Work::Node(Key::of(&*new)), Priority::HIGH);
                }
                Change::Deleted(node) => self.gone(&node),
                Change::Updated { .. } | Change::Synced => {}
            }
        }
    }

    fn gone(&self, node: &Node) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let mut memory = self.core.memory();
        memory.table.node_gone(name, Instant::now());
        memory.written.forget(name);
        memory.without.remove(name);
        drop(memory);
        self.core.news.forget(name);
        self.core.ask_for_pass();
    }

    async fn audit(&self) {
        loop {
            self.core.queue.add(Work::Table, Priority::NORMAL);
            tokio::time::sleep(self.core.settings.audit_period).await;
        }
    }
}

/// Whether a change touches what routes are made of. Heartbeats do not.
fn matters(old: &Node, new: &Node) -> bool {
    let cidrs = |node: &Node| node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone());
    let addresses = |node: &Node| node.status.as_ref().and_then(|status| status.addresses.clone());
    let waits = plan::is_uninitialized;
    cidrs(old) != cidrs(new) || addresses(old) != addresses(new) || waits(old) != waits(new)
}
