//! Ports that are passed on with the virtual address unmodified: for Services without node ports, where each node knows the
//! virtual address. The packet goes to a node as if that were its next hop, before this machine takes it as its own.
//!
//! The answers do not come back through a connection that the kernel here remembers, so the node is picked by a hash that
//! gives every packet of a connection the same one.

use std::net::IpAddr;

use super::listener::{BalancerSide, Side, outside};
use super::render::{filled, word};
use super::ruleset::{Chain, Hook, Rule, Table};
use super::share::{SEED, SLOTS, Shares, shares};
use crate::intent::{Affinity, Algorithm, Backend, PortKey};

/// Before connections are tracked, so that nothing of these packets is remembered.
const RAW: i32 = -300;
/// The map of all places.
const LISTENERS: &str = "listeners";
/// The set of the same places, as those who answer.
const ANSWERS: &str = "answers";

/// What is there for all such ports of one family.
pub(super) fn frame(side: Side) -> Table {
    let mut table = Table::default();
    let text = format!("type {} . inet_proto . inet_service : verdict;", side.type_());
    table.sets.insert(LISTENERS.to_owned(), filled("map", text));
    let look_up = format!("{} daddr . meta l4proto . th dport vmap @{LISTENERS}", side.word());
    table.sets.insert(
        ANSWERS.to_owned(),
        filled("set", format!("type {} . inet_proto . inet_service;", side.type_())),
    );
    // An answer is no connection of its own: remembered as one, it would take the client's packets for answers to it.
    let answers = format!("{} saddr . meta l4proto . th sport @{ANSWERS} notrack", side.word());
    let hook = Hook { kind: "filter".to_owned(), at: "prerouting".to_owned(), priority: RAW };
    let chain = Chain { hook: Some(hook), rules: vec![Rule::new("all", look_up), Rule::new("all", answers)] };
    table.chains.insert("prerouting".to_owned(), chain);
    table
}

/// Adds a port at these addresses.
pub(super) fn add(
    table: &mut Table,
    of: &BalancerSide<'_>,
    key: PortKey,
    chosen: &[Backend],
    addresses: &[IpAddr],
) {
    let whose = format!("{} {key}", of.balancer.full_name());
    let settings = &of.balancer.settings;
    let mut rules = Vec::new();
    if !settings.source_ranges.is_empty() {
        let condition = outside(settings.source_ranges.iter().copied(), of.side);
        rules.extend(condition.map(|outside| Rule::new(&whose, format!("{outside}drop"))));
    }
    if chosen.is_empty() {
        rules.push(Rule::new(&whose, "meta l4proto tcp reject with tcp reset"));
        rules.push(Rule::new(&whose, "reject"));
    } else {
        rules.push(Rule::new(&whose, format!("dup to {}", next_hop(of, chosen))));
        rules.push(Rule::new(&whose, "drop"));
    }
    let name = format!("u-{}-{}-{}", of.label(), word(key.protocol), key.port);
    for address in addresses {
        let place = format!("{address} . {} . {}", word(key.protocol), key.port);
        table.put(ANSWERS, place.clone(), None);
        table.put(LISTENERS, place, Some(format!("goto {name}")));
    }
    table.chains.insert(name, Chain { hook: None, rules });
}

fn next_hop(of: &BalancerSide<'_>, chosen: &[Backend]) -> String {
    let ip = of.side.word();
    match shares(Algorithm::SourceHash, of.side, chosen) {
        Shares::One(socket) => socket.ip().to_string(),
        Shares::Many { places, .. } => {
            let keeps_client = of.balancer.settings.affinity != Affinity::None
                || of.balancer.settings.algorithm == Algorithm::SourceHash;
            let client = if keeps_client { format!("{ip} saddr") } else { format!("{ip} saddr . th sport") };
            let places: Vec<String> =
                places.iter().map(|(place, socket)| format!("{place} : {}", socket.ip())).collect();
            format!("jhash {client} mod {SLOTS} seed {SEED:#x} map {{ {} }}", places.join(", "))
        }
    }
}
