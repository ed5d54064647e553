//! The Node that a kubelet creates, and what it makes of one that exists already. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use kube::core::ObjectMeta;

use super::{CloudProvider, Kubelet, UNINITIALIZED_TAINT};

/// The annotation by which a kubelet leaves attaching volumes to the controllers.
const MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

const HOSTNAME: &str = "kubernetes.io/hostname";
const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const BETA_OS: &str = "beta.kubernetes.io/os";
const BETA_ARCH: &str = "beta.kubernetes.io/arch";
const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// The labels that a kubelet restores on a Node that exists already, where it was given them itself.
const RESTORED: [&str; 12] = [
    HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS,
    ARCH,
    WINDOWS_BUILD,
    BETA_OS,
    BETA_ARCH,
];

impl Kubelet {
    /// The Node that it creates when there is none of its name.
    pub fn initial_node(&self, now: Timestamp) -> Node {
        let mut taints = self.taints.clone();
        if self.cloud_provider == CloudProvider::External {
            taints.push(Taint {
                key: UNINITIALIZED_TAINT.to_owned(),
                value: Some("true".to_owned()),
                effect: "NoSchedule".to_owned(),
                time_added: None,
            });
        }
        let mut node = Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.initial_labels()),
                annotations: Some([(MANAGED_ATTACH.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: self.provider_id.clone(),
                taints: (!taints.is_empty()).then_some(taints),
                ..NodeSpec::default()
            }),
            status: None,
        };
        self.set_status(&mut node, now);
        node
    }

    /// What it makes of a Node of its name that exists already when it registers: it restores its own labels and the attach annotation,
    /// and nothing else. Taints are not added again. `None` when there is nothing to change.
    pub fn reregistered(&self, existing: &Node, now: Timestamp) -> Option<Node> {
        let initial = self.initial_node(now);
        let mut node = existing.clone();
        let wanted = initial.metadata.labels.unwrap_or_default();
        let labels = node.metadata.labels.get_or_insert_default();
        for key in RESTORED {
            if let Some(value) = wanted.get(key) {
                if value.is_empty() {
                    labels.remove(key);
                } else {
                    labels.insert(key.to_owned(), value.clone());
                }
            }
        }
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(MANAGED_ATTACH.to_owned(), "true".to_owned());
        if let (Some(status), Some(initial)) = (&mut node.status, &initial.status) {
            status.capacity = status.capacity.take().or_else(|| initial.capacity.clone());
            status.allocatable = status.allocatable.take().or_else(|| initial.allocatable.clone());
        }
        (node != *existing).then_some(node)
    }

    /// The Node after one round of its status loop, and whether anything changed but the time of the heartbeat.
    pub fn refreshed(&self, existing: &Node, now: Timestamp) -> (Node, bool) {
        let mut node = existing.clone();
        let labels = node.metadata.labels.get_or_insert_default();
        for (key, value) in [(OS, self.os), (ARCH, &self.arch)] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        self.set_status(&mut node, now);
        let without_heartbeat = |status: &Option<NodeStatus>| {
            let mut status = status.clone().unwrap_or_default();
            for condition in status.conditions.iter_mut().flatten() {
                condition.last_heartbeat_time = None;
            }
            status
        };
        let changed = node.metadata.labels != existing.metadata.labels
            || without_heartbeat(&node.status) != without_heartbeat(&existing.status);
        (node, changed)
    }

    fn set_status(&self, node: &mut Node, now: Timestamp) {
        self.set_addresses(node);
        self.set_machine(node.status.get_or_insert_default(), now);
    }

    fn initial_labels(&self) -> BTreeMap<String, String> {
        let own: [(&str, &str); 5] = [
            (HOSTNAME, &self.hostname),
            (OS, self.os),
            (ARCH, &self.arch),
            (BETA_OS, self.os),
            (BETA_ARCH, &self.arch),
        ];
        let mut labels: BTreeMap<String, String> =
            own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        if let Some(build) = &self.windows_build {
            labels.insert(WINDOWS_BUILD.to_owned(), build.clone());
        }
        labels.extend(self.labels.clone());
        labels
    }
}
