//! Which nodes may serve load balancers (KEP-3458), and the set of them that is computed once for all Services.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud_provider::load_balancer::Endpoints;
use cloud_provider::well_known::{labels, taints};
use controller_kit::cache::{Cache, Change};
use k8s_openapi::api::core::v1::{Node, Service};

use super::pods::Pods;

/// Whether a node may serve: it is not being deleted, nobody excluded it, and the autoscaler has not marked it. Whether
/// it is ready does not matter: that is for the load balancer's health check to see, sooner than we could.
pub fn is_eligible(node: &Node) -> bool {
    let marked = |taint: &k8s_openapi::api::core::v1::Taint| taint.key == taints::TO_BE_DELETED;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    node.metadata.deletion_timestamp.is_none() && is_included(node) && !taints.iter().any(marked)
}

/// Whether nobody excluded it: the label is absent, or its value is a spelling of false.
pub fn is_included(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let value = labels.and_then(|labels| labels.get(labels::EXCLUDE_FROM_LOAD_BALANCERS));
    value.is_none_or(|value| matches!(value.as_str(), "0" | "f" | "F" | "false" | "False" | "FALSE"))
}

/// Whether a change of a node is a reason to look at all load balancers. Readiness, taints and the beginning of a
/// deletion are none, as upstream: a node that drains keeps its connections until something else happens.
pub fn triggers(change: &Change<Node>) -> bool {
    match change {
        Change::Added(_) | Change::Deleted(_) => true,
        Change::Updated { old, new } => {
            is_included(old) != is_included(new) || Member::of(old) != Member::of(new)
        }
        Change::Synced => false,
    }
}

/// What of a node a load balancer is set up with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    name: String,
    provider_id: Option<String>,
    addresses: Vec<(String, String)>,
}

impl Member {
    fn of(node: &Node) -> Self {
        let addresses =
            node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        let mut addresses: Vec<(String, String)> =
            addresses.iter().map(|each| (each.type_.clone(), each.address.clone())).collect();
        addresses.sort();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.clone()),
            addresses,
        }
    }
}

/// The nodes that may serve, and the pods where a Service has no node ports. Two sets are equal when a load balancer would be
/// set up alike with both.
#[derive(Debug, Clone, Default)]
pub struct Backends {
    nodes: Arc<[Arc<Node>]>,
    members: Arc<[Member]>,
    endpoints: Option<Endpoints>,
}

impl Backends {
    /// Those of these nodes that may serve, in the order of their names.
    pub fn among(nodes: impl IntoIterator<Item = Arc<Node>>) -> Self {
        let mut both: Vec<(Member, Arc<Node>)> = nodes
            .into_iter()
            .filter(|node| is_eligible(node))
            .map(|node| (Member::of(&node), node))
            .collect();
        both.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (members, nodes): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        Self { nodes: nodes.into(), members: members.into(), endpoints: None }
    }

    /// The same nodes, with these pods.
    #[must_use]
    pub fn with_endpoints(&self, endpoints: Option<Endpoints>) -> Self {
        Self { endpoints, ..self.clone() }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The pods; `None` if nobody asks for them, or nobody knows.
    pub fn endpoints(&self) -> Option<&Endpoints> {
        self.endpoints.as_ref()
    }

    /// Whether the nodes are alike.
    pub fn has_nodes_of(&self, other: &Self) -> bool {
        self.members == other.members
    }

    /// Whether no node may serve.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl PartialEq for Backends {
    fn eq(&self, other: &Self) -> bool {
        self.has_nodes_of(other) && self.endpoints == other.endpoints
    }
}

/// The current set, computed again only after a node changed.
pub(super) struct Roster {
    nodes: Cache<Node>,
    pods: Pods,
    current: Mutex<Option<Arc<Backends>>>,
}

impl Roster {
    pub(super) fn new(nodes: Cache<Node>, pods: Pods) -> Self {
        Self { nodes, pods, current: Mutex::default() }
    }

    /// Who may serve this Service now.
    pub(super) fn of(&self, service: &Service) -> Arc<Backends> {
        let nodes = self.nodes();
        if !self.pods.serve(service) {
            return nodes;
        }
        Arc::new(nodes.with_endpoints(self.pods.of(service)))
    }

    /// The nodes that may serve now.
    pub(super) fn nodes(&self) -> Arc<Backends> {
        let mut current = self.lock();
        Arc::clone(current.get_or_insert_with(|| Arc::new(Backends::among(self.nodes.list()))))
    }

    /// A node changed in some way.
    pub(super) fn is_stale(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Backends>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
