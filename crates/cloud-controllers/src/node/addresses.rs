//! Which addresses a Node should have, from what its cloud says, what it has, and what its kubelet asks for. Pure.

use std::net::IpAddr;

use cloud_provider::well_known::address_types;
use k8s_openapi::api::core::v1::NodeAddress;

use super::node_ip::{self, NodeIpError};

/// An address of the cloud's that cannot stand on a Node, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// What the cloud said.
    pub address: NodeAddress,
    /// Why it is left out.
    pub why: &'static str,
}

/// The addresses that a Node should have; `None` while the cloud knows none, which keeps those that it has.
///
/// In this order: what cannot be an address is dropped; without a host name from the cloud the Node keeps its own; a
/// kubelet that asks for certain IPs (`provided`) gets those, or nothing changes.
pub fn wanted(
    cloud: &[NodeAddress],
    current: &[NodeAddress],
    provided: Option<&str>,
) -> Result<Option<Vec<NodeAddress>>, NodeIpError> {
    let (mut known, _) = sift(cloud);
    if !known.is_empty() && !known.iter().any(is_hostname) {
        known.extend(current.iter().filter(|each| is_hostname(each)).cloned());
    }
    let chosen = match provided {
        Some(annotation) => node_ip::choose(&known, &node_ip::parse(annotation)?)?,
        None => known,
    };
    Ok(Some(chosen).filter(|chosen| !chosen.is_empty()))
}

/// Whether two lists mean the same to every reader: the first address of a type is the one that is used, so the order
/// within a type counts, and the order between types does not.
pub fn same_meaning(one: &[NodeAddress], other: &[NodeAddress]) -> bool {
    let by_type = |list: &[NodeAddress]| {
        let mut sorted: Vec<NodeAddress> = list.to_vec();
        // Stable: within a type the order stays.
        sorted.sort_by(|a, b| a.type_.cmp(&b.type_));
        sorted
    };
    one.len() == other.len() && by_type(one) == by_type(other)
}

/// Parts a cloud's list into what can stand on a Node and what cannot. The API server refuses a whole status for one
/// address that is there twice.
pub fn sift(cloud: &[NodeAddress]) -> (Vec<NodeAddress>, Vec<Dropped>) {
    let mut kept: Vec<NodeAddress> = Vec::with_capacity(cloud.len());
    let mut dropped = Vec::new();
    for address in cloud {
        let why = match flaw(address) {
            Some(why) => Some(why),
            None if kept.contains(address) => Some("it is there twice"),
            None => None,
        };
        match why {
            Some(why) => dropped.push(Dropped { address: address.clone(), why }),
            None => kept.push(address.clone()),
        }
    }
    (kept, dropped)
}

fn flaw(address: &NodeAddress) -> Option<&'static str> {
    use address_types::{EXTERNAL_DNS, EXTERNAL_IP, HOSTNAME, INTERNAL_DNS, INTERNAL_IP};
    if address.address.is_empty() {
        return Some("it is empty");
    }
    match address.type_.as_str() {
        INTERNAL_IP | EXTERNAL_IP => match node_ip::parse_ip(&address.address) {
            None => Some("it is no IP address"),
            Some(ip) if !can_be_a_nodes(ip) => Some("no node can be reached by it"),
            Some(_) => None,
        },
        INTERNAL_DNS | EXTERNAL_DNS | HOSTNAME => None,
        _ => Some("its type is unknown"),
    }
}

fn can_be_a_nodes(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast()
}

fn is_hostname(address: &NodeAddress) -> bool {
    address.type_ == address_types::HOSTNAME
}
