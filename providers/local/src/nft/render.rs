//! The tables that an intent asks for. Pure: from the intent and what is known of the backends to a ruleset.
//!
//! A packet to a virtual address and port is looked up in one map, whatever the number of balancers, and goes on in the
//! chain of that port. Only the first packet of a connection does: the kernel remembers the rest.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::listener::{self, Side};
use super::networks::Networks;
use super::ruleset::{Chain, Declaration, Family, Hook, Rule, Ruleset, Set, Table};
use super::unmodified;
use super::usable::Choices;
use crate::intent::{Balancer, ClientAddress, Delivery, Intent, PortKey, Protocol, TrafficPolicy};

/// Everything that the tables are made from.
pub(super) struct Scene<'a> {
    /// What is wanted.
    pub(super) intent: &'a Intent,
    /// Who takes connections.
    pub(super) choices: &'a Choices,
    /// The networks at each interface. A node answers clients of its own network past this machine.
    pub(super) networks: &'a Networks,
    /// The addresses that are the balancers' alone: nothing else of this machine answers there.
    pub(super) guarded: &'a BTreeSet<IpAddr>,
}

/// Packets of others are looked at after ours: a proxy of the cluster on this machine must not take them first.
const BEFORE_OTHERS: i32 = 10;
const DESTINATION: i32 = -100 - BEFORE_OTHERS;
const SOURCE: i32 = 100 - BEFORE_OTHERS;

/// Whose rules those are that serve all.
const ALL: &str = "all";

/// The tables that this scene asks for; none at all if nothing is to be served.
pub(super) fn render(scene: &Scene<'_>) -> Ruleset {
    let mut ruleset = Ruleset::default();
    if scene.intent.balancers.is_empty() {
        return ruleset;
    }
    ruleset.tables.insert(Family::Inet, frame(scene));
    for (uid, balancer) in &scene.intent.balancers {
        for side in [Side::V4, Side::V6] {
            let addresses: Vec<IpAddr> =
                balancer.addresses.iter().copied().filter(|address| Side::of(*address) == side).collect();
            if !addresses.is_empty() {
                fill(&mut ruleset, scene, uid, balancer, side, &addresses);
            }
        }
    }
    ruleset
}

/// Everything of one balancer in one family.
fn fill(
    ruleset: &mut Ruleset,
    scene: &Scene<'_>,
    uid: &str,
    balancer: &Balancer,
    side: Side,
    addresses: &[IpAddr],
) {
    let balancer_side = listener::BalancerSide { uid, balancer, side };
    for (key, port) in &balancer.ports {
        let chosen = scene.choices.of(uid, *key, side);
        if port.delivery == Delivery::Unmodified {
            let table = ruleset.tables.entry(side.family()).or_insert_with(|| unmodified::frame(side));
            unmodified::add(table, &balancer_side, *key, &chosen, addresses);
            continue;
        }
        let table = ruleset.tables.entry(Family::Inet).or_default();
        let chain = listener::add(table, &balancer_side, *key, &chosen);
        for address in addresses {
            let place = format!("{address} . {} . {}", word(key.protocol), key.port);
            table.put(&format!("listeners{side}"), place, Some(format!("goto {chain}")));
            account(table, &balancer_side, *key, *address);
        }
    }
}

/// What is done with each packet of a connection to this place, not only with the first.
fn account(table: &mut Table, of: &listener::BalancerSide<'_>, key: PortKey, address: IpAddr) {
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

/// What is there for all balancers.
fn frame(scene: &Scene<'_>) -> Table {
    let mut table = Table::default();
    let (mut entrance, mut own, mut exit, mut passing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for side in [Side::V4, Side::V6] {
        let (ip, type_) = (side.word(), side.type_());
        let listeners = format!("type {type_} . inet_proto . inet_service : verdict;");
        table.sets.insert(format!("listeners{side}"), filled("map", listeners));
        table.sets.insert(format!("guarded{side}"), filled("set", format!("type {type_};")));
        let look_up = format!("{ip} daddr . meta l4proto . th dport vmap @listeners{side}");
        entrance.push(Rule::new(ALL, look_up.clone()));
        own.push(Rule::new(ALL, look_up));
        // A machine that balances has services of its own, and they are not at the virtual addresses.
        for refusal in ["meta l4proto tcp", "meta l4proto udp"] {
            let with = if refusal.ends_with("tcp") { "reject with tcp reset" } else { "reject" };
            entrance.push(Rule::new(ALL, format!("{ip} daddr @guarded{side} {refusal} {with}")));
        }
        for protocol in ["tcp", "udp"] {
            let place = format!("ct original {ip} daddr . ct original proto-dst");
            let ours = format!("meta l4proto {protocol} ct status dnat");
            for kind in ["kept", "replaced"] {
                let set = filled("set", format!("type {type_} . inet_service;"));
                table.sets.insert(format!("{kind}{side}-{protocol}"), set);
            }
            for (direction, seen) in [("in", "original"), ("out", "reply")] {
                let map = filled("map", format!("type {type_} . inet_service : counter;"));
                table.sets.insert(format!("{direction}{side}-{protocol}"), map);
                let count = format!(
                    "{ours} ct direction {seen} counter name {place} map @{direction}{side}-{protocol}"
                );
                passing.push(Rule::new(ALL, count));
            }
            let replaced = format!("{ours} {place} @replaced{side}-{protocol} masquerade");
            exit.push(Rule::new(ALL, replaced));
            for near in near(scene.networks, side) {
                let kept = format!("{ours} {near} {place} @kept{side}-{protocol} masquerade");
                exit.push(Rule::new(ALL, kept));
            }
        }
    }
    for address in scene.guarded {
        table.put(&format!("guarded{}", Side::of(*address)), address.to_string(), None);
    }
    let chains = [
        ("prerouting", "nat", DESTINATION, entrance),
        ("output", "nat", DESTINATION, own),
        ("postrouting", "nat", SOURCE, exit),
        ("forward", "filter", 0, passing),
    ];
    for (at, kind, priority, rules) in chains {
        let hook = Hook { kind: kind.to_owned(), at: at.to_owned(), priority };
        table.chains.insert(at.to_owned(), Chain { hook: Some(hook), rules });
    }
    table
}

/// The conditions that hold for clients who are on the network that their packets leave to: one for each interface.
fn near(networks: &Networks, side: Side) -> Vec<String> {
    let condition = |(interface, networks): (&String, &Vec<IpNet>)| {
        let of_side: Vec<IpNet> =
            networks.iter().copied().filter(|network| Side::of(network.addr()) == side).collect();
        // The kernel refuses sets whose parts overlap.
        let parts: Vec<String> = IpNet::aggregate(&of_side).iter().map(ToString::to_string).collect();
        let set = parts.join(", ");
        (!parts.is_empty()).then(|| format!("oifname \"{interface}\" {} saddr {{ {set} }}", side.word()))
    };
    networks.iter().filter_map(condition).collect()
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
