//! Instances: the machines behind the Nodes.
//!
//! One bulk call answers for many Nodes, and one answer carries existence, power state, provider ID, type, zone,
//! region, addresses and labels together.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, NodeAddress};

use crate::error::Error;
use crate::provider_id::ProviderId;

mod snapshot;

pub use snapshot::Snapshot;

/// What a cloud knows of the machines behind the Nodes.
#[async_trait]
pub trait Instances: Send + Sync + 'static {
    /// One answer per node, in the order asked, in as few cloud calls as the cloud allows.
    ///
    /// Find each node by its provider ID; without one by name, labels or annotations. An `Err` is taken as
    /// [`Existence::Unknown`] for every node asked for; answers that are too few or too many likewise.
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error>;

    /// Everything that the cloud has, from clouds that have one cheap way to list it; `None` from the others.
    ///
    /// It is asked for while many machines join one after the other: one list then answers for those who ask during the
    /// next few seconds. Only what it has is used. Whatever it lacks is [looked up](Self::lookup), so a list that
    /// lags, that stopped early or that leaves machines out is no harm.
    async fn list(&self) -> Result<Option<Snapshot>, Error> {
        Ok(None)
    }
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// A provider that keeps a cache of its own may answer from it.
    #[default]
    Recent,
    /// Ask the cloud now: this answer decides whether a Node is deleted.
    Now,
}

/// What is known of a Node when its instance is looked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeRef {
    /// The Node's name.
    pub name: String,
    /// The Node's UID.
    pub uid: String,
    /// `spec.providerID` as it stands there, well-formed or not; `None` while nobody has set it.
    pub provider_id: Option<String>,
    /// The Node's labels.
    pub labels: BTreeMap<String, String>,
    /// The Node's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The addresses that the kubelet or a former look-up put into the status.
    pub addresses: Vec<NodeAddress>,
    /// `status.nodeInfo.systemUUID`: on many clouds it is the instance's own ID.
    pub system_uuid: Option<String>,
}

impl From<&Node> for NodeRef {
    fn from(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()).filter(|id| !id.is_empty()),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            annotations: node.metadata.annotations.clone().unwrap_or_default(),
            addresses: status.and_then(|status| status.addresses.clone()).unwrap_or_default(),
            system_uuid: status
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.system_uuid.clone())
                .filter(|uuid| !uuid.is_empty()),
        }
    }
}

/// Whether a Node's instance exists. Only [`Existence::Absent`] can ever cost a Node its life.
#[derive(Debug)]
pub enum Existence {
    /// It exists; this is what the cloud knows of it. A stopped instance exists.
    Found(Box<Instance>),
    /// The cloud answered, and it does not exist.
    Absent(Evidence),
    /// Nobody can tell: an error, a short list, a foreign credential, an empty inventory.
    Unknown(Doubt),
    /// The Node belongs to another cloud: it is left alone.
    NotMine,
}

/// What shows that an instance does not exist. It cannot be made from an error or from an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The cloud was asked for this very instance and said that there is none.
    NotFound {
        /// What was asked, for the Event: "GET /servers/42".
        asked: String,
    },
    /// A complete list of this many instances does not have it.
    NotListed {
        /// How many instances the list has.
        listed: NonZeroUsize,
    },
}

/// Why it is not known whether an instance exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// The cloud could not be asked, or its answer could not be read.
    #[error("the cloud could not be asked")]
    Failed(#[source] Error),
    /// The list stopped before its end.
    #[error("the list of instances is incomplete: {0}")]
    Incomplete(String),
    /// The inventory is empty, which is far more often a wrong region or credential than the truth.
    #[error("the inventory is empty: check region, project and credential")]
    EmptyInventory,
    /// Several instances match one Node.
    #[error("{} instances match this node: {}", .0.len(), .0.join(", "))]
    Ambiguous(Vec<String>),
    /// The provider ID carries our scheme and cannot be read.
    #[error("the provider ID cannot be read: {0}")]
    BadProviderId(String),
}

/// What a cloud knows of one instance.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Instance {
    /// Becomes `spec.providerID`, if that is still empty. `None` only from clouds that cannot tell; the Node's own is
    /// then kept.
    pub provider_id: Option<ProviderId>,
    /// Becomes the labels `node.kubernetes.io/instance-type` and `beta.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// Becomes the labels `topology.kubernetes.io/zone` and `failure-domain.beta.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Becomes the labels `topology.kubernetes.io/region` and `failure-domain.beta.kubernetes.io/region`.
    pub region: Option<String>,
    /// Becomes `status.addresses`, in this order.
    pub addresses: Vec<NodeAddress>,
    /// Further labels; keys under `kubernetes.io` and `k8s.io` are dropped, a label the Node has keeps its value.
    pub additional_labels: BTreeMap<String, String>,
    /// Whether it runs.
    pub power: Power,
}

/// Whether an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Power {
    /// It runs, or is on its way up or down.
    #[default]
    On,
    /// It is shut down: its Node gets the shutdown taint.
    Off,
    /// This cloud cannot tell; taken as running.
    Untold,
}

impl Instance {
    /// An instance of which nothing but its provider ID is known yet.
    pub fn new(provider_id: ProviderId) -> Self {
        Self { provider_id: Some(provider_id), ..Self::unnamed() }
    }

    /// An instance whose cloud cannot tell a provider ID.
    pub fn unnamed() -> Self {
        Self {
            provider_id: None,
            instance_type: None,
            zone: None,
            region: None,
            addresses: Vec::new(),
            additional_labels: BTreeMap::new(),
            power: Power::On,
        }
    }

    /// Sets the instance type; an empty one sets nothing.
    #[must_use]
    pub fn of_type(mut self, instance_type: impl Into<String>) -> Self {
        self.instance_type = non_empty(instance_type);
        self
    }

    /// Sets zone and region; empty ones set nothing.
    #[must_use]
    pub fn located(mut self, zone: impl Into<String>, region: impl Into<String>) -> Self {
        self.zone = non_empty(zone);
        self.region = non_empty(region);
        self
    }

    /// Adds an address of one of the types in [`crate::well_known::address_types`].
    #[must_use]
    pub fn address(mut self, type_: &str, address: impl Into<String>) -> Self {
        self.addresses.push(NodeAddress { type_: type_.to_owned(), address: address.into() });
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.additional_labels.insert(key.into(), value.into());
        self
    }

    /// Sets the power state.
    #[must_use]
    pub fn power(mut self, power: Power) -> Self {
        self.power = power;
        self
    }
}

fn non_empty(text: impl Into<String>) -> Option<String> {
    Some(text.into()).filter(|text: &String| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus, NodeSystemInfo};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    /// Proves: IFACE-28
    #[test]
    fn a_node_reference_carries_all_that_a_look_up_may_need() {
        let node = Node {
            metadata: ObjectMeta {
                name: Some("a".into()),
                uid: Some("u".into()),
                labels: Some([("l".to_owned(), "1".to_owned())].into()),
                annotations: Some([("n".to_owned(), "2".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { provider_id: Some("fake://a".into()), ..NodeSpec::default() }),
            status: Some(NodeStatus {
                addresses: Some(vec![NodeAddress { type_: "InternalIP".into(), address: "10.0.0.1".into() }]),
                node_info: Some(NodeSystemInfo { system_uuid: "sys".into(), ..NodeSystemInfo::default() }),
                ..NodeStatus::default()
            }),
        };
        let reference = NodeRef::from(&node);
        assert_eq!(reference.provider_id.as_deref(), Some("fake://a"));
        assert_eq!(reference.system_uuid.as_deref(), Some("sys"));
        assert_eq!((reference.labels["l"].as_str(), reference.annotations["n"].as_str()), ("1", "2"));
        assert_eq!(reference.addresses.len(), 1);
    }

    #[test]
    fn an_empty_provider_id_is_none_at_all() {
        let node = Node {
            spec: Some(NodeSpec { provider_id: Some(String::new()), ..NodeSpec::default() }),
            ..Node::default()
        };
        assert_eq!(NodeRef::from(&node).provider_id, None);
    }

    /// Proves: IFACE-29
    #[test]
    fn an_instance_carries_each_field_that_becomes_part_of_a_node() {
        let instance = Instance::new("fake://a".parse().unwrap())
            .of_type("m5.large")
            .located("z1", "r1")
            .address("InternalIP", "10.0.0.1")
            .label("rack", "7");
        assert_eq!(instance.provider_id.unwrap().as_str(), "fake://a");
        assert_eq!(instance.instance_type.as_deref(), Some("m5.large"));
        assert_eq!((instance.zone.as_deref(), instance.region.as_deref()), (Some("z1"), Some("r1")));
        assert_eq!(instance.addresses[0].address, "10.0.0.1");
        assert_eq!(instance.additional_labels["rack"], "7");
    }
}
