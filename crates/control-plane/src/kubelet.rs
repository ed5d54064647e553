//! Nodes as a kubelet registers them: what a cloud controller manager finds when a machine joins. A [`Kubelet`] holds the
//! flags; what it would send is computed by pure functions, and sent by [`Kubelet::register`] and its neighbours.
//! There is no machine behind it: it runs no pods.
//!
//! Follows upstream's `pkg/kubelet/kubelet_node_status.go` and `pkg/kubelet/nodestatus/setters.go`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use k8s_openapi::api::core::v1::Taint;

use crate::version::Pins;

mod address;
mod node;
mod node_ip;
mod registration;
mod status;
#[cfg(test)]
mod tests;

pub use node_ip::{NodeIp, NodeIpError};
pub use registration::{Registration, register_all};

/// INVARIANT: how a Node says that no cloud has looked at it yet. Every cloud controller manager waits for this key.
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// INVARIANT: how a kubelet tells the cloud which addresses it was given.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// `--cloud-provider`: nothing else is accepted since the clouds left Kubernetes' own tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudProvider {
    /// `--cloud-provider=`: nobody will initialise the Node.
    None,
    /// `--cloud-provider=external`: a cloud controller manager will.
    #[default]
    External,
}

impl FromStr for CloudProvider {
    type Err = UnknownCloudProvider;

    fn from_str(flag: &str) -> Result<Self, UnknownCloudProvider> {
        match flag {
            "" => Ok(Self::None),
            "external" => Ok(Self::External),
            other => Err(UnknownCloudProvider(other.to_owned())),
        }
    }
}

/// A `--cloud-provider` that no kubelet accepts.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading --cloud-provider: {0:?} is neither empty nor \"external\"")]
pub struct UnknownCloudProvider(pub String);

/// What the machine's network would answer to a kubelet that has to find its address itself.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// What DNS says about the Node's name.
    pub dns: Vec<IpAddr>,
    /// The addresses of the interface that the default route goes through.
    pub default_route: Vec<IpAddr>,
}

/// The flags of a kubelet, and what it finds on its machine.
#[derive(Clone, Debug)]
pub struct Kubelet {
    name: String,
    hostname: String,
    cloud_provider: CloudProvider,
    node_ip: NodeIp,
    network: Network,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    provider_id: Option<String>,
    os: &'static str,
    arch: String,
    windows_build: Option<String>,
    ready: bool,
    images: usize,
    version: String,
}

impl Kubelet {
    /// A kubelet with `--cloud-provider=external` on a Linux machine of this name, ready, with no other flag.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            hostname: name.clone(),
            name,
            cloud_provider: CloudProvider::External,
            node_ip: NodeIp::default(),
            network: Network::default(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            provider_id: None,
            os: "linux",
            arch: "amd64".to_owned(),
            windows_build: None,
            ready: true,
            images: 0,
            version: Pins::load().map(|pins| format!("v{}", pins.default)).unwrap_or_default(),
        }
    }

    /// The Node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `--cloud-provider`.
    #[must_use]
    pub fn cloud_provider(mut self, cloud_provider: CloudProvider) -> Self {
        self.cloud_provider = cloud_provider;
        self
    }

    /// The machine's own name where it differs from the Node's.
    #[must_use]
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = hostname.into();
        self
    }

    /// `--node-ip`, parsed by [`NodeIp::from_str`] or made from addresses.
    #[must_use]
    pub fn node_ip(mut self, node_ip: impl Into<NodeIp>) -> Self {
        self.node_ip = node_ip.into();
        self
    }

    /// What the network answers when `--node-ip` does not name an address.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// One of `--node-labels`.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// One of `--register-with-taints`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let (key, effect) = (key.to_owned(), effect.to_owned());
        self.taints.push(Taint { key, effect, value: Some(value.to_owned()), time_added: None });
        self
    }

    /// `--provider-id`.
    #[must_use]
    pub fn provider_id(mut self, provider_id: impl Into<String>) -> Self {
        self.provider_id = Some(provider_id.into());
        self
    }

    /// The machine's architecture, as Go names it; `amd64` unless said otherwise.
    #[must_use]
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.arch = arch.into();
        self
    }

    /// Makes it a Windows machine of this build, such as `10.0.20348`.
    #[must_use]
    pub fn windows(mut self, build: impl Into<String>) -> Self {
        self.os = "windows";
        self.windows_build = Some(build.into());
        self
    }

    /// Whether it reports itself ready.
    #[must_use]
    pub fn ready(mut self, ready: bool) -> Self {
        self.ready = ready;
        self
    }

    /// How many container images it reports. A kubelet reports up to fifty, and they are most of a real Node's size.
    #[must_use]
    pub fn images(mut self, images: usize) -> Self {
        self.images = images;
        self
    }

    /// The version that it reports, such as `v1.36.4`; the pinned one unless said otherwise.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }
}
