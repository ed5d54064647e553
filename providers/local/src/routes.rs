//! The slot for routes: every node's pod network is reached through the node, by a route of this machine.
//!
//! This machine is the site's router, or one of them: whoever asks it for a pod network is sent to the node that has it.
//! A route of ours carries our protocol number, and in its metric the identity of the cluster, because there is no other
//! room for it: only such routes are listed, changed or removed. [`table`] is where they stand, [`repair`] makes again
//! what somebody else removed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cloud_provider::context::{EventSink, EventType, NodeReader, Subject};
use cloud_provider::well_known::address_types::INTERNAL_IP;
use cloud_provider::{Change, Changes, Cloud, ClusterIdentity, Context, Error, Proof, Route, Routes};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::NodeAddress;

use crate::netlink;

pub mod repair;
pub mod table;
mod tag;

pub use table::{Kernel, Table};
pub use tag::metric;

/// The kind of our objects, in plans and logs.
const KIND: &str = "route";

/// The reason of the Event about a route that somebody removed.
const REPAIRED: &str = "RouteRepaired";

/// Routes in this machine's table.
pub struct NodeRoutes {
    table: Arc<dyn Table>,
    nodes: Arc<dyn NodeReader>,
    events: Arc<dyn EventSink>,
    /// What this process made or found as it should be, and through which gate it may make it again.
    kept: Mutex<BTreeMap<IpNet, Kept>>,
}

#[derive(Clone)]
struct Kept {
    route: netlink::Route,
    node: String,
    uid: String,
    changes: Changes,
}

impl NodeRoutes {
    /// Routes in this table.
    pub fn new(table: Arc<dyn Table>, context: &Context) -> Self {
        Self {
            table,
            nodes: Arc::clone(&context.nodes),
            events: Arc::clone(&context.events),
            kept: Mutex::default(),
        }
    }

    async fn ours(&self, cluster: &ClusterIdentity) -> Result<Vec<netlink::Route>, Error> {
        let metric = metric(cluster);
        let routes = self.table.list().await.map_err(|error| error.during("listing the routes"))?;
        Ok(routes.into_iter().filter(|route| route.metric == metric).collect())
    }

    /// Which Node has which address.
    fn names(&self) -> BTreeMap<IpAddr, String> {
        let mut names = BTreeMap::new();
        for node in self.nodes.list() {
            let addresses = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
            for ip in addresses.filter_map(|address| address.address.parse().ok()) {
                names.insert(ip, node.metadata.name.clone().unwrap_or_default());
            }
        }
        names
    }

    /// The addresses of the Node that a route is to lead to: those that it tells, else those of the Node by its name.
    fn addresses_of(&self, route: &Route) -> Vec<NodeAddress> {
        let told = route.target_addresses.clone().filter(|told| !told.is_empty());
        let node = || self.nodes.get(route.target_node.as_deref()?);
        told.or_else(|| node()?.status.as_ref()?.addresses.clone()).unwrap_or_default()
    }

    /// Makes a route, in place of one of ours that leads elsewhere.
    async fn make(
        &self,
        cluster: &ClusterIdentity,
        route: &netlink::Route,
        found: Option<&netlink::Route>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let name = route.to_string();
        let change = match found {
            None => Change::create(KIND, &name),
            Some(found) => {
                Change::update(KIND, &name, &prove(cluster, found)?).detail(format!("instead of {found}"))
            }
        };
        let replaces = found.is_some();
        changes
            .make(change, |permit| async move {
                let attempt = format!("making the route {name}");
                self.table.make(route, replaces, &permit).await.map_err(|error| error.during(attempt))
            })
            .await
    }

    fn tell_repair(&self, kept: &Kept) {
        let Kept { route, node, uid, .. } = kept;
        let subject = Subject::Node { name: node.clone(), uid: uid.clone() };
        let message =
            format!("Somebody removed the route {route} from the balancer machine; it was made again");
        tracing::warn!(node, %route, "Somebody removed a route; it was made again");
        self.events.record(&subject, EventType::Warning, REPAIRED, &message);
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<IpNet, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Routes for NodeRoutes {
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        let names = self.names();
        Ok(self.ours(cluster).await?.iter().map(|route| told(route, &names)).collect())
    }

    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        let gateway = next_hop(route, &self.addresses_of(route))?;
        let own = self.table.own_addresses().await.map_err(|error| error.during("listing the addresses"))?;
        if own.contains(&gateway) {
            // The node is this machine, which has its own pods' network at hand.
            return Ok(());
        }
        let kind = netlink::Kind::Via(gateway);
        let wanted = netlink::Route { destination: route.destination, kind, metric: metric(cluster) };
        let ours = self.ours(cluster).await?;
        let found = ours.iter().find(|found| found.destination == wanted.destination);
        let node = route.target_node.clone().unwrap_or_default();
        let kept = Kept { route: wanted.clone(), node, uid: hint.to_owned(), changes: changes.clone() };
        if found != Some(&wanted) {
            self.make(cluster, &wanted, found, changes).await?;
        }
        let before = self.kept().insert(wanted.destination, kept.clone());
        if found.is_none() && before.is_some_and(|before| before.route == wanted) {
            self.tell_repair(&kept);
        }
        Ok(())
    }

    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error> {
        let names = self.names();
        for found in self.ours(cluster).await? {
            let same = told(&found, &names);
            let is_it = if route.name.is_empty() {
                same.target_node == route.target_node
            } else {
                same.name == route.name
            };
            if found.destination != route.destination || !is_it {
                continue;
            }
            let change = Change::delete(KIND, &same.name, &prove(cluster, &found)?);
            let before = self.kept().remove(&found.destination);
            let removed = changes.make(change, |permit| async move {
                let attempt = format!("removing the route {found}");
                self.table.remove(&found, &permit).await.map_err(|error| error.during(attempt))
            });
            if let Err(error) = removed.await {
                self.kept().extend(before.map(|before| (before.route.destination, before)));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The cluster is in the metric; without an identity there is none to compare, and our own number must do.
fn prove(cluster: &ClusterIdentity, found: &netlink::Route) -> Result<Proof, Error> {
    if let Some(id) = cluster.id() {
        return Proof::by_cluster_tag(cluster, Some(id.as_str()));
    }
    Proof::by_route_rule(&[found.destination], &Route::new(found.destination), true, |_| false)
}

/// A route of the table in the contract's words.
fn told(found: &netlink::Route, names: &BTreeMap<IpAddr, String>) -> Route {
    let mut route = Route::new(found.destination).named(found.to_string());
    match found.kind {
        netlink::Kind::Via(gateway) => route.target_node = names.get(&gateway).cloned(),
        netlink::Kind::Nowhere => route.blackhole = true,
    }
    route
}

/// The node's address in the family of the route: an internal one before any other.
fn next_hop(route: &Route, addresses: &[NodeAddress]) -> Result<IpAddr, Error> {
    let is_ipv4 = route.destination.addr().is_ipv4();
    let parsed = addresses.iter().filter_map(|one| Some((one, one.address.parse::<IpAddr>().ok()?)));
    let fitting: Vec<_> = parsed.filter(|(_, ip)| ip.is_ipv4() == is_ipv4).collect();
    let best = fitting.iter().find(|(one, _)| one.type_ == INTERNAL_IP).or(fitting.first());
    best.map(|(_, ip)| *ip).ok_or_else(|| {
        let node = route.target_node.as_deref().unwrap_or_default();
        let family = if is_ipv4 { "IPv4" } else { "IPv6" };
        Error::invalid_config(format!("finding the way to {}", route.destination))
            .because(format!("node {node} has no {family} address to send its pods' packets to"))
    })
}

/// Adds the slot for routes of this machine, or says why not.
pub fn offer(cloud: Cloud, context: &Context) -> Cloud {
    if !netlink::may_administer() {
        tracing::warn!(
            "The config asks for routes, and this process lacks the capability NET_ADMIN: routes are not offered"
        );
        return cloud;
    }
    match Kernel::open() {
        Ok(kernel) => {
            tell_forwarding();
            cloud.with_routes(Arc::new(repair::Repaired::new(NodeRoutes::new(Arc::new(kernel), context))))
        }
        Err(error) => {
            tracing::warn!(%error, "The config asks for routes, and the kernel cannot be asked for them: routes are not offered");
            cloud
        }
    }
}

/// A machine that does not forward has routes in vain.
fn tell_forwarding() {
    for switch in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        let value = std::fs::read_to_string(format!("/proc/sys/{switch}")).unwrap_or_default();
        if value.trim() == "0" {
            let switch = switch.replace('/', ".");
            tracing::warn!(switch, "This machine does not forward between its neighbours: set {switch}=1");
        }
    }
}

#[cfg(test)]
mod tests;
