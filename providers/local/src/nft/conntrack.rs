//! Connections that the kernel remembers: those that lead where nothing is served any more are made to be forgotten.
//!
//! A rule decides only about the first packet. A UDP client that never falls silent would be kept to its backend for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::listener::Side;
use super::render::word;
use crate::intent::{Listener, Protocol};
use crate::program::{CONNTRACK, ProgramError};

/// Where the connections to each place may lead.
pub(super) type Destinations = BTreeMap<Listener, BTreeSet<SocketAddr>>;

/// What many connections have in common: where they were made to, and who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    /// The address and port that the client knows.
    pub(super) to: Listener,
    /// Who answers.
    pub(super) by: SocketAddr,
}

/// The flows among these that lead elsewhere than they may. Pure. A place that nothing is said of is not ours.
pub(super) fn astray(flows: &BTreeSet<Flow>, destinations: &Destinations) -> Vec<Flow> {
    let is_astray =
        |flow: &&Flow| destinations.get(&flow.to).is_some_and(|allowed| !allowed.contains(&flow.by));
    flows.iter().filter(is_astray).copied().collect()
}

/// Makes the kernel forget every connection to these places that leads elsewhere than it may.
pub(super) async fn forget(destinations: &Destinations) -> Result<(), ProgramError> {
    let kinds: BTreeSet<(Protocol, Side)> =
        destinations.keys().map(|place| (place.protocol, Side::of(place.address))).collect();
    for (protocol, side) in kinds {
        for flow in astray(&list(protocol, side).await?, destinations) {
            remove(&flow).await?;
        }
    }
    Ok(())
}

/// Makes the kernel forget these.
pub(super) async fn end(flows: &[Flow]) -> Result<(), ProgramError> {
    for flow in flows {
        remove(flow).await?;
    }
    Ok(())
}

async fn list(protocol: Protocol, side: Side) -> Result<BTreeSet<Flow>, ProgramError> {
    let arguments = ["-L", "-p", word(protocol), "-f", family(side)];
    let text = CONNTRACK.run(arguments).await?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(|line| parse(line, protocol)).collect())
}

async fn remove(flow: &Flow) -> Result<(), ProgramError> {
    let (to, by) = (flow.to, flow.by);
    let arguments = [
        "-D".to_owned(),
        "-f".to_owned(),
        family(Side::of(to.address)).to_owned(),
        "-p".to_owned(),
        word(to.protocol).to_owned(),
        "--orig-dst".to_owned(),
        to.address.to_string(),
        "--orig-port-dst".to_owned(),
        to.port.to_string(),
        "--reply-src".to_owned(),
        by.ip().to_string(),
        "--reply-port-src".to_owned(),
        by.port().to_string(),
    ];
    match CONNTRACK.run(arguments).await {
        // They ended of themselves meanwhile.
        Err(ProgramError::Refused { why, .. }) if why.contains("0 flow entries") => Ok(()),
        other => other.map(drop),
    }
}

/// `udp 17 29 src=C dst=V sport=p dport=q [UNREPLIED] src=B dst=C sport=q dport=p ...`: a connection as the client began it,
/// and as it is answered.
fn parse(line: &str, protocol: Protocol) -> Option<Flow> {
    let all = |name: &str| {
        line.split_whitespace()
            .filter_map(|field| field.strip_prefix(name))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (from, to) = (all("src="), all("dst="));
    let (from_ports, to_ports) = (all("sport="), all("dport="));
    let address = to.first()?.parse::<IpAddr>().ok()?;
    let to = Listener { protocol, address, port: to_ports.first()?.parse().ok()? };
    let by = SocketAddr::new(from.get(1)?.parse().ok()?, from_ports.get(1)?.parse().ok()?);
    Some(Flow { to, by })
}

fn family(side: Side) -> &'static str {
    match side {
        Side::V4 => "ipv4",
        Side::V6 => "ipv6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "udp      17 29 src=10.88.0.2 dst=203.0.113.10 sport=4711 dport=53 [UNREPLIED] \
                        src=10.77.0.10 dst=10.77.0.1 sport=30053 dport=4711 mark=0 use=1";

    fn place(port: u16) -> Listener {
        Listener { protocol: Protocol::Udp, address: "203.0.113.10".parse().unwrap(), port }
    }

    #[test]
    fn a_line_tells_where_a_connection_was_made_to_and_who_answers() {
        let flow = parse(LINE, Protocol::Udp).unwrap();
        assert_eq!(flow, Flow { to: place(53), by: "10.77.0.10:30053".parse().unwrap() });
        assert_eq!(
            parse("conntrack v1.4.7 (conntrack-tools): 1 flow entries have been shown.", Protocol::Udp),
            None
        );
    }

    #[test]
    fn only_what_leads_elsewhere_than_it_may_is_astray() {
        let flow = parse(LINE, Protocol::Udp).unwrap();
        let flows: BTreeSet<Flow> = [flow].into();
        let allowed = |to, by: &[&str]| -> Destinations {
            [(place(to), by.iter().map(|by| by.parse().unwrap()).collect())].into()
        };
        assert!(astray(&flows, &allowed(53, &["10.77.0.10:30053"])).is_empty());
        assert_eq!(astray(&flows, &allowed(53, &["10.77.0.11:30053"])), [flow]);
        assert_eq!(
            astray(&flows, &allowed(53, &["10.77.0.10:30054"])),
            [flow],
            "another port is another backend"
        );
        assert_eq!(astray(&flows, &allowed(53, &[])), [flow], "nothing is served there any more");
        assert!(astray(&flows, &allowed(54, &[])).is_empty(), "that is not ours");
    }
}
