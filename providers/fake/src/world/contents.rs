//! All objects of the account, and the pools from which addresses come.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::shelf::{Lag, Origin, Shelf};
use crate::config::Config;
use crate::objects::{Address, Balancer, Disk, Machine, Object, RouteEntry};

/// Everything that exists in the account, as plain data. What lists show may lag behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Contents {
    /// The instances, by ID.
    pub machines: Vec<Machine>,
    /// The reserved addresses, by ID.
    pub addresses: Vec<Address>,
    /// The balancers, by ID.
    pub balancers: Vec<Balancer>,
    /// The routes, by ID.
    pub routes: Vec<RouteEntry>,
    /// The volumes, by ID.
    pub disks: Vec<Disk>,
}

pub(super) struct Stock {
    pub(super) machines: Shelf<Machine>,
    pub(super) addresses: Shelf<Address>,
    pub(super) balancers: Shelf<Balancer>,
    pub(super) routes: Shelf<RouteEntry>,
    pub(super) disks: Shelf<Disk>,
    pub(super) clusters: BTreeMap<String, String>,
    /// When each pending balancer begins to serve.
    pub(super) ready_at: BTreeMap<String, Duration>,
    /// IDs of instances that the back door removed: they are not adopted again.
    pub(super) removed: BTreeSet<String>,
    /// UIDs of owners that are gone: nothing may be left of them.
    pub(super) gone: BTreeSet<String>,
    pub(super) lag: Lag,
    pool: Pool,
}

impl Stock {
    pub(super) fn new(config: &Config) -> Self {
        let mut stock = Self {
            machines: Shelf::new("instance"),
            addresses: Shelf::new("address"),
            balancers: Shelf::new("lb"),
            routes: Shelf::new("route"),
            disks: Shelf::new("volume"),
            clusters: config.clusters.clone(),
            ready_at: BTreeMap::new(),
            removed: BTreeSet::new(),
            gone: BTreeSet::new(),
            lag: Lag { new: config.invisible_for, deleted: config.visible_after_delete },
            pool: Pool { v4: config.address_pool, v6: config.address_pool_v6, given: [0; 2], machines: 0 },
        };
        for machine in &config.instances {
            stock.put_machine(machine.clone(), Duration::ZERO);
        }
        stock
    }

    /// Puts an instance there, shown from this age on; without an ID, its name is its ID.
    pub(super) fn put_machine(&mut self, mut machine: Machine, shown_from: Duration) {
        if machine.id.is_empty() {
            machine.id.clone_from(&machine.name);
        }
        self.removed.remove(&machine.id);
        self.machines.insert(machine, Origin { maker: None, token: None, shown_from });
    }

    /// A free address of this family.
    pub(super) fn free_ip(&mut self, ipv6: bool) -> Option<IpAddr> {
        let taken: BTreeSet<IpAddr> = self.addresses.alive().map(|kept| kept.value.ip).collect();
        // Each round tries the next number; so many rounds find a free one if there is any among the next.
        (0..=taken.len()).find_map(|_| self.pool.next(ipv6).filter(|ip| !taken.contains(ip)))
    }

    /// An address for an adopted instance that has none.
    pub(super) fn machine_ip(&mut self) -> Ipv4Addr {
        self.pool.machines += 1;
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) | (self.pool.machines & 0x007f_ffff))
    }

    /// A balancer as it shows itself at this age.
    pub(super) fn shown(&self, mut balancer: Balancer, now: Duration) -> Balancer {
        balancer.pending_for = self
            .ready_at
            .get(&balancer.id)
            .map(|ready| ready.saturating_sub(now))
            .filter(|wait| !wait.is_zero());
        balancer
    }

    pub(super) fn contents(&self, now: Duration) -> Contents {
        fn all<T: Object>(shelf: &Shelf<T>) -> Vec<T> {
            shelf.alive().map(|kept| kept.value.clone()).collect()
        }
        Contents {
            machines: all(&self.machines),
            addresses: all(&self.addresses),
            balancers: all(&self.balancers).into_iter().map(|each| self.shown(each, now)).collect(),
            routes: all(&self.routes),
            disks: all(&self.disks),
        }
    }
}

/// Where addresses come from, one after the other; none is given twice before all were given.
struct Pool {
    v4: Ipv4Net,
    v6: Ipv6Net,
    /// How many were tried so far, IPv4 and IPv6.
    given: [u32; 2],
    machines: u32,
}

impl Pool {
    fn next(&mut self, ipv6: bool) -> Option<IpAddr> {
        let given = &mut self.given[usize::from(ipv6)];
        let number = *given;
        *given = given.wrapping_add(1);
        if ipv6 {
            let offset = u128::from(number) + 1;
            let ip = Ipv6Addr::from(u128::from(self.v6.network()) | offset);
            return self.v6.contains(&ip).then_some(IpAddr::V6(ip));
        }
        // The first and the last address of a network are not for hosts.
        let hosts = (1_u64 << (32 - self.v4.prefix_len())).saturating_sub(2);
        let offset = u32::try_from(u64::from(number).checked_rem(hosts)?).ok()? + 1;
        Some(IpAddr::V4(Ipv4Addr::from(u32::from(self.v4.network()) + offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_pool_gives_each_host_once_and_then_nothing() {
        let config = Config { address_pool: "203.0.113.8/30".parse().unwrap(), ..Config::default() };
        let mut stock = Stock::new(&config);
        let mut given = Vec::new();
        while let Some(ip) = stock.free_ip(false) {
            let id = stock.addresses.next_id();
            let address = Address { id, name: "a".into(), ip, tags: BTreeMap::new() };
            stock.addresses.insert(address, Origin { maker: None, token: None, shown_from: Duration::ZERO });
            given.push(ip.to_string());
        }
        assert_eq!(given, ["203.0.113.9", "203.0.113.10"]);
        assert_eq!(stock.free_ip(true).unwrap().to_string(), "2001:db8::1", "the other family has room");
    }
}
