//! What a balancer does with a connection, apart from where it comes in and who takes it.

use std::collections::BTreeSet;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The settings of one balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Who may connect; empty is everybody.
    pub source_ranges: BTreeSet<IpNet>,
    /// Whether a client is kept to one backend.
    pub affinity: Affinity,
    /// How a backend is chosen.
    pub algorithm: Algorithm,
    /// Whether each TCP connection to a backend begins with a PROXY protocol header.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The source address that a backend sees.
    pub client_address: ClientAddress,
    /// How a backend is asked whether it serves.
    pub health_check: HealthCheck,
    /// A TCP connection without a byte in either direction for this long is closed. Zero is never.
    #[serde(rename = "idleTimeoutMs", with = "milliseconds")]
    pub idle_timeout: Duration,
    /// A UDP client without a datagram in either direction for this long is forgotten. Zero is never.
    #[serde(rename = "udpIdleTimeoutMs", with = "milliseconds")]
    pub udp_idle_timeout: Duration,
    /// Connections and UDP clients at once, over all ports; what comes above is refused. Zero is no limit.
    pub connection_limit: u32,
    /// How long the TCP connections of a backend that left, or came in at an address that was taken away, may go on.
    #[serde(rename = "drainTimeoutMs", with = "milliseconds")]
    pub drain_timeout: Duration,
    /// The Service's `externalTrafficPolicy`.
    pub traffic_policy: TrafficPolicy,
}

/// Whether a client is kept to one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Affinity {
    /// It is not.
    #[default]
    None,
    /// By its address, for this long after it last connected.
    #[serde(rename_all = "camelCase")]
    ClientIp {
        /// How long.
        #[serde(rename = "timeoutMs", with = "milliseconds")]
        timeout: Duration,
    },
}

/// How a backend is chosen among those that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Algorithm {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// By a hash of the client's address: the same client comes to the same backend, and moves only if that one goes.
    SourceHash,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyProtocol {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// The source address that a backend sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientAddress {
    /// The balancer's own: works wherever the balancer reaches the backend.
    #[default]
    Replaced,
    /// The client's. The answers must come back through the balancer. A user-space data plane needs `CAP_NET_ADMIN`
    /// (`IP_TRANSPARENT`); where it has not, it uses its own address and says so in the status.
    Kept,
}

/// How a backend is asked whether it serves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// The time between two questions while the answer stays the same.
    #[serde(rename = "intervalMs", with = "milliseconds")]
    pub interval: Duration,
    /// No answer within this time is a failure.
    #[serde(rename = "timeoutMs", with = "milliseconds")]
    pub timeout: Duration,
    /// So many good answers in a row make a failed backend healthy.
    pub healthy_after: u32,
    /// So many failures in a row make a healthy backend fail; after the first one, the next question comes at once.
    pub unhealthy_after: u32,
}

/// What a backend is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Probe {
    /// Nothing: it counts as healthy.
    #[default]
    None,
    /// Whether its own port takes a TCP connection. A UDP port is not asked.
    Tcp,
    /// Whether `GET` of this path at this port of its address answers 2xx: the Service's `healthCheckNodePort`, or the
    /// node's own proxy.
    Http {
        /// The port.
        port: u16,
        /// The path: `/healthz`.
        path: String,
    },
}

/// The Service's `externalTrafficPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TrafficPolicy {
    /// Any node takes traffic and may pass it on. If no backend is healthy, all are tried: a wrong check must not take
    /// down a Service that works.
    #[default]
    Cluster,
    /// Only nodes whose health check says so have a pod that serves. If none is healthy, nobody is asked.
    Local,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source_ranges: BTreeSet::new(),
            affinity: Affinity::None,
            algorithm: Algorithm::RoundRobin,
            proxy_protocol: None,
            client_address: ClientAddress::Replaced,
            health_check: HealthCheck::default(),
            idle_timeout: Duration::from_secs(3600),
            udp_idle_timeout: Duration::from_secs(60),
            connection_limit: 0,
            drain_timeout: Duration::from_secs(300),
            traffic_policy: TrafficPolicy::Cluster,
        }
    }
}

impl Default for HealthCheck {
    /// A dead backend is known after at most 1 s + 2 x 0.7 s and the pause between: less than 3 s.
    fn default() -> Self {
        Self {
            probe: Probe::None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(700),
            healthy_after: 1,
            unhealthy_after: 2,
        }
    }
}

impl HealthCheck {
    /// This probe at the default pace.
    pub fn of(probe: Probe) -> Self {
        Self { probe, ..Self::default() }
    }
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
