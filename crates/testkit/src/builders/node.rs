//! Nodes.

use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{builds, metadata_sentences, named};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// A Node in the making.
#[derive(Debug, Clone)]
pub struct NodeBuilder(Node);

builds!(NodeBuilder => Node);

/// A Node of this name, about which nothing is known.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder(Node { metadata: named(name), ..Node::default() })
}

impl NodeBuilder {
    metadata_sentences!();

    fn spec(&mut self) -> &mut NodeSpec {
        self.0.spec.get_or_insert_default()
    }

    fn status(&mut self) -> &mut NodeStatus {
        self.0.status.get_or_insert_default()
    }

    /// As a kubelet with an external cloud provider registers it: tainted until a cloud controller has seen it.
    #[must_use]
    pub fn uninitialized(self) -> Self {
        self.taint(UNINITIALIZED, "true", "NoSchedule")
    }

    /// Known to be shut down.
    #[must_use]
    pub fn shut_down(self) -> Self {
        self.taint(SHUTDOWN, "", "NoSchedule")
    }

    /// With this taint; an empty value is left out.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.spec().taints.get_or_insert_default().push(Taint {
            key: key.to_owned(),
            value: (!value.is_empty()).then(|| value.to_owned()),
            effect: effect.to_owned(),
            ..Taint::default()
        });
        self
    }

    /// With this provider ID.
    #[must_use]
    pub fn provider_id(mut self, id: &str) -> Self {
        self.spec().provider_id = Some(id.to_owned());
        self
    }

    /// With this pod CIDR; the second call adds the other family.
    #[must_use]
    pub fn pod_cidr(mut self, cidr: &str) -> Self {
        let spec = self.spec();
        spec.pod_cidr.get_or_insert_with(|| cidr.to_owned());
        spec.pod_cidrs.get_or_insert_default().push(cidr.to_owned());
        self
    }

    /// Cordoned.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.spec().unschedulable = Some(true);
        self
    }

    /// With this address.
    #[must_use]
    pub fn address(mut self, kind: &str, address: &str) -> Self {
        let address = NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
        self.status().addresses.get_or_insert_default().push(address);
        self
    }

    /// With this internal address.
    #[must_use]
    pub fn internal_ip(self, address: &str) -> Self {
        self.address("InternalIP", address)
    }

    /// With this external address.
    #[must_use]
    pub fn external_ip(self, address: &str) -> Self {
        self.address("ExternalIP", address)
    }

    /// With this host name.
    #[must_use]
    pub fn hostname(self, name: &str) -> Self {
        self.address("Hostname", name)
    }

    /// Whose kubelet was told which address to use.
    #[must_use]
    pub fn provided_node_ip(self, address: &str) -> Self {
        self.annotation(PROVIDED_NODE_IP, address)
    }

    /// That load balancers leave out.
    #[must_use]
    pub fn excluded_from_load_balancers(self) -> Self {
        self.label(EXCLUDE_FROM_LOAD_BALANCERS, "")
    }

    /// That is ready.
    #[must_use]
    pub fn ready(self) -> Self {
        self.condition("Ready", "True", "KubeletReady")
    }

    /// That says it is not ready.
    #[must_use]
    pub fn not_ready(self) -> Self {
        self.condition("Ready", "False", "KubeletNotReady")
    }

    /// Whose kubelet has fallen silent.
    #[must_use]
    pub fn unknown(self) -> Self {
        self.condition("Ready", "Unknown", "NodeStatusUnknown")
    }

    /// With this condition, in place of an earlier one of its type.
    #[must_use]
    pub fn condition(mut self, kind: &str, status: &str, reason: &str) -> Self {
        let conditions = self.status().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != kind);
        conditions.push(NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            ..NodeCondition::default()
        });
        self
    }

    /// Created at this time, where no server says so.
    #[must_use]
    pub fn created_at(mut self, at: jiff::Timestamp) -> Self {
        self.0.metadata.creation_timestamp = Some(Time(at));
        self
    }

    /// Whose machine reports this system UUID.
    #[must_use]
    pub fn system_uuid(mut self, uuid: &str) -> Self {
        let info = self.status().node_info.get_or_insert_with(NodeSystemInfo::default);
        uuid.clone_into(&mut info.system_uuid);
        self
    }
}
