//! What one balancer is in the tables. Pure: from the balancer and who takes its connections to chains, counters, and its
//! places in the maps that all balancers share (`frame` has these).
//!
//! A packet to a virtual address and port is looked up in one map, whatever the number of balancers, and goes on in the
//! chain of that port. Only the first packet of a connection does: the kernel remembers the rest.

use std::net::IpAddr;

use super::listener::{self, BalancerSide, Side};
use super::ruleset::{Declaration, Family, Ruleset, Set, Table};
use super::unmodified;
use super::usable::Choice;
use crate::intent::{Balancer, ClientAddress, Delivery, PortKey, Protocol, TrafficPolicy};

/// What is this balancer's alone: nothing of it is any other's.
pub(super) fn render(uid: &str, balancer: &Balancer, choice: &Choice) -> Ruleset {
    let mut ruleset = Ruleset::default();
    for side in [Side::V4, Side::V6] {
        let addresses: Vec<IpAddr> =
            balancer.addresses.iter().copied().filter(|address| Side::of(*address) == side).collect();
        if !addresses.is_empty() {
            fill(&mut ruleset, &BalancerSide { uid, balancer, side }, choice, &addresses);
        }
    }
    ruleset
}

/// Everything of one balancer in one family.
fn fill(ruleset: &mut Ruleset, of: &BalancerSide<'_>, choice: &Choice, addresses: &[IpAddr]) {
    let side = of.side;
    for (key, port) in &of.balancer.ports {
        let chosen = choice.of(*key, side);
        if port.delivery == Delivery::Unmodified {
            let table = ruleset.tables.entry(side.family()).or_default();
            unmodified::add(table, of, *key, &chosen, addresses);
            continue;
        }
        let table = ruleset.tables.entry(Family::Inet).or_default();
        let chain = listener::add(table, of, *key, &chosen);
        for address in addresses {
            let place = format!("{address} . {} . {}", word(key.protocol), key.port);
            table.put(&format!("listeners{side}"), place, Some(format!("goto {chain}")));
            account(table, of, *key, *address);
        }
    }
}

/// What is done with each packet of a connection to this place, not only with the first.
fn account(table: &mut Table, of: &BalancerSide<'_>, key: PortKey, address: IpAddr) {
    let (side, protocol) = (of.side, word(key.protocol));
    let place = format!("{address} . {}", key.port);
    for direction in ["in", "out"] {
        let counter = of.counter(direction);
        table.put(&format!("{direction}{side}-{protocol}"), place.clone(), Some(format!("\"{counter}\"")));
        table.counters.insert(counter);
    }
    let kind = if keeps_address(of.balancer) { "kept" } else { "replaced" };
    table.put(&format!("{kind}{side}-{protocol}"), place, None);
}

/// Whether a backend sees the client's address, as far as answers can come back.
fn keeps_address(balancer: &Balancer) -> bool {
    balancer.settings.traffic_policy == TrafficPolicy::Local
        || balancer.settings.client_address == ClientAddress::Kept
}

/// A set or map that is filled by us.
pub(super) fn filled(word: &'static str, text: String) -> Set {
    Set::Filled { declaration: Declaration { word, text }, elements: [].into() }
}

/// A protocol as `nft` spells it.
pub(super) fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}
