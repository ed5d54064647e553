//! What a Service asks of its load balancer, read once, so that no provider parses it again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service, ServiceSpec};

use super::{Endpoints, Feature, Identity, SourceRanges};
use crate::cluster::ClusterIdentity;
use crate::error::Error;

/// A Service, the nodes that may serve it, and the settings that all clouds share.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Spec {
    /// Whose balancer it is.
    pub identity: Identity,
    /// The Service itself, for what only this provider reads.
    pub service: Arc<Service>,
    /// The eligible nodes: exactly these become backends.
    pub nodes: Vec<Arc<Node>>,
    /// The pods behind it, if it has a port without a node port and the provider asks for them; `None` otherwise, and while
    /// they are not known.
    pub endpoints: Option<Endpoints>,
    /// The ports, in the Service's order.
    pub ports: Vec<Port>,
    /// Who may connect.
    pub source_ranges: SourceRanges,
    /// Whether a client is kept to one backend.
    pub affinity: Affinity,
    /// Whether traffic may cross nodes.
    pub traffic_policy: TrafficPolicy,
    /// How to ask a node whether it serves; only with [`TrafficPolicy::Local`].
    pub health_check: Option<HealthCheck>,
    /// The address families asked for, in order; never empty.
    pub families: Vec<Family>,
    /// `spec.loadBalancerIP`.
    pub requested_address: Option<IpAddr>,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name; empty if it has none.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Where clients connect.
    pub port: u16,
    /// Where the nodes listen; `None` if the Service has no node ports.
    pub node_port: Option<u16>,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Whether a client is kept to one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// It is not.
    None,
    /// By its address, for this long after its last connection.
    ClientIp(Duration),
}

/// Whether traffic may cross nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Any node takes it and may pass it on.
    Cluster,
    /// Only nodes with a serving pod take it; the client's address is kept.
    Local,
}

/// How to ask a node whether it has a serving pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path: `/healthz`.
    pub path: String,
    /// The Service's `healthCheckNodePort`.
    pub port: u16,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl Spec {
    /// Reads a Service. What cannot be read is an `InvalidConfig` that names the field.
    pub fn new(
        service: Arc<Service>,
        nodes: Vec<Arc<Node>>,
        cluster: &ClusterIdentity,
    ) -> Result<Self, Error> {
        let identity = Identity::of(&service, cluster);
        let wanted = service.spec.clone().unwrap_or_default();
        let traffic_policy = match wanted.external_traffic_policy.as_deref() {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        };
        Ok(Self {
            identity,
            nodes,
            endpoints: None,
            ports: ports(&wanted)?,
            source_ranges: SourceRanges::of(&service)?,
            affinity: affinity(&wanted),
            traffic_policy,
            health_check: health_check(&wanted, traffic_policy)?,
            families: families(&wanted),
            requested_address: requested_address(&wanted)?,
            class: wanted.load_balancer_class,
            service,
        })
    }

    /// Hands in the pods behind the Service.
    #[must_use]
    pub fn with_endpoints(mut self, endpoints: Option<Endpoints>) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// The value of one of the Service's annotations.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.service.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The features that this Service asks for.
    pub fn asks_for(&self) -> BTreeSet<Feature> {
        let protocols: BTreeSet<Protocol> = self.ports.iter().map(|port| port.protocol).collect();
        let asked = [
            (Feature::SourceRanges, !self.source_ranges.allows_everybody()),
            (Feature::ClientIpAffinity, matches!(self.affinity, Affinity::ClientIp(_))),
            (Feature::Udp, protocols.contains(&Protocol::Udp)),
            (Feature::Sctp, protocols.contains(&Protocol::Sctp)),
            (Feature::MixedProtocols, protocols.len() > 1),
            (Feature::LocalTraffic, self.traffic_policy == TrafficPolicy::Local),
            (Feature::Ipv6, self.families.contains(&Family::V6)),
            (Feature::DualStack, self.families.len() > 1),
            (Feature::RequestedAddress, self.requested_address.is_some()),
            (Feature::NoNodePorts, self.ports.iter().any(|port| port.node_port.is_none())),
        ];
        asked.into_iter().filter_map(|(feature, asked)| asked.then_some(feature)).collect()
    }

    /// The features that this Service asks for and a provider with these does not have.
    pub fn unsupported(&self, features: &BTreeSet<Feature>) -> Vec<Feature> {
        self.asks_for().difference(features).copied().collect()
    }
}

fn ports(spec: &ServiceSpec) -> Result<Vec<Port>, Error> {
    let list = spec.ports.as_deref().unwrap_or_default();
    list.iter()
        .map(|port| {
            let protocol = match port.protocol.as_deref() {
                None | Some("TCP") => Protocol::Tcp,
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                Some(other) => {
                    return Err(Error::invalid_config(format!(
                        "reading spec.ports: protocol {other:?} is not TCP, UDP or SCTP"
                    )));
                }
            };
            Ok(Port {
                name: port.name.clone().unwrap_or_default(),
                protocol,
                port: port_number("spec.ports[].port", port.port)?,
                node_port: port
                    .node_port
                    .filter(|number| *number != 0)
                    .map(|number| port_number("spec.ports[].nodePort", number))
                    .transpose()?,
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn port_number(field: &str, number: i32) -> Result<u16, Error> {
    u16::try_from(number)
        .map_err(|_| Error::invalid_config(format!("reading {field}: {number} is not a port number")))
}

fn affinity(spec: &ServiceSpec) -> Affinity {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return Affinity::None;
    }
    // The API server sets this timeout on every Service with affinity; three hours is its default.
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|config| config.client_ip.as_ref())
        .and_then(|client_ip| client_ip.timeout_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(10_800);
    Affinity::ClientIp(Duration::from_secs(seconds))
}

fn health_check(spec: &ServiceSpec, policy: TrafficPolicy) -> Result<Option<HealthCheck>, Error> {
    let port = spec.health_check_node_port.filter(|port| *port != 0);
    match (policy, port) {
        (TrafficPolicy::Local, Some(port)) => Ok(Some(HealthCheck {
            path: "/healthz".to_owned(),
            port: port_number("spec.healthCheckNodePort", port)?,
        })),
        _ => Ok(None),
    }
}

fn families(spec: &ServiceSpec) -> Vec<Family> {
    let listed: Vec<Family> = spec
        .ip_families
        .iter()
        .flatten()
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        })
        .collect();
    if listed.is_empty() { vec![Family::V4] } else { listed }
}

fn requested_address(spec: &ServiceSpec) -> Result<Option<IpAddr>, Error> {
    let Some(text) = spec.load_balancer_ip.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        Error::invalid_config(format!("reading spec.loadBalancerIP: {text:?} is not an IP address"))
    })
}

#[cfg(test)]
mod tests;
