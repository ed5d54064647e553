//! What has to change in a route table so that every Node is reached at its pod CIDRs. It is pure, and applying a plan
//! leaves nothing to plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::well_known::taints;
use cloud_provider::{Proof, Route};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, NodeAddress};

/// What a Node asks of the route table.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// The Node's name.
    pub node: String,
    /// The Node's UID.
    pub uid: String,
    /// Where it wants to be reached.
    pub cidrs: Vec<IpNet>,
    /// Pod CIDRs that cannot be read.
    pub garbled: Vec<String>,
    /// Its own addresses.
    pub addresses: Vec<NodeAddress>,
    /// No cloud has looked at the Node yet, and it has no IP address: nothing could lead there.
    pub is_early: bool,
}

impl Wish {
    /// Reads a Node.
    pub fn of(node: &Node) -> Self {
        let mut wish = Self {
            node: node.metadata.name.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            cidrs: Vec::new(),
            garbled: Vec::new(),
            addresses: node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default(),
            is_early: false,
        };
        let is_ip = |address: &NodeAddress| address.address.parse::<IpAddr>().is_ok();
        wish.is_early = is_uninitialized(node) && !wish.addresses.iter().any(is_ip);
        for text in node.spec.iter().filter_map(|spec| spec.pod_cidrs.as_ref()).flatten() {
            match text.parse::<IpNet>().map(|cidr| cidr.trunc()) {
                Ok(cidr) if wish.cidrs.contains(&cidr) => {}
                Ok(cidr) => wish.cidrs.push(cidr),
                Err(_) => wish.garbled.push(text.clone()),
            }
        }
        wish
    }

    /// The route that it wants to this CIDR.
    pub fn route(&self, cidr: IpNet) -> Route {
        Route::new(cidr).to_node(&self.node, self.addresses.clone())
    }

    /// Whether a route is one that it wants. A provider that tells no addresses has none compared.
    pub fn is_met_by(&self, route: &Route) -> bool {
        route.target_node.as_deref() == Some(&*self.node)
            && self.cidrs.contains(&route.destination)
            && !route.blackhole
            && route.target_addresses.as_ref().is_none_or(|told| same_addresses(told, &self.addresses))
    }
}

/// Whether the Node waits for a cloud to look at it.
pub fn is_uninitialized(node: &Node) -> bool {
    let list = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    list.iter().any(|taint| taint.key == taints::UNINITIALIZED)
}

/// As sets of pairs, and as many of them.
fn same_addresses(one: &[NodeAddress], other: &[NodeAddress]) -> bool {
    fn pairs(list: &[NodeAddress]) -> BTreeSet<(&str, &str)> {
        list.iter().map(|each| (&*each.type_, &*each.address)).collect()
    }
    one.len() == other.len() && pairs(one) == pairs(other)
}

/// On what ground a route is thought to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// It is in a pod network, and leads to a Node that this cluster has or had, or nowhere.
    Rule,
    /// It is in a pod network, and that is all: only a tag can prove it.
    Tag,
}

/// A route that should go.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// The route, as it was listed.
    pub route: Route,
    /// Why it may be ours.
    pub claim: Claim,
}

/// What has to change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Routes to make, with the UID of the Node that each is for.
    pub create: Vec<(String, Route)>,
    /// Routes to remove, if they are ours.
    pub remove: Vec<Removal>,
}

impl Plan {
    /// Whether all is as it should be.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.remove.is_empty()
    }
}

/// Compares the whole table with what all Nodes want. `was_ours` knows Nodes that are gone.
pub fn plan(networks: &[IpNet], wishes: &[Wish], routes: &[Route], was_ours: impl Fn(&str) -> bool) -> Plan {
    let by_name: BTreeMap<&str, &Wish> = wishes.iter().map(|wish| (&*wish.node, wish)).collect();
    let mut plan = Plan::default();
    let (mut met, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for route in routes {
        // A list that moved while it was read may show a route twice.
        let place = (route.target_node.as_deref(), route.destination);
        if !seen.insert((&*route.name, place)) {
            continue;
        }
        let wish = route.target_node.as_deref().and_then(|target| by_name.get(target));
        if wish.is_some_and(|wish| wish.is_met_by(route)) && met.insert(place) {
            continue;
        }
        let is_node = |name: &str| by_name.contains_key(name) || was_ours(name);
        plan.remove
            .extend(claim(networks, route, is_node).map(|claim| Removal { route: route.clone(), claim }));
    }
    for wish in wishes.iter().filter(|wish| !wish.is_early) {
        let missing = |cidr: &&IpNet| !met.contains(&(Some(&*wish.node), **cidr));
        let create = wish.cidrs.iter().filter(missing).map(|cidr| (wish.uid.clone(), wish.route(*cidr)));
        plan.create.extend(create);
    }
    plan
}

/// Why a route may be ours; `None` if it lies outside the pod networks, and is nobody's business here.
pub fn claim(networks: &[IpNet], route: &Route, is_node: impl Fn(&str) -> bool) -> Option<Claim> {
    if Proof::by_route_rule(networks, route, false, is_node).is_ok() {
        return Some(Claim::Rule);
    }
    Proof::by_route_rule(networks, route, true, |_| false).is_ok().then_some(Claim::Tag)
}

#[cfg(test)]
mod tests;
