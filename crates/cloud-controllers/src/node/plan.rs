//! What to change on a Node, decided from the Node and its instance alone. Pure: carrying it out is `sync`'s.
//!
//! Carrying out a plan and planning again gives the empty plan.

use std::fmt;

use cloud_provider::Instance;
use cloud_provider::well_known::{annotations, taints};
use controller_kit::patch::Patch;
use controller_kit::patch::node::{Change as NodePatch, MissingVersion, addresses as address_patch};
use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::addresses::{self, Nets};
use super::labels::Dropped as DroppedLabel;
use super::labels::{self, Labels, Policy};
use super::node_ip::NodeIpError;

/// One change of a Node.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// These are the addresses.
    Addresses(Vec<NodeAddress>),
    /// This is the provider ID, which was empty.
    ProviderId(String),
    /// This label has this value.
    Label {
        /// The label.
        key: String,
        /// Its value.
        value: String,
    },
    /// The taint that kept pods away until now goes.
    Untaint,
}

/// Something that a person may want to know and that stops nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// An address of the cloud's was left out.
    Address(addresses::Dropped),
    /// A label of the cloud's was left out.
    Label(DroppedLabel),
    /// The addresses stay as they are.
    AddressesKept(NodeIpError),
}

/// The changes, and what is worth a line in the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// What to change.
    pub changes: Vec<Change>,
    /// What to tell.
    pub notes: Vec<Note>,
}

/// Why a Node cannot be initialised although its instance was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kubelet was told to use an address that the cloud does not know.
    #[error("provided node ip for node {node:?} is not valid")]
    NodeIp {
        /// The Node.
        node: String,
        /// What is wrong with it.
        source: NodeIpError,
    },
    /// Neither the cloud nor the Node has a provider ID.
    #[error("cloud provider does not set node provider ID, node {0:?} has none either")]
    NoProviderId(String),
}

/// Whether a Node waits to be initialised: any taint of that key, whatever its value and effect.
pub fn is_uninitialised(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == taints::UNINITIALIZED)
}

/// What makes a newly registered Node a member of its cloud.
pub fn initialise(node: &Node, instance: &Instance, nets: &Nets) -> Result<Plan, Refusal> {
    let name = || node.metadata.name.clone().unwrap_or_default();
    let wanted =
        wanted_addresses(node, instance, nets).map_err(|source| Refusal::NodeIp { node: name(), source })?;
    if instance.provider_id.is_none() && provider_id(node).is_none() {
        return Err(Refusal::NoProviderId(name()));
    }
    let (set, dropped) = labels::at_initialisation(&labels_of(node), instance);
    let mut plan = Plan::default();
    plan.note_addresses(instance, nets);
    plan.addresses(node, wanted);
    plan.provider_id(node, instance);
    plan.labels(set, dropped);
    if is_uninitialised(node) {
        plan.changes.push(Change::Untaint);
    }
    Ok(plan)
}

/// What keeps an initialised Node true. An empty provider ID is filled in; nothing is ever taken away.
pub fn refresh(node: &Node, instance: &Instance, nets: &Nets, policy: Policy) -> Plan {
    let mut plan = Plan::default();
    plan.note_addresses(instance, nets);
    match wanted_addresses(node, instance, nets) {
        Ok(wanted) => plan.addresses(node, wanted),
        Err(error) => plan.notes.push(Note::AddressesKept(error)),
    }
    plan.provider_id(node, instance);
    let (set, dropped) = labels::at_refresh(&labels_of(node), instance, policy);
    plan.labels(set, dropped);
    plan
}

/// What follows from an initialised Node alone: both names of its zone, region and type say the same.
pub fn mirror(node: &Node, policy: Policy) -> Plan {
    let mut plan = Plan::default();
    plan.labels(labels::mirror(&labels_of(node), policy), Vec::new());
    plan
}

impl Plan {
    /// Whether the Node is as it should be.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The patch of the Node's status, if that is to change.
    pub fn status_patch(&self, node: &Node) -> Option<Patch> {
        self.changes.iter().find_map(|change| match change {
            Change::Addresses(wanted) => address_patch(node, wanted),
            _ => None,
        })
    }

    /// The patch of everything else, if any of it is to change.
    pub fn object_patch(&self, node: &Node) -> Result<Option<Patch>, MissingVersion> {
        let mut patch = NodePatch::of(node);
        for change in &self.changes {
            patch = match change {
                Change::Addresses(_) => patch,
                Change::ProviderId(id) => patch.provider_id(id),
                Change::Label { key, value } => patch.label(key, value),
                Change::Untaint => patch.without_taint(taints::UNINITIALIZED),
            };
        }
        patch.patch()
    }

    fn note_addresses(&mut self, instance: &Instance, nets: &Nets) {
        let (_, dropped) = addresses::sift(&instance.addresses, nets);
        self.notes.extend(dropped.into_iter().map(Note::Address));
    }

    fn addresses(&mut self, node: &Node, wanted: Option<Vec<NodeAddress>>) {
        self.changes.extend(
            wanted
                .filter(|wanted| !addresses::same_meaning(addresses_of(node), wanted))
                .map(Change::Addresses),
        );
    }

    fn provider_id(&mut self, node: &Node, instance: &Instance) {
        if let (None, Some(id)) = (provider_id(node), &instance.provider_id) {
            self.changes.push(Change::ProviderId(id.to_string()));
        }
    }

    fn labels(&mut self, set: Labels, dropped: Vec<DroppedLabel>) {
        self.changes.extend(set.into_iter().map(|(key, value)| Change::Label { key, value }));
        self.notes.extend(dropped.into_iter().map(Note::Label));
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addresses::Dropped { address, why }) => {
                write!(f, "address {} {:?} of the cloud is left out: {why}", address.type_, address.address)
            }
            Self::Label(DroppedLabel { key, value, why }) => {
                write!(f, "label {key}={value} of the cloud is left out: {why}")
            }
            Self::AddressesKept(error) => write!(f, "the addresses stay as they are: {error}"),
        }
    }
}

fn wanted_addresses(
    node: &Node,
    instance: &Instance,
    nets: &Nets,
) -> Result<Option<Vec<NodeAddress>>, NodeIpError> {
    let provided = node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::PROVIDED_NODE_IP));
    addresses::wanted(&instance.addresses, nets, addresses_of(node), provided.map(String::as_str))
}

fn addresses_of(node: &Node) -> &[NodeAddress] {
    node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default()
}

fn labels_of(node: &Node) -> Labels {
    node.metadata.labels.clone().unwrap_or_default()
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}
