//! The condition that keeps pods off a Node until its pod network is reached. kube-controller-manager makes a taint of it.

use std::collections::BTreeMap;

use cloud_provider::well_known::conditions;
use controller_kit::patch::Patch;
use controller_kit::patch::node::condition as condition_patch;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What was last written to each Node, by name.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    uid: String,
    reached: bool,
    version: Option<u64>,
}

impl Written {
    /// The patch that says whether a Node's pod network is reached; `None` where the Node says so already.
    ///
    /// A CNI may write the same condition with a reason of its own. Its reason is replaced once; after that we do not
    /// quarrel about words.
    pub(super) fn patch(&self, node: &Node, reached: bool, now: Timestamp) -> Option<Patch> {
        let wanted = wanted(node, reached, now);
        let current = find(node);
        let same_status = current.is_some_and(|current| current.status == wanted.status);
        let same_reason = current.is_some_and(|current| current.reason == wanted.reason);
        let ours = self.of(node).filter(|entry| entry.reached == reached);
        // What we wrote may not have come back yet.
        let unseen = ours.is_some_and(|entry| entry.version > version(node));
        if unseen || (same_status && (same_reason || ours.is_some())) {
            return None;
        }
        condition_patch(node, &wanted)
    }

    /// The server took it.
    pub(super) fn note(&mut self, node: &Node, reached: bool) {
        let (name, uid) = identity(node);
        let entry = Entry { uid: uid.to_owned(), reached, version: version(node) };
        self.0.insert(name.to_owned(), entry);
    }

    /// The Node is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    fn of(&self, node: &Node) -> Option<&Entry> {
        let (name, uid) = identity(node);
        self.0.get(name).filter(|entry| entry.uid == uid)
    }
}

fn wanted(node: &Node, reached: bool, now: Timestamp) -> NodeCondition {
    let (status, reason, message) = if reached {
        ("False", conditions::ROUTE_CREATED, "RouteController created a route")
    } else {
        ("True", conditions::NO_ROUTE_CREATED, "RouteController failed to create a route")
    };
    let since = find(node).filter(|current| current.status == status);
    NodeCondition {
        type_: conditions::NETWORK_UNAVAILABLE.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since
            .and_then(|current| current.last_transition_time.clone())
            .or(Some(Time(now))),
    }
}

fn find(node: &Node) -> Option<&NodeCondition> {
    let all = node.status.as_ref()?.conditions.as_deref()?;
    all.iter().find(|condition| condition.type_ == conditions::NETWORK_UNAVAILABLE)
}

/// A Node's name and UID.
pub(super) fn identity(node: &Node) -> (&str, &str) {
    (node.metadata.name.as_deref().unwrap_or_default(), node.metadata.uid.as_deref().unwrap_or_default())
}

fn version(node: &Node) -> Option<u64> {
    node.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{EPOCH, node};

    use super::*;

    fn with(status: &str, reason: &str) -> Node {
        node("a").condition("NetworkUnavailable", status, reason).build()
    }

    /// Proves: ROUTE-35, WIRE-6
    #[test]
    fn one_condition_is_patched_strategically_with_upstreams_words() {
        let patch = Written::default().patch(&node("a").build(), true, EPOCH).unwrap();
        assert_eq!(patch.content_type(), "application/strategic-merge-patch+json");
        assert_eq!(patch.subresource(), Some("status"));
        let now = "2026-01-01T00:00:00Z";
        let condition = json!({
            "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
            "message": "RouteController created a route", "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        assert_eq!(patch.body(), json!({"status": {"conditions": [condition]}}));
        let failed = Written::default().patch(&node("a").build(), false, EPOCH).unwrap().body();
        let condition = &failed["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NoRouteCreated")));
        assert_eq!(condition["message"], "RouteController failed to create a route");
    }

    /// Proves: ROUTE-34
    #[test]
    fn nothing_is_written_twice_and_a_cnis_reason_is_replaced_once() {
        let mut written = Written::default();
        assert!(written.patch(&with("False", "RouteCreated"), true, EPOCH).is_none());
        assert!(written.patch(&with("False", "CalicoIsUp"), true, EPOCH).is_some());
        written.note(&with("False", "RouteCreated"), true);
        assert!(written.patch(&with("False", "CalicoIsUp"), true, EPOCH).is_none(), "no quarrel");
        assert!(written.patch(&with("True", "CalicoIsDown"), true, EPOCH).is_some(), "the status counts");
        assert!(written.patch(&with("False", "RouteCreated"), false, EPOCH).is_some());
        written.forget("a");
        assert!(written.patch(&with("False", "CalicoIsUp"), true, EPOCH).is_some());
    }

    #[test]
    fn what_the_cache_does_not_show_yet_is_not_written_again() {
        let mut written = Written::default();
        let (mut old, mut new) = (node("a").build(), node("a").build());
        old.metadata.resource_version = Some("9".into());
        new.metadata.resource_version = Some("10".into());
        written.note(&new, true);
        assert!(written.patch(&old, true, EPOCH).is_none());
        assert!(written.patch(&new, true, EPOCH).is_some(), "somebody removed it");
        assert!(written.patch(&old, false, EPOCH).is_some());
        old.metadata.uid = Some("another".into());
        assert!(written.patch(&old, true, EPOCH).is_some());
    }

    #[test]
    fn the_time_of_the_last_transition_moves_with_the_status_alone() {
        let mut calico = with("False", "CalicoIsUp");
        let then = Time(EPOCH - jiff::SignedDuration::from_secs(60));
        let conditions = calico.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].last_transition_time = Some(then.clone());
        let at = |reached| wanted(&calico, reached, EPOCH).last_transition_time;
        assert_eq!((at(true), at(false)), (Some(then), Some(Time(EPOCH))));
    }
}
