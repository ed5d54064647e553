//! What the cloud has for one Service, each object with the proof that it is ours.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::load_balancer::Identity;
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Error, Proof};

use super::super::all_pages;
use super::FakeLoadBalancers;
use crate::api::{ApiError, Filter};
use crate::objects::{Address, Balancer, Object, Tags};

/// The objects, oldest first.
pub(super) struct Holdings {
    pub(super) balancers: Vec<(Balancer, Proof)>,
    pub(super) addresses: Vec<(Address, Proof)>,
}

impl Holdings {
    /// What is there without a balancer, in words.
    pub(super) fn leftovers(&self) -> Option<String> {
        let ips: Vec<String> = self.addresses.iter().map(|(address, _)| address.ip.to_string()).collect();
        (!ips.is_empty()).then(|| format!("there is no balancer, only the address {}", ips.join(", ")))
    }
}

/// How thoroughly to look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// As far as an ensure needs: its creates find by their tokens what lists do not show yet.
    Enough,
    /// Everything that may be left.
    Everything,
}

/// What to do about an object that claims this Service and is not provably ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strangers {
    /// Stop: nothing may be changed.
    Refuse,
    /// Look past it: nothing will be changed.
    Overlook,
}

/// The idempotency token for one part of a Service's balancer.
///
/// INVARIANT: objects in clouds were made under it; another spelling would make them a second time.
pub(super) fn token(identity: &Identity, part: &str) -> String {
    let cluster = identity.cluster.id().map_or("", |id| id.as_str());
    format!("{cluster}/{}/{part}", identity.uid)
}

/// The names of a Service's addresses, IPv4 and IPv6.
pub(super) fn address_names(identity: &Identity) -> [String; 2] {
    let name = identity.default_name();
    let v6 = format!("{name}-v6");
    [name, v6]
}

impl FakeLoadBalancers {
    pub(super) async fn find(
        &self,
        identity: &Identity,
        depth: Depth,
        strangers: Strangers,
    ) -> Result<Holdings, Error> {
        let attempt = || format!("looking for load balancer {}", identity.default_name());
        let balancers =
            self.find_balancers(identity, depth).await.map_err(|error| error.during(attempt()))?;
        let balancers = proven(identity, balancers, strangers)?;
        let addresses = self
            .find_addresses(identity, depth, &balancers)
            .await
            .map_err(|error| error.during(attempt()))?;
        // An address that is not ours may serve our balancer: somebody reserved it for us. It is never touched.
        let addresses = proven(identity, addresses, Strangers::Overlook)?;
        Ok(Holdings { balancers, addresses })
    }

    async fn find_balancers(&self, identity: &Identity, depth: Depth) -> Result<Vec<Balancer>, ApiError> {
        let mut found = self.balancers_by(&Filter::Token(token(identity, "balancer"))).await?;
        if !found.is_empty() && depth == Depth::Enough {
            return Ok(found);
        }
        let mut filters = vec![Filter::Named(identity.default_name())];
        if depth == Depth::Everything {
            filters.push(Filter::Tagged(OWNER_TAG.to_owned(), identity.uid.clone()));
        }
        for filter in filters {
            for listed in self.balancers_by(&filter).await? {
                if found.iter().any(|known| known.id == listed.id) {
                    continue;
                }
                // These lists may show what is gone already; a get never does.
                match self.api.get_load_balancer(&listed.id).await {
                    Ok(balancer) => found.push(balancer),
                    Err(ApiError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    async fn find_addresses(
        &self,
        identity: &Identity,
        depth: Depth,
        balancers: &[(Balancer, Proof)],
    ) -> Result<Vec<Address>, ApiError> {
        let mut found = BTreeMap::new();
        let [v4, v6] = address_names(identity);
        let mut filters = vec![Filter::Tagged(OWNER_TAG.to_owned(), identity.uid.clone())];
        if depth == Depth::Everything {
            // Lists may not show yet what an interrupted pass reserved; its token does.
            filters.extend([
                Filter::Token(token(identity, "address/v4")),
                Filter::Token(token(identity, "address/v6")),
                Filter::Named(v4),
                Filter::Named(v6),
            ]);
        }
        let in_use: BTreeSet<&String> =
            balancers.iter().flat_map(|(balancer, _)| balancer.addresses.keys()).collect();
        for filter in &filters {
            let listed =
                all_pages(|token| async move { self.api.list_addresses(filter, token.as_deref()).await })
                    .await?;
            for address in listed {
                // An address in use cannot be gone; any other that a list shows may be.
                let known = found.contains_key(&address.id) || in_use.contains(&address.id);
                if known || self.exists(&address.id).await? {
                    found.insert(address.id.clone(), address);
                }
            }
        }
        for id in in_use {
            if !found.contains_key(id) {
                found.insert(id.clone(), self.api.get_address(id).await?);
            }
        }
        Ok(found.into_values().collect())
    }

    async fn exists(&self, address: &str) -> Result<bool, ApiError> {
        match self.api.get_address(address).await {
            Ok(_) => Ok(true),
            Err(ApiError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn balancers_by(&self, filter: &Filter) -> Result<Vec<Balancer>, ApiError> {
        all_pages(|token| async move { self.api.list_load_balancers(filter, token.as_deref()).await }).await
    }
}

/// Each object with the proof that it is ours.
fn proven<T: Object>(
    identity: &Identity,
    objects: Vec<T>,
    strangers: Strangers,
) -> Result<Vec<(T, Proof)>, Error> {
    let mut ours = Vec::new();
    for object in objects {
        match prove(identity, object.name(), object.tags()) {
            Ok(proof) => ours.push((object, proof)),
            Err(_) if strangers == Strangers::Overlook => {}
            Err(error) => return Err(error.context(format!("checking whose {} is", object.id()))),
        }
    }
    Ok(ours)
}

/// Our tag, or the name that upstream gives this Service's objects; never an object that serves another Service.
fn prove(identity: &Identity, name: &str, tags: &Tags) -> Result<Proof, Error> {
    if let Some(owner) = tags.get(OWNER_TAG).filter(|owner| **owner != identity.uid) {
        return Err(Error::not_owned(format!("it serves {owner}")));
    }
    let expected = address_names(identity).into_iter().find(|expected| expected == name).unwrap_or_default();
    let tag = tags.get(CLUSTER_TAG).map(String::as_str);
    Proof::by_upstream_name(&identity.cluster, &identity.uid, &expected, name, tag)
}
