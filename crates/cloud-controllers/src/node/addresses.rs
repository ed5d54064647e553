//! Which addresses a Node should have, from what its cloud says, what it has, and what its kubelet asks for. Pure.

use std::net::IpAddr;

use cloud_provider::well_known::address_types;
use ipnet::IpNet;
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

/// Which networks a Node's IP addresses may be from, whatever the cloud says: machines have interfaces that are nobody's
/// way to the Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nets {
    /// Only these; all if empty.
    pub only: Vec<IpNet>,
    /// And none of these.
    pub except: Vec<IpNet>,
}

impl Nets {
    fn forbid(&self, ip: IpAddr) -> Option<&'static str> {
        let within = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&ip));
        if !self.only.is_empty() && !within(&self.only) {
            return Some("it is in none of the networks that node addresses are taken from");
        }
        within(&self.except).then_some("it is in a network that node addresses are not taken from")
    }
}

/// The addresses that a Node should have; `None` while the cloud knows none, which keeps those that it has.
///
/// In this order: what cannot be an address is dropped; without a host name from the cloud the Node keeps its own; a
/// kubelet that asks for certain IPs (`provided`) gets those, or nothing changes.
pub fn wanted(
    cloud: &[NodeAddress],
    nets: &Nets,
    current: &[NodeAddress],
    provided: Option<&str>,
) -> Result<Option<Vec<NodeAddress>>, NodeIpError> {
    let (mut known, _) = sift(cloud, nets);
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
pub fn sift(cloud: &[NodeAddress], nets: &Nets) -> (Vec<NodeAddress>, Vec<Dropped>) {
    let mut kept: Vec<NodeAddress> = Vec::with_capacity(cloud.len());
    let mut dropped = Vec::new();
    for address in cloud {
        let why = match flaw(address, nets) {
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

fn flaw(address: &NodeAddress, nets: &Nets) -> Option<&'static str> {
    use address_types::{EXTERNAL_DNS, EXTERNAL_IP, HOSTNAME, INTERNAL_DNS, INTERNAL_IP};
    if address.address.is_empty() {
        return Some("it is empty");
    }
    match address.type_.as_str() {
        INTERNAL_IP | EXTERNAL_IP => match node_ip::parse_ip(&address.address) {
            None => Some("it is no IP address"),
            Some(ip) if !can_be_a_nodes(ip) => Some("no node can be reached by it"),
            Some(ip) => nets.forbid(ip),
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
