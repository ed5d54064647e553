//! The periodic pass: all initialised Nodes are looked up in bulk, and what is no longer true is written. A pass in
//! which nothing differs writes nothing.

use cloud_provider::{Existence, Instance, NodeRef};
use controller_kit::cache::Key;
use controller_kit::events::reference;
use controller_kit::patch::Patch;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;

use super::condition;
use super::lookup::Purpose;
use super::plan::{self, Change, Plan};
use super::sync::{Core, Setback, identity};

/// The reason of the Event that tells that a label followed the cloud.
pub const LABELS_CHANGED: &str = "NodeLabelsChanged";

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pass {
    /// Nodes that were compared with their instance.
    pub compared: usize,
    /// Nodes about which the cloud said nothing that could be compared.
    pub skipped: usize,
    /// Nodes that were written.
    pub written: usize,
    /// Nodes that could not be written.
    pub failed: usize,
}

impl Core {
    /// Compares all initialised Nodes with the cloud. Returns the uninitialised ones, which are left to the queue.
    pub(super) async fn refresh(&self) -> (Pass, Vec<Key>) {
        let live = |node: &std::sync::Arc<Node>| node.metadata.deletion_timestamp.is_none();
        let (new, known): (Vec<_>, Vec<_>) =
            self.nodes.list().into_iter().filter(live).partition(|node| plan::is_uninitialised(node));
        let asked: Vec<NodeRef> = known.iter().map(|node| NodeRef::from(&**node)).collect();
        let answers = self.lookup.many(&asked, Purpose::Refresh).await;
        let mut pass = Pass::default();
        let mut writes = Vec::new();
        for (node, answer) in known.iter().zip(&answers) {
            let Existence::Found(instance) = &**answer else { continue };
            pass.compared += 1;
            writes.extend(self.compare(node, instance).map(|plan| self.carry_out(node, plan)));
        }
        let at_once = self.settings.refresh_writers.max(1);
        let results: Vec<Result<bool, Setback>> =
            futures::stream::iter(writes).buffer_unordered(at_once).collect().await;
        pass.skipped = known.len() - pass.compared;
        pass.written = results.iter().filter(|result| matches!(result, Ok(true))).count();
        pass.failed = results.iter().filter(|result| matches!(result, Err(Setback::Failed(_)))).count();
        tracing::debug!(?pass, "Compared the nodes with the cloud");
        (pass, new.iter().map(|node| Key::of(&**node)).collect())
    }

    /// What is no longer true of a Node, if anything.
    fn compare(&self, node: &Node, instance: &Instance) -> Option<Plan> {
        let plan = plan::refresh(node, instance, &self.settings.nets, self.settings.labels);
        for note in &plan.notes {
            tracing::debug!(node = identity(node).0, %note, "The cloud's answer was not taken as it is");
        }
        (!plan.is_empty() || self.take_back(node).is_some()).then_some(plan)
    }

    /// The patch that takes back a complaint about a Node that a person has freed meanwhile.
    fn take_back(&self, node: &Node) -> Option<Patch> {
        condition::resolved(node, self.clock.now())
    }

    async fn carry_out(&self, node: &Node, plan: Plan) -> Result<bool, Setback> {
        let result = self.write(node, &plan, self.take_back(node)).await;
        match &result {
            Ok(_) => self.tell_refreshed(node, &plan),
            Err(Setback::Gone) => {}
            Err(Setback::Failed(failure)) => {
                tracing::warn!(node = identity(node).0, err = failure.message, "Cannot refresh a node");
            }
        }
        result
    }

    fn tell_refreshed(&self, node: &Node, plan: &Plan) {
        let (name, _) = identity(node);
        let had = |key: &String| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let mut moved = Vec::new();
        let mut relabelled = false;
        for change in &plan.changes {
            match change {
                Change::Addresses(_) => self.metrics.refreshed("addresses"),
                Change::Label { key, value } => {
                    relabelled = true;
                    moved.extend(had(key).map(|old| format!("{key} from {old} to {value}")));
                }
                Change::ProviderId(_) => relabelled = true,
                Change::Untaint => {}
            }
        }
        if relabelled {
            self.metrics.refreshed("labels");
        }
        if !moved.is_empty() {
            let message = format!("Labels follow the cloud: {}", moved.join(", "));
            self.events.normal(&reference(node), LABELS_CHANGED, message);
        }
        tracing::info!(node = name, changes = ?plan.changes, "Refreshed a node");
    }
}
