//! Connections that were open through the former machine when an address moved here.
//!
//! The former machine's kernel still knows them; this one's does not. So a TCP packet to the address that belongs to no
//! connection that is known here, and does not begin one (the kernel calls some of these new, and those that end a
//! connection invalid), is passed on to the former machine as it is, which forwards it as
//! before. What comes back from there is unknown there too, and takes the usual way. An entry ends by itself in the
//! kernel, unless the former machine gives a sign of life: nobody's connection is to wait long for a dead machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::netlink::Hardware;
use crate::program::{NFT, ProgramError};

/// The table, of both families.
///
/// INVARIANT: a cleanup of every later release must find it.
pub(super) const TABLE: &str = "nephos-hand-over";

/// How long an entry lasts without a sign of life.
const BREATH: Duration = Duration::from_secs(25);

/// How long after the move connections are passed on at most.
const END: Duration = Duration::from_secs(60 * 60);

/// One address that moved here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relay {
    /// The former machine.
    pub(super) from: Hardware,
    /// Its own address.
    pub(super) via: IpAddr,
    /// The name of the interface that it is at.
    pub(super) link: String,
    /// When it moved.
    pub(super) since: Instant,
}

/// The addresses that moved here.
pub(super) type Relays = BTreeMap<IpAddr, Relay>;

/// Forgets those whose time is over.
pub(super) fn prune(relays: &mut Relays) {
    relays.retain(|_, relay| relay.since.elapsed() < END);
}

/// The tables that pass these on.
pub(super) fn script(relays: &Relays) -> String {
    let mut text = removal();
    for (family, is_ipv4, kind) in [("ip", true, "ipv4_addr"), ("ip6", false, "ipv6_addr")] {
        let ours: Vec<_> = relays.iter().filter(|(ip, _)| ip.is_ipv4() == is_ipv4).collect();
        if ours.is_empty() {
            continue;
        }
        let machines: BTreeSet<String> = ours.iter().map(|(_, relay)| super::hex(relay.from)).collect();
        let machines = machines.into_iter().collect::<Vec<_>>().join(", ");
        let links: BTreeSet<&str> = ours.iter().map(|(_, relay)| relay.link.as_str()).collect();
        let _ = writeln!(text, "table {family} {TABLE} {{");
        let mut rules = format!("ether saddr {{ {machines} }} accept\n");
        for (number, link) in links.into_iter().enumerate() {
            let here = ours.iter().filter(|(_, relay)| relay.link == link);
            let breath = BREATH.as_secs();
            let elements: Vec<_> =
                here.map(|(ip, relay)| format!("{ip} timeout {breath}s : {}", relay.via)).collect();
            let elements = elements.join(", ");
            let _ = writeln!(
                text,
                "map former{number} {{ type {kind} : {kind}; flags timeout; elements = {{ {elements} }}; }}"
            );
            let _ = writeln!(
                rules,
                "iifname \"{link}\" {family} daddr @former{number} ct state new,invalid \
                 tcp flags & (fin|syn|rst|ack) != syn \
                 dup to {family} daddr map @former{number} device \"{link}\" drop"
            );
        }
        let _ = writeln!(
            text,
            "chain relay {{ type filter hook prerouting priority mangle; policy accept;\n{rules}}}\n}}"
        );
    }
    text
}

/// What leaves no such table, whether or not there is one.
fn removal() -> String {
    ["ip", "ip6"].map(|family| format!("table {family} {TABLE}\ndelete table {family} {TABLE}\n")).concat()
}

/// Puts them in force.
pub(super) async fn apply(relays: &Relays) -> Result<(), ProgramError> {
    run(&script(relays)).await
}

/// Removes them. Without the program nobody ever made any.
pub(super) async fn end() -> Result<(), ProgramError> {
    match run(&removal()).await {
        Err(ProgramError::Missing { .. }) => Ok(()),
        ended => ended,
    }
}

async fn run(script: &str) -> Result<(), ProgramError> {
    NFT.feed(["-f", "-"], script, |_| {}).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_family_has_its_table_and_each_interface_its_map_and_time_ends_it_all() {
        let relay = |via: &str, link: &str| Relay {
            from: [2, 0, 0, 0, 0, 7],
            via: via.parse().unwrap(),
            link: link.to_owned(),
            since: Instant::now(),
        };
        let mut relays = Relays::from([
            ("192.0.2.9".parse().unwrap(), relay("192.0.2.1", "eth0")),
            ("198.51.100.9".parse().unwrap(), relay("198.51.100.1", "eth1")),
            ("2001:db8::9".parse().unwrap(), relay("fe80::1", "eth0")),
        ]);
        let text = script(&relays);
        for part in [
            "map former0 { type ipv4_addr : ipv4_addr; flags timeout; elements = { 192.0.2.9 timeout 25s : 192.0.2.1 }; }",
            "iifname \"eth1\" ip daddr @former1 ct state new,invalid tcp",
            "ether saddr { 02:00:00:00:00:07 } accept",
            "dup to ip6 daddr map @former0 device \"eth0\" drop",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.starts_with(&removal()));
        tokio::time::advance(END).await;
        prune(&mut relays);
        assert_eq!(script(&relays), removal());
    }
}
