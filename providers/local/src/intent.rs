//! The intent: the whole wanted state of the data plane, in one value.
//!
//! The manager writes it, a data plane makes it true (`proxy` in user space, others in the kernel). It is what crosses
//! the socket and what is kept on disk; it holds no live state (see [`status`]) and no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub mod check;
mod held;
pub mod plan;
mod settings;
mod shared;
pub mod status;
mod store;
mod words;

pub use check::Refusal;
pub(crate) use held::Held;
pub use plan::{Change, plan};
pub use settings::{
    Affinity, Algorithm, ClientAddress, HealthCheck, Probe, ProxyProtocol, Settings, TrafficPolicy,
};
pub use status::Status;
pub use store::{Store, StoreError};

/// The version of the format that this code writes.
///
/// INVARIANT: a field that an older reader may safely ignore keeps the version; a field that restricts who is served, or
/// changes the meaning of another, raises it. A reader refuses what is newer than itself and keeps what it has.
pub const VERSION: u32 = 1;

/// Everything that the data plane is to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The version of the format: [`VERSION`].
    pub version: u32,
    /// Counts the changes. A data plane takes a new intent only if it was made from the revision in force, and answers
    /// with the revision after it: of two writers, the one who read an old state is told so.
    #[serde(default)]
    pub revision: u64,
    /// The balancers, by the UID of their Service. Those that stay are the same values in the next intent, so that a change
    /// of one costs no copy of the others, and what changed is found at once.
    #[serde(default, with = "shared")]
    pub balancers: BTreeMap<Uid, Arc<Balancer>>,
}

/// The UID of a Service.
pub type Uid = String;

/// One Service of type `LoadBalancer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balancer {
    /// The identity of the cluster that made it: what proves to a manager that it may change it. A data plane does not
    /// read it.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The Service's namespace: for people, logs and metrics.
    pub namespace: String,
    /// The Service's name: for people, logs and metrics.
    pub name: String,
    /// The virtual addresses that it answers at, on each of its ports.
    pub addresses: BTreeSet<IpAddr>,
    /// The ports.
    pub ports: BTreeMap<PortKey, Port>,
    /// Everything else.
    #[serde(default)]
    pub settings: Settings,
}

/// A transport protocol that a data plane forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    #[serde(rename = "TCP")]
    Tcp,
    /// UDP.
    #[serde(rename = "UDP")]
    Udp,
}

/// Where clients connect, apart from the address: written as `TCP/443`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PortKey {
    /// The protocol.
    pub protocol: Protocol,
    /// The port of the virtual address.
    pub port: u16,
}

/// What stands behind one port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The backends, in no order.
    pub backends: BTreeSet<Backend>,
    /// How a backend is reached.
    #[serde(default)]
    pub delivery: Delivery,
}

/// How a backend is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// At its own address and port: a node port, or a pod's own endpoint.
    #[default]
    Rewritten,
    /// Through its address as the next hop, with the virtual address and port left as they are: for a Service without
    /// node ports, where the node knows the virtual address. Only a kernel data plane can do this.
    Unmodified,
}

/// One target: a node's port, or a pod's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The node that it is, or that the pod runs on.
    pub node: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its share among the backends of the same port. Zero takes no new connection and keeps those it has.
    #[serde(default = "one")]
    pub weight: u16,
}

fn one() -> u16 {
    1
}

/// An address and port that clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The protocol.
    pub protocol: Protocol,
    /// The virtual address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

impl Intent {
    /// An intent that serves nothing.
    pub fn empty() -> Self {
        Self { version: VERSION, revision: 0, balancers: BTreeMap::new() }
    }
}

impl Default for Intent {
    fn default() -> Self {
        Self::empty()
    }
}

impl Balancer {
    /// Every address and port that clients connect to.
    pub fn listeners(&self) -> impl Iterator<Item = Listener> {
        self.ports.keys().flat_map(|key| self.addresses.iter().map(|address| key.at(*address)))
    }
}

impl PortKey {
    /// A TCP port.
    pub fn tcp(port: u16) -> Self {
        Self { protocol: Protocol::Tcp, port }
    }

    /// A UDP port.
    pub fn udp(port: u16) -> Self {
        Self { protocol: Protocol::Udp, port }
    }

    /// This port of this address.
    pub fn at(self, address: IpAddr) -> Listener {
        Listener { protocol: self.protocol, address, port: self.port }
    }
}

impl Backend {
    /// Its address and port.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

impl Listener {
    /// Its address and port.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Its port without the address.
    pub fn key(&self) -> PortKey {
        PortKey { protocol: self.protocol, port: self.port }
    }
}

impl Protocol {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.port)
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol, self.socket())
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.node, self.socket())
    }
}

impl From<PortKey> for String {
    fn from(key: PortKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PortKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let key = text.split_once('/').and_then(|(protocol, port)| {
            let protocol = match protocol {
                "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                _ => return None,
            };
            Some(Self { protocol, port: port.parse().ok()? })
        });
        key.ok_or_else(|| format!("{text:?} is not a protocol and a port, as in TCP/443"))
    }
}

#[cfg(test)]
mod tests;
