//! What the data plane is to do for one Service. Pure: from the spec, the annotations and the addresses to an intent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::Error;
use cloud_provider::load_balancer::{self as contract, Family, Spec};
use cloud_provider::well_known::address_types::{EXTERNAL_IP, INTERNAL_IP};
use k8s_openapi::api::core::v1::Node;

use crate::allocation::family_of;
use crate::annotation::{Asked, Check};
use crate::intent::{
    Affinity, Backend, Balancer, Delivery, HealthCheck, Port, PortKey, Probe, Protocol, Settings,
    TrafficPolicy,
};

/// The balancer that this Service asks for, at these addresses.
pub fn balancer(spec: &Spec, asked: &Asked, addresses: &[IpAddr]) -> Result<Balancer, Error> {
    let mut ports = BTreeMap::new();
    for port in &spec.ports {
        let node_port = port.node_port.ok_or_else(|| {
            Error::invalid_config(format!(
                "port {} has no node port, and the proxy can reach nothing else",
                port.port
            ))
        })?;
        let backends = backends(spec, node_port);
        ports.insert(key(port)?, Port { backends, delivery: Delivery::Rewritten });
    }
    Ok(Balancer {
        cluster: spec.identity.cluster.id().map(ToString::to_string),
        namespace: spec.identity.namespace.clone(),
        name: spec.identity.name.clone(),
        addresses: addresses.iter().copied().collect(),
        ports,
        settings: settings(spec, asked),
    })
}

/// A balancer with the spec's nodes as its backends, and nothing else changed.
pub fn with_backends(held: &Balancer, spec: &Spec) -> Balancer {
    let mut changed = held.clone();
    for (key, port) in &mut changed.ports {
        let in_force = port.backends.iter().next().map(|backend| backend.port);
        let in_spec = || {
            let same = spec.ports.iter().find(|port| self::key(port).is_ok_and(|found| found == *key))?;
            same.node_port
        };
        let Some(node_port) = in_force.or_else(in_spec) else { continue };
        port.backends = backends(spec, node_port);
    }
    changed
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
                "port {} is SCTP, which the proxy cannot forward",
                port.port
            )));
        }
    };
    Ok(PortKey { protocol, port: port.port })
}

fn settings(spec: &Spec, asked: &Asked) -> Settings {
    let (traffic_policy, served) = match spec.traffic_policy {
        contract::TrafficPolicy::Cluster => (TrafficPolicy::Cluster, None),
        contract::TrafficPolicy::Local => (TrafficPolicy::Local, spec.health_check.as_ref()),
    };
    let probe = match (asked.check, served) {
        (Check::None, _) => Probe::None,
        (Check::Auto, Some(check)) => Probe::Http { port: check.port, path: check.path.clone() },
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
/// tell them apart.
fn backends(spec: &Spec, node_port: u16) -> BTreeSet<Backend> {
    let family = spec.families.first().copied().unwrap_or(Family::V4);
    let all: BTreeSet<Backend> =
        spec.nodes.iter().filter_map(|node| backend(node, node_port, family)).collect();
    let mut sockets = BTreeSet::new();
    all.into_iter().filter(|backend| sockets.insert(backend.socket())).collect()
}

/// A node's port as a backend; `None` for a node without an address.
fn backend(node: &Node, port: u16, family: Family) -> Option<Backend> {
    let addresses = node.status.as_ref()?.addresses.as_deref()?;
    let of_type = |type_: &str| {
        let known = addresses.iter().filter(|each| each.type_ == type_);
        let parsed: Vec<IpAddr> = known.filter_map(|each| each.address.parse().ok()).collect();
        let same_family = parsed.iter().find(|address| family_of(**address) == family);
        same_family.or(parsed.first()).copied()
    };
    let address = of_type(INTERNAL_IP).or_else(|| of_type(EXTERNAL_IP))?;
    Some(Backend { node: node.metadata.name.clone()?, address, port, weight: 1 })
}

#[cfg(test)]
mod tests;
