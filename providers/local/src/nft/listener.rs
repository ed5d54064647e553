//! One port of one balancer, in one family: who may come in, and where to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::render::word;
use super::ruleset::{Chain, Declaration, Family, Rule, Set, Table, digest};
use super::share::{Shares, shares};
use crate::intent::{Affinity, Backend, Balancer, PortKey};

/// IPv4 or IPv6: an address is never rewritten to one of the other family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A balancer in one family.
pub(super) struct BalancerSide<'a> {
    /// The UID of its Service.
    pub(super) uid: &'a str,
    /// What it is to do.
    pub(super) balancer: &'a Balancer,
    /// The family.
    pub(super) side: Side,
}

/// Clients that one backend remembers: those who come above it are served, and not remembered.
const MEMORY: u32 = 65_535;

/// Adds the chain of a port, with what belongs to it, and tells its name.
pub(super) fn add(table: &mut Table, of: &BalancerSide<'_>, key: PortKey, chosen: &[Backend]) -> String {
    let whose = format!("{} {key}", of.balancer.full_name());
    let mut rules: Vec<Rule> = gate(table, of).into_iter().collect();
    if chosen.is_empty() {
        let counter = of.counter("unserved");
        rules.push(Rule::new(&whose, format!("counter name \"{counter}\"")));
        rules.push(Rule::new(&whose, "meta l4proto tcp reject with tcp reset"));
        rules.push(Rule::new(&whose, "reject"));
        table.counters.insert(counter);
    } else {
        let counter = of.counter("accepted");
        rules.push(Rule::new(&whose, format!("counter name \"{counter}\"")));
        table.counters.insert(counter);
        let shares = shares(of.balancer.settings.algorithm, of.side, chosen);
        match of.balancer.settings.affinity {
            Affinity::None => {
                let rewrites = rewrites(of.side, key, &shares);
                rules.extend(rewrites.into_iter().map(|text| Rule::new(&whose, text)));
            }
            Affinity::ClientIp { timeout } => {
                let memory = Memory { of, key, seconds: timeout.as_secs().max(1), whose: &whose };
                memory.add(table, &mut rules, chosen, &shares);
            }
        }
    }
    let name = format!("b-{}-{}-{}-{}", of.label(), word(key.protocol), key.port, of.side);
    table.chains.insert(name.clone(), Chain { hook: None, rules });
    name
}

/// The rule that turns away who may not come in, if there is such a one. The chain that it leads to is the balancer's,
/// because a limit is over all ports and counts on while backends come and go.
fn gate(table: &mut Table, of: &BalancerSide<'_>) -> Option<Rule> {
    let (settings, whose) = (&of.balancer.settings, of.balancer.full_name());
    let refused = of.counter("refused");
    let mut rules = Vec::new();
    if !settings.source_ranges.is_empty() {
        let condition = outside(settings.source_ranges.iter().copied(), of.side);
        let refusal = condition.map(|outside| format!("{outside}counter name \"{refused}\" drop"));
        rules.extend(refusal.map(|text| Rule::new(&whose, text)));
    }
    if settings.connection_limit > 0 {
        let limit = format!("ct count over {} counter name \"{refused}\" drop", settings.connection_limit);
        rules.push(Rule::new(&whose, limit));
    }
    if rules.is_empty() {
        return None;
    }
    table.counters.insert(refused);
    let name = format!("g-{}-{}", of.label(), of.side);
    let rule = Rule::new(&whose, format!("jump {name}"));
    table.chains.insert(name, Chain { hook: None, rules });
    Some(rule)
}

/// The condition that holds for clients outside these ranges; `None` if nobody is.
pub(super) fn outside(ranges: impl Iterator<Item = IpNet>, side: Side) -> Option<String> {
    let of_side: Vec<IpNet> = ranges.filter(|range| Side::of(range.addr()) == side).collect();
    if of_side.iter().any(|range| range.prefix_len() == 0) {
        return None;
    }
    // The kernel refuses sets whose parts overlap.
    let inside: Vec<String> = IpNet::aggregate(&of_side).iter().map(ToString::to_string).collect();
    Some(if inside.is_empty() {
        // Ranges of the other family only: everybody of this one is outside.
        String::new()
    } else {
        format!("{} saddr != {{ {} }} ", side.word(), inside.join(", "))
    })
}

/// The rules that send a client to a backend.
///
/// Where there are several, the last is for the moment of a change: a packet that is in this chain when the next rules come
/// into force finds the map of the rule that goes empty already. It would pass by, to this machine, and be refused.
fn rewrites(side: Side, key: PortKey, shares: &Shares) -> Vec<String> {
    let (ip, protocol) = (side.word(), word(key.protocol));
    match shares {
        Shares::One(socket) => vec![to_one(side, key, *socket)],
        Shares::Many { pick, places } => {
            let first = places.first().map(|(_, socket)| to_one(side, key, *socket));
            let places: Vec<String> = places
                .iter()
                .map(|(place, socket)| format!("{place} : {} . {}", socket.ip(), socket.port()))
                .collect();
            let by_turn =
                format!("meta l4proto {protocol} dnat {ip} to {pick} map {{ {} }}", places.join(", "));
            [Some(by_turn), first].into_iter().flatten().collect()
        }
    }
}

fn to_one(side: Side, key: PortKey, socket: SocketAddr) -> String {
    format!("meta l4proto {} dnat {} to {socket}", word(key.protocol), side.word())
}

/// The clients of one port that are kept to a backend.
struct Memory<'a> {
    of: &'a BalancerSide<'a>,
    key: PortKey,
    seconds: u64,
    whose: &'a str,
}

impl Memory<'_> {
    fn add(&self, table: &mut Table, rules: &mut Vec<Rule>, chosen: &[Backend], shares: &Shares) {
        let ip = self.of.side.word();
        for backend in chosen {
            let (seen, chain) = self.names(backend.socket());
            let text = format!(
                "type {}; flags dynamic,timeout; timeout {}s; size {MEMORY};",
                self.of.side.type_(),
                self.seconds
            );
            let declaration = Declaration { word: "set", text };
            table.sets.insert(seen.clone(), Set::Dynamic { declaration });
            // Two rules: a memory that is full must not keep a client from being served.
            let remember = Rule::new(self.whose, format!("update @{seen} {{ {ip} saddr }}"));
            let send = Rule::new(self.whose, to_one(self.of.side, self.key, backend.socket()));
            table.chains.insert(chain.clone(), Chain { hook: None, rules: vec![remember, send] });
            rules.push(Rule::new(self.whose, format!("{ip} saddr @{seen} goto {chain}")));
        }
        let to = |socket: &SocketAddr| format!("goto {}", self.names(*socket).1);
        let choose = match shares {
            Shares::One(socket) => vec![to(socket)],
            Shares::Many { pick, places } => {
                // The last for the moment of a change, as in `rewrites`.
                let first = places.first().map(|(_, socket)| to(socket));
                let places: Vec<String> =
                    places.iter().map(|(place, socket)| format!("{place} : {}", to(socket))).collect();
                let by_turn = format!("{pick} vmap {{ {} }}", places.join(", "));
                [Some(by_turn), first].into_iter().flatten().collect()
            }
        };
        rules.extend(choose.into_iter().map(|text| Rule::new(self.whose, text)));
    }

    /// The set of clients of a backend, and the chain that leads there. All that they are is in the name, so that they
    /// are made anew when any of it changes.
    fn names(&self, socket: SocketAddr) -> (String, String) {
        let all = format!("{} {} {} {socket} {}", self.of.uid, self.key, self.of.side, self.seconds);
        let digest = digest(&all);
        (format!("seen-{digest:016x}"), format!("e-{digest:016x}"))
    }
}

impl BalancerSide<'_> {
    /// The balancer in the names of what is its own.
    pub(super) fn label(&self) -> String {
        label(self.uid)
    }

    /// One of its counters.
    pub(super) fn counter(&self, what: &str) -> String {
        counter(what, self.uid)
    }
}

/// The counter of a balancer.
pub(super) fn counter(what: &str, uid: &str) -> String {
    format!("{what}-{}", label(uid))
}

/// A UID in a name of `nft`'s, which has few letters.
pub(super) fn label(uid: &str) -> String {
    let plain = uid.len() <= 64 && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { uid.to_owned() } else { format!("{:016x}", digest(uid)) }
}

/// The balancer's name in the name of one of its chains: `b-<label>-tcp-80-4`, `g-<label>-4`, `u-<label>-tcp-80`.
pub(super) fn label_in(chain: &str) -> Option<&str> {
    let (kind, rest) = chain.split_once('-')?;
    let parts = match kind {
        "b" => 3,
        "u" => 2,
        "g" => 1,
        _ => return None,
    };
    let end = rest.rmatch_indices('-').nth(parts - 1)?.0;
    rest.get(..end)
}

impl Side {
    /// The family of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// As `nft` spells it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// The type of its addresses.
    pub(super) fn type_(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }

    /// The table of this family alone.
    pub(super) fn family(self) -> Family {
        match self {
            Self::V4 => Family::Ip,
            Self::V6 => Family::Ip6,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "4",
            Self::V6 => "6",
        })
    }
}
