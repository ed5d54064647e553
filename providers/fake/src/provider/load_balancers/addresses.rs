//! The addresses of a balancer: kept when possible, reserved before it, given back after it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cloud_provider::load_balancer::{Family, Spec};
use cloud_provider::{Change, Changes, Error, Proof};

use super::holdings::{self, Holdings};
use super::wanted::Wanted;
use super::{FakeLoadBalancers, gone_is_fine};
use crate::objects::{Address, NewAddress, family_of};

impl FakeLoadBalancers {
    /// One address per family that the spec asks for, by ID: the one in use if it fits, else one that was reserved
    /// before, else a new one. Addresses that are ours get our tags.
    pub(super) async fn settle_addresses(
        &self,
        spec: &Spec,
        wanted: &Wanted,
        held: &Holdings,
        changes: &Changes,
    ) -> Result<BTreeMap<String, IpAddr>, Error> {
        let in_use =
            held.balancers.first().map(|(balancer, _)| balancer.addresses.clone()).unwrap_or_default();
        let reserved = held.addresses.iter().map(|(address, _)| (address.id.clone(), address.ip));
        let candidates: Vec<(String, IpAddr)> = in_use.into_iter().chain(reserved).collect();
        let mut settled = BTreeMap::new();
        for family in &spec.families {
            let requested = spec.requested_address.filter(|ip| family_of(*ip) == *family);
            let fits = |ip: IpAddr| family_of(ip) == *family && requested.is_none_or(|asked| asked == ip);
            let (id, ip) = match candidates.iter().find(|(_, ip)| fits(*ip)) {
                Some(kept) => kept.clone(),
                None => self.reserve(spec, wanted, *family, requested, changes).await?,
            };
            settled.insert(id, ip);
        }
        for (address, proof) in held.addresses.iter().filter(|(address, _)| settled.contains_key(&address.id))
        {
            self.stamp(address, wanted, proof, changes).await?;
        }
        Ok(settled)
    }

    async fn reserve(
        &self,
        spec: &Spec,
        wanted: &Wanted,
        family: Family,
        requested: Option<IpAddr>,
        changes: &Changes,
    ) -> Result<(String, IpAddr), Error> {
        let [v4, v6] = holdings::address_names(&spec.identity);
        let (name, suffix) = if family == Family::V4 { (v4, "v4") } else { (v6, "v6") };
        let wish = requested.map(|ip| format!("address/{suffix}/{ip}"));
        let new = NewAddress {
            name: name.clone(),
            ipv6: family == Family::V6,
            ip: requested,
            tags: wanted.tags.clone(),
            token: Some(holdings::token(
                &spec.identity,
                &wish.unwrap_or_else(|| format!("address/{suffix}")),
            )),
        };
        let attempt = format!("reserving address {name}");
        let address = changes
            .make(Change::create("address", name), |permit| async move {
                self.api.create_address(&new, &permit).await.map_err(|error| error.during(attempt))
            })
            .await?;
        Ok((address.id, address.ip))
    }

    async fn stamp(
        &self,
        address: &Address,
        wanted: &Wanted,
        proof: &Proof,
        changes: &Changes,
    ) -> Result<(), Error> {
        let tags = wanted.tags_over(&address.tags);
        if tags == address.tags {
            return Ok(());
        }
        let id = &address.id;
        changes
            .make(Change::update("address", &address.name, proof).detail("tags"), |permit| async move {
                let attempt = || format!("tagging address {id}");
                self.api.tag_address(id, &tags, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await
            .map(drop)
    }

    pub(super) async fn delete_address(
        &self,
        address: &Address,
        proof: &Proof,
        changes: &Changes,
    ) -> Result<(), Error> {
        let id = &address.id;
        let deleted = changes
            .make(Change::delete("address", &address.name, proof), |permit| async move {
                let attempt = || format!("giving back address {id}");
                self.api.delete_address(id, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await;
        gone_is_fine(deleted)
    }
}
