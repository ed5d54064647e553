//! What the node lifecycle controller does to Nodes, and what it says about it. Every refusal is an Event, a count and a
//! line in the log.

use std::time::Duration;

use cloud_provider::well_known::event_reasons;
use controller_kit::events::reference;
use controller_kit::log::report;
use controller_kit::patch::node::Change;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::judge::{Refusal, Suspicion};
use super::plan::{self, Sight};
use super::sync::{Core, name, uid};
use super::{INSTANCE_GONE_REASON, REFUSED_REASON};

/// How often taints are tried to be written to a Node that changes under our hands; the next pass tries again.
const TRIES: u32 = 3;

/// The longest that one write may take before the pass goes on without it.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);

impl Core {
    /// Brings a Node's taints to what is known of it; no request where nothing differs.
    pub(super) async fn taint(&self, node: &Node, sight: Sight<'_>) {
        let mut current: Option<Node> = None;
        for _ in 0..TRIES {
            let base = current.as_ref().unwrap_or(node);
            let Some(wanted) = plan::taints(base, sight) else { return };
            let Ok(Some(patch)) = Change::of(base).taints(&wanted).patch() else { return };
            let Err(error) = patch.only_for_uid(uid(node)).apply(&self.api, name(node)).await else {
                let keys: Vec<&str> = wanted.iter().map(|taint| taint.key.as_str()).collect();
                tracing::info!(node = name(node), taints = ?keys, "Changed the taints of a node");
                return;
            };
            if !matches!(&error, kube::Error::Api(status) if status.code == 409) {
                tracing::warn!(node = name(node), err = %report(&error), "Cannot change the taints of a node");
                return;
            }
            match self.api.get_opt(name(node)).await {
                Ok(Some(live)) if uid(&live) == uid(node) => current = Some(live),
                _ => return,
            }
        }
    }

    /// Deletes a Node: this very one, and only as it was when it was judged. Whether it may be gone: `false` only if the
    /// API server refused.
    pub(super) async fn delete(&self, node: &Node) -> bool {
        let about = reference(node);
        let message = format!("Deleting node {} because it does not exist in the cloud provider", name(node));
        tracing::info!(node = name(node), "Deleting a node whose instance is gone");
        self.events.normal(&about, event_reasons::DELETING_NODE, message);
        let only = Preconditions {
            uid: node.metadata.uid.clone(),
            resource_version: node.metadata.resource_version.clone(),
        };
        let params = DeleteParams::default().preconditions(only);
        let result = tokio::time::timeout(WRITE_DEADLINE, self.api.delete(name(node), &params)).await;
        let (error, may_be_gone) = match result {
            Ok(Ok(_)) => {
                self.metrics.deleted("success");
                return true;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return true,
            Ok(Err(error)) => {
                let refused = matches!(&error, kube::Error::Api(status) if status.code < 500);
                (report(&error).to_string(), !refused)
            }
            Err(_) => (format!("no answer within {}s", WRITE_DEADLINE.as_secs()), true),
        };
        self.metrics.deleted("error");
        tracing::error!(node = name(node), err = error, "Cannot delete a node");
        let message = format!("Failed deleting node {}: {error}", name(node));
        self.events.warning(&about, event_reasons::DELETING_NODE_FAILED, message);
        may_be_gone
    }

    /// Tells why a Node is not deleted, if that is news.
    pub(super) fn tell_refusal(&mut self, node: &Node, refusal: &Refusal) {
        self.metrics.refused(refusal.name());
        if !self.memory.is_news(uid(node), refusal.name(), Instant::now()) {
            return;
        }
        tracing::warn!(node = name(node), reason = refusal.name(), why = %refusal, "A node's instance was not found, and the node is not deleted");
        let message = format!(
            "The cloud has no instance for node {}, and it is not deleted: {refusal}; {}",
            name(node),
            refusal.advice()
        );
        self.events.warning(&reference(node), REFUSED_REASON, message);
    }

    /// Tells that a Node's instance is gone where the policy is not to delete, if that is news.
    pub(super) fn tell_gone(&mut self, node: &Node, but: &str) {
        if self.memory.is_news(uid(node), "gone", Instant::now()) {
            tracing::warn!(node = name(node), but, "A node's instance is gone");
            let message = format!("The instance of node {} is gone; {but}", name(node));
            self.events.warning(&reference(node), INSTANCE_GONE_REASON, message);
        }
    }

    /// Logs that a person's word outweighs a safeguard.
    pub(super) fn tell_override(&self, node: &Node, suspicion: Option<&Suspicion>) {
        let by = self.settings.override_by.as_deref().unwrap_or("the node's annotation");
        let against = suspicion.map_or_else(|| Refusal::Budget.to_string(), ToString::to_string);
        tracing::warn!(
            node = name(node),
            by,
            against,
            "Deleting a node against a safeguard, because a person said so"
        );
    }
}
