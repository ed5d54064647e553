//! Node IPAM: each Node gets a block of every pod network, and no two Nodes the same.
//!
//! [`settings`] reads the flags, [`cidr_set`] counts the blocks, [`ledger`] knows who holds them, [`plan`] looks at a
//! Node, and `sync` writes. Upstream wires this controller only in its sample; here it is one of the house.

pub mod cidr_set;
pub mod ledger;
mod metrics;
pub mod plan;
pub mod settings;
mod sync;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud_provider::well_known::{event_sources, queues};
use controller_kit::cache::{Cache, Change, Key, Listener};
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use controller_kit::log::report;
use controller_kit::queue::{self, Priority, Queue, RateLimits};
use controller_kit::worker::{self, Health, Workers};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use self::ledger::Ledger;
pub use self::metrics::Metrics;
pub use self::settings::{Idle, Ranges, Settings, Typed};
use self::sync::Core;
use crate::around::LeaseGate;
use crate::news::News;

/// The name under which the controller is switched on and off.
pub const NAME: &str = "node-ipam-controller";

/// Its former name, which still works.
pub const ALIAS: &str = "nodeipam";

/// The name in `running_managed_controllers`.
pub const RUNNING_NAME: &str = "nodeipam";

/// The reason of the Event about pod CIDRs that are not as they should be.
pub const ODD_REASON: &str = "PodCIDRsOdd";

const UNKNOWN_OUTCOME: &str = "no answer came, so it may have been written or not";

/// The pause before the Nodes are read again after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// When a Node that the storage has and the cache does not is looked at again: by then the cache has it, or it is gone.
const CATCH_UP: Duration = Duration::from_secs(5 * 60);

/// What the controller needs of the process it runs in.
pub struct Parts {
    /// How it writes.
    pub client: kube::Client,
    /// The Nodes; whoever made it runs it.
    pub nodes: Cache<Node>,
    /// Where it tells what happened; it speaks as [`event_sources::CIDR_ALLOCATOR`].
    pub events: Recorder,
    /// Says whether this process may write: it leads, and does not only observe.
    pub gate: LeaseGate,
    /// Its own families.
    pub metrics: Metrics,
    /// The families of all queues.
    pub queue_metrics: queue::Metrics,
    /// The families of all workers.
    pub worker_metrics: worker::Metrics,
}

/// The controller; [`Controller::run`] is its life. It is made for one leadership: what it knows is not read again.
pub struct Controller {
    core: Arc<Core>,
    queue: Queue<Key>,
    workers: worker::Metrics,
    settings: Settings,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller that does nothing yet.
    pub fn new(parts: Parts, ranges: Ranges, settings: Settings) -> Self {
        let limits = RateLimits::backoff(settings.retry_base, settings.retry_max);
        let queue = Queue::new(queues::CIDR_ALLOCATOR, limits, &parts.queue_metrics);
        let core = Core {
            api: Api::all(parts.client),
            nodes: parts.nodes,
            events: parts.events.for_component(event_sources::CIDR_ALLOCATOR),
            gate: parts.gate,
            metrics: parts.metrics,
            ledger: Mutex::new(Ledger::new(ranges.sets, &ranges.services)),
            waiting: Mutex::new(BTreeSet::new()),
            settled: Mutex::default(),
            news: News::default(),
        };
        Self { core: Arc::new(core), queue, workers: parts.worker_metrics, settings }
    }

    /// Works until `stop` is triggered, then finishes what it is writing. Waits for the cache first.
    pub async fn run(&self, stop: &Shutdown, told: impl FnOnce(Health)) {
        if stop.or_stop(self.core.nodes.wait_synced()).await.is_none() {
            return;
        }
        // Before the storage is read, so that no deletion after it is missed.
        let changes = self.core.nodes.subscribe();
        if stop.or_stop(self.take_stock()).await.is_none() {
            return;
        }
        let core = Arc::clone(&self.core);
        let settings = worker::Settings { workers: self.settings.workers.max(1), deadline: None };
        let workers = Workers::spawn(self.queue.clone(), settings, &self.workers, move |key| {
            let core = Arc::clone(&core);
            async move { Ok::<_, Infallible>(core.sync(&key).await) }
        });
        told(workers.health());
        stop.or_stop(self.listen(changes)).await;
        workers.drain(self.settings.drain).await;
    }

    /// Nothing is handed out before it is known what is taken.
    async fn take_stock(&self) {
        loop {
            match self.core.take_stock().await {
                Ok(strangers) => {
                    for key in strangers {
                        self.queue.add_after(key, CATCH_UP, Priority::LOW);
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(err = %report(&error), "Cannot read which node CIDRs are in use");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn listen(&self, mut changes: Listener<Node>) {
        while let Some(change) = changes.next().await {
            match change {
                Change::Added(node) => self.queue.add(Key::of(&*node), priority(&node)),
                Change::Updated { old, new } if old.spec != new.spec => {
                    self.queue.add(Key::of(&*new), priority(&new));
                }
                Change::Deleted(node) => {
                    if let Some(waiting) = self.core.gone(&node) {
                        self.queue.add(waiting, Priority::HIGH);
                    }
                }
                Change::Updated { .. } | Change::Synced => {}
            }
        }
    }
}

/// A Node without pod CIDRs runs no pods.
fn priority(node: &Node) -> Priority {
    if matches!(plan::wish(node), plan::Wish::Needs) { Priority::HIGH } else { Priority::LOW }
}
