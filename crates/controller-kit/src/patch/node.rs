//! What controllers write to Nodes. The bodies are upstream's, byte for byte where an operator may look at an audit
//! log; several changes of one object travel in one request.

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, Taint};
use serde_json::{Map, Value, json};

use super::Patch;

/// A change of a Node's metadata and spec, collected into one patch.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    node: &'a Node,
    labels: Map<String, Value>,
    spec: Map<String, Value>,
    /// Taints are a list without keys: writing it needs to know that nobody else wrote meanwhile.
    guarded: bool,
}

/// A list can be replaced only by somebody who knows which version of the Node it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("changing taints of a node without resourceVersion")]
pub struct MissingVersion;

impl<'a> Change<'a> {
    /// Starts from the Node as it was read.
    pub fn of(node: &'a Node) -> Self {
        Self { node, labels: Map::new(), spec: Map::new(), guarded: false }
    }

    /// Sets a label, whatever its value was.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        if self.current_label(key) != Some(value) {
            self.labels.insert(key.to_owned(), json!(value));
        }
        self
    }

    /// Removes a label.
    #[must_use]
    pub fn without_label(mut self, key: &str) -> Self {
        if self.current_label(key).is_some() {
            self.labels.insert(key.to_owned(), Value::Null);
        }
        self
    }

    /// Sets the provider ID if there is none yet: it is written once and never changed.
    #[must_use]
    pub fn provider_id(mut self, id: &str) -> Self {
        let current =
            self.node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        if current.is_empty() && !id.is_empty() {
            self.spec.insert("providerID".to_owned(), json!(id));
        }
        self
    }

    /// Replaces the taints, guarded by the Node's resourceVersion.
    #[must_use]
    pub fn taints(mut self, wanted: &[Taint]) -> Self {
        if self.current_taints() != wanted {
            self.spec.insert("taints".to_owned(), json!(wanted));
            self.guarded = true;
        }
        self
    }

    /// Drops every taint with this key and keeps the others in their order.
    #[must_use]
    pub fn without_taint(self, key: &str) -> Self {
        let kept: Vec<Taint> =
            self.current_taints().iter().filter(|taint| taint.key != key).cloned().collect();
        self.taints(&kept)
    }

    /// Sets the pod CIDRs; the first is also the single-stack field's.
    #[must_use]
    pub fn pod_cidrs(mut self, cidrs: &[String]) -> Self {
        let current = self.node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
        if let Some(first) = cidrs.first()
            && current != cidrs
        {
            self.spec.insert("podCIDR".to_owned(), json!(first));
            self.spec.insert("podCIDRs".to_owned(), json!(cidrs));
        }
        self
    }

    /// The patch; `None` if the Node is already as wanted.
    pub fn patch(self) -> Result<Option<Patch>, MissingVersion> {
        let mut body = Map::new();
        if !self.labels.is_empty() {
            body.insert("metadata".to_owned(), json!({ "labels": self.labels }));
        }
        if !self.spec.is_empty() {
            body.insert("spec".to_owned(), Value::Object(self.spec));
        }
        if body.is_empty() {
            return Ok(None);
        }
        let patch = Patch::strategic(Value::Object(body));
        if !self.guarded {
            return Ok(Some(patch));
        }
        let version = self.node.metadata.resource_version.as_deref().ok_or(MissingVersion)?;
        Ok(Some(patch.only_for_version(version)))
    }

    fn current_label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn current_taints(&self) -> &'a [Taint] {
        self.node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }
}

/// Replaces the addresses. Order counts: the first address of a type is the one that components use.
///
/// The API merges this list by `type` although a type may occur twice, so the patch carries a `$patch: replace` marker;
/// an empty list takes no marker, because old servers would store it as an address.
pub fn addresses(node: &Node, wanted: &[NodeAddress]) -> Option<Patch> {
    let current = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    if current == wanted {
        return None;
    }
    let mut list: Vec<Value> = wanted.iter().map(|address| json!(address)).collect();
    if !current.is_empty() {
        list.push(json!({ "$patch": "replace" }));
    }
    Some(Patch::strategic(json!({ "status": { "addresses": list } })).on_status())
}

/// Sets one condition and leaves those of other types alone; `None` if status, reason and message are as wanted
/// already, whatever their times.
pub fn condition(node: &Node, wanted: &NodeCondition) -> Option<Patch> {
    let current = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let same = |current: &NodeCondition| {
        (&current.status, &current.reason, &current.message)
            == (&wanted.status, &wanted.reason, &wanted.message)
    };
    if current.iter().find(|current| current.type_ == wanted.type_).is_some_and(same) {
        return None;
    }
    Some(Patch::strategic(json!({ "status": { "conditions": [wanted] } })).on_status())
}
