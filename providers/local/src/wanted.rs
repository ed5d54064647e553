//! What the data plane is to do for one Service. Pure: from the spec, the annotations and the addresses to an intent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::Error;
use cloud_provider::load_balancer::{self as contract, Family, Spec};
use cloud_provider::well_known::address_types::{EXTERNAL_IP, INTERNAL_IP};
use k8s_openapi::api::core::v1::Node;

use crate::annotation::{Asked, Check};
use crate::intent::{
    Affinity, Backend, Balancer, Delivery, HealthCheck, Port, PortKey, Probe, Protocol, Settings,
    TrafficPolicy,
};
use crate::plane::Forwarding;

/// Where the proxy of a node says whether it works: what upstream's own load balancers ask for the policy Cluster.
const NODE_PROXY: (u16, &str) = (10256, "/healthz");

/// How long to wait for what the API server has not told yet.
const UNREAD: Duration = Duration::from_secs(2);

/// The balancer that this Service asks for, at these addresses, for a data plane that forwards like this.
pub fn balancer(
    spec: &Spec,
    asked: &Asked,
    addresses: &[IpAddr],
    forwarding: Forwarding,
) -> Result<Balancer, Error> {
    let mut ports = BTreeMap::new();
    for port in &spec.ports {
        let (backends, delivery) = match (port.node_port, forwarding) {
            (Some(node_port), _) => (backends(spec, node_port, forwarding), Delivery::Rewritten),
            (None, Forwarding::Kernel) => (backends(spec, port.port, forwarding), Delivery::Unmodified),
            (None, Forwarding::UserSpace) => (pods(spec, port)?, Delivery::Rewritten),
        };
        ports.insert(key(port)?, Port { backends, delivery });
    }
    Ok(Balancer {
        cluster: spec.identity.cluster.id().map(ToString::to_string),
        namespace: spec.identity.namespace.clone(),
        name: spec.identity.name.clone(),
        addresses: addresses.iter().copied().collect(),
        ports,
        settings: settings(spec, asked, forwarding),
    })
}

/// A balancer with the spec's nodes, or pods, as its backends, and nothing else changed.
pub fn with_backends(held: &Balancer, spec: &Spec, forwarding: Forwarding) -> Result<Balancer, Error> {
    let mut changed = held.clone();
    for (key, port) in &mut changed.ports {
        let in_spec = spec.ports.iter().find(|port| self::key(port).is_ok_and(|found| found == *key));
        if let Some(wanted) = in_spec.filter(|wanted| is_at_pods(wanted, forwarding)) {
            port.backends = pods(spec, wanted)?;
            continue;
        }
        let in_force = port.backends.iter().next().map(|backend| backend.port);
        let in_spec = || {
            let unmodified = (port.delivery == Delivery::Unmodified).then_some(key.port);
            in_spec?.node_port.or(unmodified)
        };
        let Some(number) = in_force.or_else(in_spec) else { continue };
        port.backends = backends(spec, number, forwarding);
    }
    Ok(changed)
}

/// Whether what stands behind a port are pods: user space cannot hand a node a connection to an address that is not the
/// node's own, so without a node port it goes to the pods themselves.
fn is_at_pods(port: &contract::Port, forwarding: Forwarding) -> bool {
    port.node_port.is_none() && forwarding == Forwarding::UserSpace
}

/// The ports of a spec, as the data plane knows them.
pub fn keys(spec: &Spec) -> Result<BTreeSet<PortKey>, Error> {
    spec.ports.iter().map(key).collect()
}

fn key(port: &contract::Port) -> Result<PortKey, Error> {
    let protocol = match port.protocol {
        contract::Protocol::Tcp => Protocol::Tcp,
        contract::Protocol::Udp => Protocol::Udp,
        contract::Protocol::Sctp => {
            return Err(Error::invalid_config(format!(
                "port {} is SCTP, which no data plane here can forward",
                port.port
            )));
        }
    };
    Ok(PortKey { protocol, port: port.port })
}

fn settings(spec: &Spec, asked: &Asked, forwarding: Forwarding) -> Settings {
    let (traffic_policy, served) = match spec.traffic_policy {
        contract::TrafficPolicy::Cluster => (TrafficPolicy::Cluster, None),
        contract::TrafficPolicy::Local => (TrafficPolicy::Local, spec.health_check.as_ref()),
    };
    let probe = match (asked.check, served) {
        (Check::None, _) => Probe::None,
        // A pod says nothing of its node, and a node nothing of one pod.
        (Check::Auto, _) if spec.ports.iter().any(|port| is_at_pods(port, forwarding)) => Probe::Tcp,
        (Check::Auto, Some(check)) => Probe::Http { port: check.port, path: check.path.clone() },
        // One question for each node, whatever the number of balancers. A proxy finds out more from its own connections.
        (Check::Auto, None) if forwarding == Forwarding::Kernel => {
            Probe::Http { port: NODE_PROXY.0, path: NODE_PROXY.1.to_owned() }
        }
        (Check::Auto | Check::Tcp, _) => Probe::Tcp,
    };
    let source_ranges = if spec.source_ranges.allows_everybody() {
        BTreeSet::new()
    } else {
        spec.source_ranges.iter().copied().collect()
    };
    Settings {
        source_ranges,
        affinity: match spec.affinity {
            contract::Affinity::None => Affinity::None,
            contract::Affinity::ClientIp(timeout) => Affinity::ClientIp { timeout },
        },
        health_check: HealthCheck { probe, ..asked.settings.health_check.clone() },
        traffic_policy,
        ..asked.settings.clone()
    }
}

/// The spec's nodes at this port. Of two Nodes that claim one address only the first is used: the data plane could not
/// tell them apart. The kernel keeps to the family of the virtual address, so there a node is behind it in each family that it
/// has; user space reaches a node in any, and once.
fn backends(spec: &Spec, port: u16, forwarding: Forwarding) -> BTreeSet<Backend> {
    let first = spec.families.first().copied().unwrap_or(Family::V4);
    let addresses = |node: &Node| -> Vec<IpAddr> {
        match forwarding {
            Forwarding::UserSpace => address(node, first).or_else(|| any_address(node)).into_iter().collect(),
            Forwarding::Kernel => spec.families.iter().filter_map(|family| address(node, *family)).collect(),
        }
    };
    let all: BTreeSet<Backend> = spec
        .nodes
        .iter()
        .filter_map(|node| Some((node.metadata.name.clone()?, addresses(node))))
        .flat_map(|(node, addresses)| {
            addresses.into_iter().map(move |address| Backend { node: node.clone(), address, port, weight: 1 })
        })
        .collect();
    let mut sockets = BTreeSet::new();
    all.into_iter().filter(|backend| sockets.insert(backend.socket())).collect()
}

/// The pods behind a port: those of the first family that has any.
fn pods(spec: &Spec, port: &contract::Port) -> Result<BTreeSet<Backend>, Error> {
    let Some(endpoints) = &spec.endpoints else {
        let attempt = format!("looking for the pods behind port {}, which has no node port", port.port);
        return Err(Error::retry_after(UNREAD, attempt).because("the EndpointSlices are not read yet"));
    };
    let found = spec.families.iter().map(|family| endpoints.behind(port, *family));
    let found = found.into_iter().find(|pods| !pods.is_empty()).unwrap_or_default();
    let backend = |pod: &contract::Endpoint| Backend {
        node: pod.node.clone().unwrap_or_default(),
        address: pod.address,
        port: pod.port,
        weight: 1,
    };
    Ok(found.into_iter().map(backend).collect())
}

/// A node's address in this family.
fn address(node: &Node, family: Family) -> Option<IpAddr> {
    let of_family = |type_| addresses(node, type_).into_iter().find(|address| Family::of(*address) == family);
    of_family(INTERNAL_IP).or_else(|| of_family(EXTERNAL_IP))
}

/// A node's address in whatever family it has.
fn any_address(node: &Node) -> Option<IpAddr> {
    addresses(node, INTERNAL_IP).into_iter().chain(addresses(node, EXTERNAL_IP)).next()
}

fn addresses(node: &Node, type_: &str) -> Vec<IpAddr> {
    let known = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    known.iter().filter(|each| each.type_ == type_).filter_map(|each| each.address.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
