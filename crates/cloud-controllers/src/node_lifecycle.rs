//! The node lifecycle controller: Nodes whose instance is gone are deleted, with proof.
//!
//! [`plan`] says which taints follow from an answer, [`judge`] whether a Node may go; `memory` is what is known from one
//! pass to the next, `sync` asks and decides, `act` writes and tells.
//!
//! What it takes to lose a Node: its kubelet is not well; the cloud answered [`Absent`](cloud_provider::Existence::Absent)
//! twice in a row, the second time to a question that no cache may answer; the same cloud knew other Nodes of the
//! cluster at that moment; the Node is old enough, and has a provider ID; not too many vanished at once; and the budget
//! is not used up. The DELETE then hits only this Node, and only as it was judged.

mod act;
pub mod judge;
mod memory;
mod metrics;
pub mod plan;
mod settings;
mod sync;
#[cfg(test)]
mod tests;
mod witnesses;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::well_known::event_sources;
use controller_kit::cache::{Cache, Change};
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::{Instant, sleep_until};

pub use self::metrics::Metrics;
pub use self::settings::{Breaker, Budget, Policy, Settings};
use self::sync::Core;
use crate::node::Lookup;

/// The name under which the controller is switched on and off.
pub const NAME: &str = "cloud-node-lifecycle-controller";

/// The name in `running_managed_controllers`.
pub const RUNNING_NAME: &str = "cloud-node-lifecycle";

/// The taint of a Node whose instance is gone, where the policy is not to delete it. INVARIANT: it stands on Nodes.
pub const INSTANCE_GONE: &str = "nephos/instance-gone";

/// The value of the taint `node.kubernetes.io/out-of-service` where it is ours. INVARIANT: only a taint with it is removed.
pub const OUT_OF_SERVICE_VALUE: &str = "nephos-shutdown";

/// With the value `true` on a Node, a person says that it may be deleted whatever breaker and budget say. INVARIANT.
pub const ALLOW_DELETION: &str = "nephos/allow-deletion";

/// The annotations of a Node that this controller reads: a trimmed cache has to keep them.
pub const ANNOTATIONS: [&str; 1] = [ALLOW_DELETION];

/// The reason of the Event about a Node that is not deleted although its instance was not found.
pub const REFUSED_REASON: &str = "NodeDeletionRefused";

/// The reason of the Event about a Node whose instance is gone, where the policy is not to delete it.
pub const INSTANCE_GONE_REASON: &str = "InstanceGone";

/// Nodes that fall silent together are asked for together.
const GATHER: Duration = Duration::from_millis(500);

/// What the controller needs of the process it runs in.
pub struct Parts {
    /// How it writes.
    pub client: kube::Client,
    /// The Nodes; whoever made it runs it.
    pub nodes: Cache<Node>,
    /// How it asks the cloud.
    pub lookup: Arc<dyn Lookup>,
    /// Where it tells what happened; it speaks as [`event_sources::NODE_LIFECYCLE`].
    pub events: Recorder,
    /// The time of day, for the age of Nodes.
    pub clock: SharedClock,
    /// Its own families.
    pub metrics: Metrics,
}

/// The controller; [`Controller::run`] is its life.
pub struct Controller {
    core: Core,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("settings", &self.core.settings).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller that does nothing yet.
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let core = Core {
            api: Api::all(parts.client),
            nodes: parts.nodes,
            lookup: parts.lookup,
            events: parts.events.for_component(event_sources::NODE_LIFECYCLE),
            clock: parts.clock,
            metrics: parts.metrics,
            settings,
            memory: memory::Memory::default(),
            deletions: memory::Deletions::default(),
            breakers: BTreeMap::new(),
        };
        Self { core }
    }

    /// Works until `stop` is triggered. Waits for the cache first. A pass that is under way is given up where it stands:
    /// each of its writes is whole by itself.
    pub async fn run(mut self, stop: &Shutdown) {
        if let Some(by) = &self.core.settings.override_by {
            tracing::warn!(by, "The safeguards against deleting too many nodes are overridden");
        }
        stop.or_stop(async {
            self.core.nodes.wait_synced().await;
            self.watch().await;
        })
        .await;
    }

    /// A pass each period, sooner when a Node falls silent or comes back, and whenever a Node is due.
    async fn watch(&mut self) {
        let mut changes = self.core.nodes.subscribe();
        let mut wake = Instant::now();
        loop {
            tokio::select! {
                biased;
                change = changes.next() => match change {
                    Some(change) if turns(&change) => wake = wake.min(Instant::now() + GATHER),
                    Some(_) => {}
                    None => return,
                },
                () = sleep_until(wake) => {
                    let due = self.core.pass().await;
                    let usual = Instant::now() + self.core.settings.period;
                    wake = due.map_or(usual, |due| due.min(usual)).max(Instant::now() + GATHER);
                }
            }
        }
    }
}

/// Whether a Node's kubelet fell silent or came back.
fn turns(change: &Change<Node>) -> bool {
    match change {
        Change::Updated { old, new } => plan::is_ready(old) != plan::is_ready(new),
        Change::Added(new) => !plan::is_ready(new),
        Change::Deleted(_) | Change::Synced => false,
    }
}
