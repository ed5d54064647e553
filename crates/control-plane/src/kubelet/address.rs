//! Which addresses and which address annotation a kubelet writes. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::{CloudProvider, Kubelet, PROVIDED_NODE_IP};

impl Kubelet {
    /// Brings a Node's address annotation and addresses to what this kubelet would write.
    pub(super) fn set_addresses(&self, node: &mut Node) {
        self.set_annotation(node);
        let status = node.status.get_or_insert_default();
        let external = self.cloud_provider == CloudProvider::External;
        if external && status.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty()) {
            // What the cloud has written takes precedence from then on.
            return;
        }
        if let Some(internal) = self.internal_addresses(external) {
            let internal = internal.iter().map(|address| typed("InternalIP", &address.to_string()));
            let addresses = internal.chain([typed("Hostname", &self.hostname)]).collect();
            status.addresses = Some(addresses);
        }
    }

    fn set_annotation(&self, node: &mut Node) {
        let annotation = if self.cloud_provider == CloudProvider::External && self.node_ip.is_specified() {
            self.node_ip.primary().map(|primary| match self.node_ip.secondary() {
                Some(secondary) => format!("{primary},{secondary}"),
                None => primary.to_string(),
            })
        } else {
            None
        };
        match annotation {
            Some(value) => {
                let annotations = node.metadata.annotations.get_or_insert_default();
                annotations.insert(PROVIDED_NODE_IP.to_owned(), value);
            }
            None => {
                if let Some(annotations) = &mut node.metadata.annotations {
                    annotations.remove(PROVIDED_NODE_IP);
                }
            }
        }
    }

    /// `None` when a kubelet cannot find an address and leaves the Node's as they are.
    fn internal_addresses(&self, external: bool) -> Option<Vec<IpAddr>> {
        let Some(primary) = self.node_ip.primary() else {
            // The cloud will know. Without one, the machine has to find out by itself.
            return if external { Some(Vec::new()) } else { self.bootstrap(false).map(|found| vec![found]) };
        };
        if primary.is_unspecified() {
            return self.bootstrap(primary.is_ipv6()).map(|found| vec![found]);
        }
        Some([Some(primary), self.node_ip.secondary()].into_iter().flatten().collect())
    }

    /// The address that a kubelet finds for itself: the host name if it is one, else DNS, else the default route.
    fn bootstrap(&self, prefer_ipv6: bool) -> Option<IpAddr> {
        let preferred = |addresses: &[IpAddr]| {
            let of_family = addresses.iter().find(|address| address.is_ipv6() == prefer_ipv6);
            of_family.or(addresses.first()).copied()
        };
        let from_dns: Vec<IpAddr> = self.network.dns.iter().copied().filter(is_usable).collect();
        self.hostname
            .parse()
            .ok()
            .or_else(|| preferred(&from_dns))
            .or_else(|| preferred(&self.network.default_route))
    }
}

/// Whether a kubelet takes an address that DNS gave it for one of its own.
fn is_usable(address: &IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_multicast() || address.is_unspecified() || link_local)
}

fn typed(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}
