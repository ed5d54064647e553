//! What is there for all balancers: where packets come in, the maps that lead them to a balancer's own chains, and what is
//! done with every packet. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::listener::Side;
use super::networks::Networks;
use super::render::filled;
use super::ruleset::{Chain, Hook, Rule, Table};

/// Packets of others are looked at after ours: a proxy of the cluster on this machine must not take them first.
const BEFORE_OTHERS: i32 = 10;
const DESTINATION: i32 = -100 - BEFORE_OTHERS;
const SOURCE: i32 = 100 - BEFORE_OTHERS;

/// Whose rules those are that serve all.
const ALL: &str = "all";

/// The frame of everything that rewrites addresses. At `guarded` addresses nothing else of this machine answers. A node answers
/// clients of its own network past this machine, which is why the networks count.
pub(super) fn frame(networks: &Networks, guarded: &BTreeSet<IpAddr>) -> Table {
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
            for near in near(networks, side) {
                let kept = format!("{ours} {near} {place} @kept{side}-{protocol} masquerade");
                exit.push(Rule::new(ALL, kept));
            }
        }
    }
    for address in guarded {
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
