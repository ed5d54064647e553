//! From a Node to the instance that it would be: what a cloud without an inventory of its own goes by.

use cloud_provider::well_known::address_types::{HOSTNAME, INTERNAL_IP};
use cloud_provider::well_known::annotations::PROVIDED_NODE_IP;
use cloud_provider::{NodeRef, ProviderId};

use super::{NAME, ProviderSettings};
use crate::config::zone_of;
use crate::objects::Machine;

/// The instance for a Node; nothing if the Node is another cloud's or its ID cannot be read.
pub(super) fn machine_for(node: &NodeRef, settings: &ProviderSettings) -> Option<Machine> {
    let id = match node.provider_id.as_deref() {
        None => node.name.clone(),
        Some(text) => {
            text.parse::<ProviderId>().ok().filter(|id| id.scheme() == NAME).map(|id| id.rest().to_owned())?
        }
    };
    let mut machine = Machine::new(&node.name).with_id(id);
    machine.zone = zone_of(&settings.zones, &node.name);
    machine.region.clone_from(&settings.region);
    machine.instance_type.clone_from(&settings.instance_type);
    machine.addresses = internal_ips(node).into_iter().map(|ip| (INTERNAL_IP.to_owned(), ip)).collect();
    machine.addresses.push((HOSTNAME.to_owned(), node.name.clone()));
    Some(machine)
}

/// What the kubelet was told (`--node-ip`, one or both families); else what it registered.
fn internal_ips(node: &NodeRef) -> Vec<String> {
    let provided: Vec<String> = node
        .annotations
        .get(PROVIDED_NODE_IP)
        .into_iter()
        .flat_map(|value| value.split(','))
        .map(|ip| ip.trim().to_owned())
        .filter(|ip| !ip.is_empty())
        .collect();
    if !provided.is_empty() {
        return provided;
    }
    node.addresses
        .iter()
        .filter(|address| address.type_ == INTERNAL_IP)
        .map(|address| address.address.clone())
        .collect()
}
