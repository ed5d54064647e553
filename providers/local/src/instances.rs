//! The slot for instances: from the inventory, or each Node as its own machine.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::well_known::{address_types, annotations, labels};
use cloud_provider::{
    Doubt, Error, Existence, Freshness, Instance, Instances, NodeRef, Power, ProviderId, Snapshot,
};

use crate::NAME;
use crate::config::Defaults;
use crate::inventory::Watched;

/// Machines that an inventory lists.
pub struct Inventoried {
    site: String,
    inventory: Arc<Watched>,
}

impl Inventoried {
    /// The machines of this site in this inventory.
    pub fn new(site: &str, inventory: Arc<Watched>) -> Self {
        Self { site: site.to_owned(), inventory }
    }
}

#[async_trait]
impl Instances for Inventoried {
    /// While the file is broken, known machines are told from the last good one, and nobody is absent; an answer that
    /// decides about a Node's life asks for the file itself, and fails.
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        let look = self.inventory.look().await;
        let doubtful: Snapshot;
        let seen = match look.trouble {
            None => &*look.good,
            Some(why) if freshness == Freshness::Now => {
                return Err(Error::other("asking the inventory").because(why));
            }
            Some(why) => {
                let mut last_good = (*look.good).clone();
                last_good.mark_incomplete(why);
                doubtful = last_good;
                &doubtful
            }
        };
        let answer = |node: &NodeRef| {
            if is_of_another_site(node, &self.site) { Existence::NotMine } else { seen.answer(node) }
        };
        Ok(nodes.iter().map(answer).collect())
    }
}

/// Each Node is its own machine, as its kubelet registered it: none is ever absent.
pub struct Adopted {
    site: String,
    defaults: Defaults,
}

impl Adopted {
    /// The Nodes of this site.
    pub fn new(site: &str, defaults: Defaults) -> Self {
        Self { site: site.to_owned(), defaults }
    }

    fn adopt(&self, node: &NodeRef) -> Existence {
        let id = match node.provider_id.as_deref() {
            Some(text) if !is_ours(text) || is_of_another_site(node, &self.site) => {
                return Existence::NotMine;
            }
            Some(text) => text.parse(),
            None => ProviderId::new(NAME, &format!("{}/{}", self.site, node.name)),
        };
        let id = match id {
            Ok(id) => id,
            Err(error) => return Existence::Unknown(Doubt::BadProviderId(error.to_string())),
        };
        let own = |label: &str, default: &str| {
            node.labels.get(label).cloned().unwrap_or_else(|| default.to_owned())
        };
        let mut instance = Instance::new(id)
            .of_type(own(labels::INSTANCE_TYPE, &self.defaults.instance_type))
            .located(own(labels::ZONE, &self.defaults.zone), own(labels::REGION, &self.defaults.region))
            .power(Power::Untold);
        instance.addresses.clone_from(&node.addresses);
        for address in provided(node) {
            if !node.addresses.iter().any(|known| known.address == address) {
                instance = instance.address(address_types::INTERNAL_IP, address);
            }
        }
        if !instance.addresses.iter().any(|address| address.type_ == address_types::HOSTNAME) {
            instance = instance.address(address_types::HOSTNAME, &node.name);
        }
        Existence::Found(Box::new(instance))
    }
}

#[async_trait]
impl Instances for Adopted {
    async fn lookup(&self, nodes: &[NodeRef], _: Freshness) -> Result<Vec<Existence>, Error> {
        Ok(nodes.iter().map(|node| self.adopt(node)).collect())
    }
}

/// The addresses that a kubelet was told by `--node-ip`.
fn provided(node: &NodeRef) -> impl Iterator<Item = String> {
    let value = node.annotations.get(annotations::PROVIDED_NODE_IP).map_or("", String::as_str);
    value.split(',').filter(|entry| entry.parse::<IpAddr>().is_ok()).map(str::to_owned)
}

fn is_ours(provider_id: &str) -> bool {
    provider_id.strip_prefix(NAME).is_some_and(|rest| rest.starts_with("://"))
}

/// Whether a Node carries a provider ID of ours that names another site: its machine is listed elsewhere.
fn is_of_another_site(node: &NodeRef, site: &str) -> bool {
    let id = node.provider_id.as_deref().and_then(|text| text.parse::<ProviderId>().ok());
    id.is_some_and(|id| {
        id.scheme() == NAME && id.rest().split_once('/').is_some_and(|(other, _)| other != site)
    })
}

#[cfg(test)]
mod tests;
