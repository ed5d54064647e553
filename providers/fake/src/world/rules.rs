//! The cloud's own rules for each change, and the watch over the rules that its clients must keep.
//!
//! A broken client rule is noted and the change is made all the same: a real cloud would not know better.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};

use super::State;
use super::ledger::Rule;
use super::shelf::{Origin, Shelf};
use crate::api::{ApiError, Operation};
use crate::config::{self, Config};
use crate::objects::{
    Address, Balancer, BalancerUpdate, Disk, NewAddress, NewBalancer, NewDisk, NewRoute, Object, RouteEntry,
    Tags,
};

/// Who makes a change, and when.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) caller: &'a str,
    pub(super) now: Duration,
    pub(super) operation: Operation,
    pub(super) config: &'a Config,
}

impl State {
    pub(super) fn create_address(&mut self, by: By<'_>, new: &NewAddress) -> Result<Address, ApiError> {
        if let Some(made) = self.stock.addresses.by_token(new.token.as_deref()) {
            return Ok(made.clone());
        }
        room(&self.stock.addresses, by.config.quotas.addresses, "addresses")?;
        unclaimed(&self.stock.addresses, by, &new.name)?;
        let ip = match new.ip {
            Some(ip) if ip.is_ipv6() != new.ipv6 => {
                return Err(ApiError::Invalid { why: format!("{ip} is not of the family asked for") });
            }
            Some(ip) if self.stock.addresses.alive().any(|kept| kept.value.ip == ip) => {
                return Err(ApiError::Conflict { why: format!("address {ip} is taken") });
            }
            Some(ip) => ip,
            None => self.stock.free_ip(new.ipv6).ok_or(ApiError::QuotaExceeded { kind: "pool".into() })?,
        };
        let id = self.stock.addresses.next_id();
        let address = Address { id, name: new.name.clone(), ip, tags: new.tags.clone() };
        self.watch_creation(by, &address);
        let origin = self.origin(by, new.token.clone());
        self.stock.addresses.insert(address.clone(), origin);
        Ok(address)
    }

    pub(super) fn tag_address(&mut self, by: By<'_>, id: &str, tags: &Tags) -> Result<Address, ApiError> {
        let kept = self.stock.addresses.get(id)?;
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        let address = self.stock.addresses.get_mut(id)?;
        address.tags.clone_from(tags);
        Ok(address.clone())
    }

    pub(super) fn delete_address(&mut self, by: By<'_>, id: &str) -> Result<(), ApiError> {
        let kept = self.stock.addresses.get(id)?;
        let user = self.stock.balancers.alive().find(|each| each.value.addresses.contains_key(id));
        if let Some(user) = user {
            return Err(ApiError::InUse { by: user.value.id.clone(), device: None });
        }
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        self.stock.addresses.remove(id, by.now, self.stock.lag);
        Ok(())
    }

    pub(super) fn create_balancer(&mut self, by: By<'_>, new: &NewBalancer) -> Result<Balancer, ApiError> {
        if let Some(made) = self.stock.balancers.by_token(new.token.as_deref()) {
            return Ok(self.stock.shown(made.clone(), by.now));
        }
        room(&self.stock.balancers, by.config.quotas.load_balancers, "load balancers")?;
        unclaimed(&self.stock.balancers, by, &new.name)?;
        let addresses = self.free_addresses(&new.addresses, None)?;
        let balancer = Balancer {
            id: self.stock.balancers.next_id(),
            name: new.name.clone(),
            tags: new.tags.clone(),
            addresses,
            settings: new.settings.clone(),
            backends: new.backends.clone(),
            pending_for: None,
        };
        self.watch_creation(by, &balancer);
        self.watch_second_balancer(by, &balancer);
        if !by.config.balancer_ready_after.is_zero() {
            self.stock.ready_at.insert(balancer.id.clone(), by.now + by.config.balancer_ready_after);
        }
        let origin = self.origin(by, new.token.clone());
        self.stock.balancers.insert(balancer.clone(), origin);
        Ok(self.stock.shown(balancer, by.now))
    }

    pub(super) fn update_balancer(
        &mut self,
        by: By<'_>,
        id: &str,
        update: &BalancerUpdate,
    ) -> Result<Balancer, ApiError> {
        self.touch_balancer(by, id)?;
        let addresses = self.free_addresses(&update.addresses, Some(id))?;
        let balancer = self.stock.balancers.get_mut(id)?;
        balancer.tags.clone_from(&update.tags);
        balancer.settings.clone_from(&update.settings);
        balancer.addresses = addresses;
        Ok(balancer.clone())
    }

    pub(super) fn set_backends(
        &mut self,
        by: By<'_>,
        id: &str,
        backends: &BTreeSet<String>,
    ) -> Result<Balancer, ApiError> {
        self.touch_balancer(by, id)?;
        let balancer = self.stock.balancers.get_mut(id)?;
        balancer.backends.clone_from(backends);
        Ok(balancer.clone())
    }

    pub(super) fn delete_balancer(&mut self, by: By<'_>, id: &str) -> Result<(), ApiError> {
        let kept = self.stock.balancers.get(id)?;
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        self.stock.balancers.remove(id, by.now, self.stock.lag);
        self.stock.ready_at.remove(id);
        Ok(())
    }

    pub(super) fn create_route(&mut self, by: By<'_>, new: &NewRoute) -> Result<RouteEntry, ApiError> {
        if let Some(made) = self.stock.routes.by_token(new.token.as_deref()) {
            return Ok(made.clone());
        }
        room(&self.stock.routes, by.config.quotas.routes, "routes")?;
        unclaimed(&self.stock.routes, by, &new.name)?;
        let route = RouteEntry {
            id: self.stock.routes.next_id(),
            name: new.name.clone(),
            destination: new.destination,
            node: new.node.clone(),
            addresses: new.addresses.clone(),
            blackhole: false,
            tags: new.tags.clone(),
        };
        self.watch_creation(by, &route);
        self.watch_second_route(by, &route);
        let origin = self.origin(by, new.token.clone());
        self.stock.routes.insert(route.clone(), origin);
        Ok(route)
    }

    pub(super) fn delete_route(&mut self, by: By<'_>, id: &str) -> Result<(), ApiError> {
        let kept = self.stock.routes.get(id)?;
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        self.stock.routes.remove(id, by.now, self.stock.lag);
        Ok(())
    }

    pub(super) fn create_disk(&mut self, by: By<'_>, new: &NewDisk) -> Result<Disk, ApiError> {
        if let Some(made) = self.stock.disks.by_token(new.token.as_deref()) {
            return Ok(made.clone());
        }
        room(&self.stock.disks, by.config.quotas.volumes, "volumes")?;
        unclaimed(&self.stock.disks, by, &new.name)?;
        let disk = Disk {
            id: self.stock.disks.next_id(),
            name: new.name.clone(),
            bytes: new.bytes,
            zone: new.zones.first().cloned().unwrap_or_else(|| config::zone_of(&by.config.zones, &new.name)),
            region: by.config.region.clone(),
            attached: None,
            tags: new.tags.clone(),
        };
        self.watch_creation(by, &disk);
        let origin = self.origin(by, new.token.clone());
        self.stock.disks.insert(disk.clone(), origin);
        Ok(disk)
    }

    pub(super) fn resize_disk(&mut self, by: By<'_>, id: &str, bytes: u64) -> Result<Disk, ApiError> {
        let disk = self.touch_disk(by, id)?;
        if bytes < disk.bytes {
            return Err(ApiError::Invalid { why: format!("volume {id} cannot shrink") });
        }
        disk.bytes = bytes;
        Ok(disk.clone())
    }

    pub(super) fn attach_disk(&mut self, by: By<'_>, id: &str, machine: &str) -> Result<Disk, ApiError> {
        let disk = self.touch_disk(by, id)?;
        match &disk.attached {
            Some((holder, device)) if holder != machine => {
                Err(ApiError::InUse { by: holder.clone(), device: Some(device.clone()) })
            }
            Some(_) => Ok(disk.clone()),
            None => {
                disk.attached = Some((machine.to_owned(), format!("/dev/disk/by-id/{id}")));
                Ok(disk.clone())
            }
        }
    }

    pub(super) fn detach_disk(&mut self, by: By<'_>, id: &str, machine: &str) -> Result<Disk, ApiError> {
        let disk = self.touch_disk(by, id)?;
        disk.attached.take_if(|(holder, _)| holder == machine);
        Ok(disk.clone())
    }

    pub(super) fn delete_disk(&mut self, by: By<'_>, id: &str) -> Result<(), ApiError> {
        if let Some((holder, device)) = &self.touch_disk(by, id)?.attached {
            return Err(ApiError::InUse { by: holder.clone(), device: Some(device.clone()) });
        }
        self.stock.disks.remove(id, by.now, self.stock.lag);
        Ok(())
    }

    /// The addresses of these IDs, if no other balancer has them.
    fn free_addresses(
        &self,
        ids: &BTreeSet<String>,
        own: Option<&str>,
    ) -> Result<BTreeMap<String, IpAddr>, ApiError> {
        let mut found = BTreeMap::new();
        for id in ids {
            let address = &self.stock.addresses.get(id)?.value;
            let other = |each: &Balancer| Some(each.id.as_str()) != own && each.addresses.contains_key(id);
            if let Some(user) = self.stock.balancers.alive().find(|kept| other(&kept.value)) {
                return Err(ApiError::InUse { by: user.value.id.clone(), device: None });
            }
            found.insert(id.clone(), address.ip);
        }
        Ok(found)
    }

    fn touch_balancer(&mut self, by: By<'_>, id: &str) -> Result<(), ApiError> {
        let kept = self.stock.balancers.get(id)?;
        let pending = self.stock.shown(kept.value.clone(), by.now).pending_for;
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        pending.map_or(Ok(()), |after| Err(ApiError::Pending { after }))
    }

    fn touch_disk(&mut self, by: By<'_>, id: &str) -> Result<&mut Disk, ApiError> {
        let kept = self.stock.disks.get(id)?;
        let complaint = trespass(by, &kept.value, kept.maker.as_deref());
        self.note(by, complaint);
        self.stock.disks.get_mut(id)
    }

    fn origin(&self, by: By<'_>, token: Option<String>) -> Origin {
        Origin { maker: Some(by.caller.to_owned()), token, shown_from: by.now + self.stock.lag.new }
    }

    fn note(&mut self, by: By<'_>, complaint: Option<(Rule, String)>) {
        if let Some((rule, what)) = complaint {
            self.ledger.violation(by.now, rule, what);
        }
    }

    fn watch_creation(&mut self, by: By<'_>, made: &impl Object) {
        let complaint = match made.tags().get(CLUSTER_TAG).map(String::as_str) {
            None if !by.caller.is_empty() => {
                Some((Rule::Tag, format!("{} made {} without the tag {CLUSTER_TAG}", by.caller, made.id())))
            }
            Some(tag) if tag != by.caller => Some((
                Rule::Ownership,
                format!("{:?} made {} with the tag of cluster {tag}", by.caller, made.id()),
            )),
            _ => None,
        };
        self.note(by, complaint);
        let owner = made.tags().get(OWNER_TAG).filter(|owner| self.stock.gone.contains(*owner));
        let complaint =
            owner.map(|owner| (Rule::Leak, format!("{} was made for {owner}, which is gone", made.id())));
        self.note(by, complaint);
    }

    fn watch_second_balancer(&mut self, by: By<'_>, made: &Balancer) {
        let serves = |each: &Balancer| each.tags.get(OWNER_TAG).cloned().unwrap_or_else(|| each.name.clone());
        let other = self
            .stock
            .balancers
            .alive()
            .find(|kept| kept.maker.as_deref() == Some(by.caller) && serves(&kept.value) == serves(made));
        let complaint = other.map(|other| {
            (Rule::Duplicate, format!("{} serves {}, as {} does", made.id, serves(made), other.value.id))
        });
        self.note(by, complaint);
    }

    fn watch_second_route(&mut self, by: By<'_>, made: &RouteEntry) {
        let other = self.stock.routes.alive().find(|kept| {
            kept.maker.as_deref() == Some(by.caller)
                && (&kept.value.node, kept.value.destination) == (&made.node, made.destination)
        });
        let complaint = other.map(|other| {
            let node = made.node.as_deref().unwrap_or("nowhere");
            let what =
                format!("{} leads {} to {node}, as {} does", made.id, made.destination, other.value.id);
            (Rule::Duplicate, what)
        });
        self.note(by, complaint);
    }
}

/// What is wrong with a change of this object by this caller, whoever it truly belongs to.
fn trespass(by: By<'_>, object: &impl Object, maker: Option<&str>) -> Option<(Rule, String)> {
    let tag = object.tags().get(CLUSTER_TAG).map(String::as_str);
    let other = tag.or(maker).filter(|other| *other != by.caller)?;
    let how = if tag.is_some() { "is tagged for" } else { "was made by" };
    let what =
        format!("{:?} called {} on {}, which {how} cluster {other:?}", by.caller, by.operation, object.id());
    Some((Rule::Ownership, what))
}

fn room<T: Object>(shelf: &Shelf<T>, quota: Option<usize>, kind: &str) -> Result<(), ApiError> {
    match quota {
        Some(quota) if shelf.len() >= quota => Err(ApiError::QuotaExceeded { kind: kind.to_owned() }),
        _ => Ok(()),
    }
}

fn unclaimed<T: Object>(shelf: &Shelf<T>, by: By<'_>, name: &str) -> Result<(), ApiError> {
    if by.config.unique_names && shelf.alive().any(|kept| kept.value.name() == name) {
        return Err(ApiError::Conflict { why: format!("the name {name} is taken") });
    }
    Ok(())
}
