//! The node controller: Nodes are initialised, and kept true.
//!
//! [`plan`] decides from a Node and its instance what to change ([`addresses`] with [`node_ip`], [`labels`]); `sync`
//! asks, writes, and tells; `refresh` does that for all Nodes from time to time. Deleting Nodes is not its business:
//! see [`crate::node_lifecycle`].

pub mod addresses;
pub mod condition;
pub mod failure;
pub mod labels;
pub mod lookup;
mod metrics;
pub mod node_ip;
pub mod plan;
mod refresh;
mod settings;
mod sync;
#[cfg(test)]
mod tests;
mod waiting;

use std::convert::Infallible;
use std::sync::Arc;

use cloud_provider::NodeRef;
use cloud_provider::well_known::{annotations, event_sources, queues};
use controller_kit::cache::{Cache, Change, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use controller_kit::queue::{self, Priority, Queue, RateLimits};
use controller_kit::random::Randomness;
use controller_kit::worker::{self, Health, Workers};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::sync::Semaphore;

pub use self::lookup::{Lookup, Purpose};
pub use self::metrics::Metrics;
pub use self::refresh::{LABELS_CHANGED, Pass};
pub use self::settings::Settings;
use self::sync::{Core, identity};

/// The name under which the controller is switched on and off.
pub const NAME: &str = "cloud-node-controller";

/// The name in `running_managed_controllers`.
pub const RUNNING_NAME: &str = "cloud-node";

/// The annotations of a Node that this controller reads: a trimmed cache has to keep them.
pub const ANNOTATIONS: [&str; 1] = [annotations::PROVIDED_NODE_IP];

/// What the controller needs of the process it runs in.
pub struct Parts {
    /// How it writes.
    pub client: kube::Client,
    /// The Nodes; whoever made it runs it.
    pub nodes: Cache<Node>,
    /// How it asks the cloud.
    pub lookup: Arc<dyn Lookup>,
    /// Where it tells what happened; it speaks as [`event_sources::NODE`].
    pub events: Recorder,
    /// The time of day.
    pub clock: SharedClock,
    /// Where jitter comes from.
    pub random: Randomness,
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
    queue: Queue<Key>,
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
        let queue = Queue::new(queues::NODES, limits, &parts.queue_metrics);
        let core = Core {
            api: Api::all(parts.client),
            nodes: parts.nodes,
            lookup: parts.lookup,
            events: parts.events.for_component(event_sources::NODE),
            clock: parts.clock,
            random: parts.random,
            metrics: parts.metrics,
            writers: Semaphore::new(settings.workers.max(1)),
            settings,
            waiting: waiting::Waiting::default(),
        };
        Self { core: Arc::new(core), queue, workers: parts.worker_metrics }
    }

    /// Works until `stop` is triggered, then finishes what it is writing. Waits for the cache first.
    pub async fn run(&self, stop: &Shutdown, told: impl FnOnce(Health)) {
        if stop.or_stop(self.core.nodes.wait_synced()).await.is_none() {
            return;
        }
        let core = Arc::clone(&self.core);
        let at_once = self.core.settings.waiting.max(self.core.settings.workers).max(1);
        let settings = worker::Settings { workers: at_once, deadline: None };
        let workers = Workers::spawn(self.queue.clone(), settings, &self.workers, move |key| {
            let core = Arc::clone(&core);
            async move { Ok::<_, Infallible>(core.sync(&key).await) }
        });
        told(workers.health());
        stop.or_stop(async { tokio::join!(self.listen(), self.refresh_now_and_then()) }).await;
        workers.drain(self.core.settings.drain).await;
    }

    /// Queues Nodes whose change can mean work.
    async fn listen(&self) {
        let mut changes = self.core.nodes.subscribe();
        while let Some(change) = changes.next().await {
            match change {
                Change::Added(node) => self.queue.add(Key::of(&*node), priority(&node)),
                Change::Updated { old, new } if matters(&old, &new) => {
                    if old.metadata.uid != new.metadata.uid {
                        self.core.lookup.forget(identity(&old).0);
                    }
                    self.queue.add(Key::of(&*new), priority(&new));
                }
                Change::Deleted(node) => {
                    let (name, _) = identity(&node);
                    self.core.waiting.forget(name);
                    self.core.lookup.forget(name);
                }
                Change::Updated { .. } | Change::Synced => {}
            }
        }
    }

    async fn refresh_now_and_then(&self) {
        loop {
            let (_, uninitialised) = self.core.refresh().await;
            // Their retries are under way; this is for those that were another cloud's when last asked for.
            for key in uninitialised {
                self.queue.add(key, Priority::LOW);
            }
            tokio::time::sleep(self.core.settings.refresh_period).await;
        }
    }
}

/// New Nodes carry no work until they are initialised.
fn priority(node: &Node) -> Priority {
    if plan::is_uninitialised(node) { Priority::HIGH } else { Priority::LOW }
}

/// Whether a change touches anything that the plan reads or a cloud is asked by. Heartbeats do not.
fn matters(old: &Node, new: &Node) -> bool {
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
    NodeRef::from(old) != NodeRef::from(new) || taints(old) != taints(new)
}
