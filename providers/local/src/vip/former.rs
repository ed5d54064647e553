//! Who had an address before this machine, so that connections through that machine can go on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::hear::Heard;
use super::relay::{self, Relay, Relays};
use super::{Addresses, lock};
use crate::netlink::{Hardware, Link};

/// What other machines said.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Who has an address.
    holders: BTreeMap<IpAddr, Hardware>,
    /// The addresses of a machine itself, one of each family.
    own: BTreeMap<(Hardware, bool), IpAddr>,
}

/// How many addresses of others are remembered: a neighbour that announces without end fills no memory.
const REMEMBERED: usize = 65_536;

impl Addresses {
    /// Remembers what another machine said.
    pub(super) fn note(&self, heard: &Heard) {
        let mut others = lock(&self.inner.others);
        if let Some(ip) = heard.ip.filter(|_| others.holders.len() < REMEMBERED) {
            others.holders.insert(ip, heard.at);
        }
        if let Some(own) = heard.own.filter(|_| others.own.len() < REMEMBERED) {
            others.own.insert((heard.at, own.is_ipv4()), own);
        }
    }

    /// Passes connections on to the machine that had these addresses before, if one is known.
    pub(super) async fn relay(&self, places: &BTreeMap<IpAddr, Link>, links: &BTreeMap<String, Link>) {
        let found: Relays = {
            let mut others = lock(&self.inner.others);
            let relay = |(ip, place): (&IpAddr, &Link)| {
                let from = others.holders.remove(ip)?;
                let via = *others.own.get(&(from, ip.is_ipv4()))?;
                let (link, _) = links.iter().find(|(_, link)| *link == place)?;
                Some((*ip, Relay { from, via, link: link.clone(), since: tokio::time::Instant::now() }))
            };
            places.iter().filter_map(relay).collect()
        };
        if found.is_empty() {
            return;
        }
        tracing::info!(addresses = ?found.keys(), "Passing open connections on to the machine that had the addresses");
        lock(&self.inner.relays).extend(found);
        self.renew_relays().await;
    }

    pub(super) async fn renew_relays(&self) {
        let relays = {
            let mut relays = lock(&self.inner.relays);
            relay::prune(&mut relays);
            relays.clone()
        };
        if let Err(error) = relay::apply(&relays).await {
            tracing::warn!(%error, "Connections through the machine that had the addresses before cannot be passed on");
            lock(&self.inner.relays).clear();
        }
    }

    /// Whether connections are passed on to this machine.
    pub(super) fn relays_to(&self, at: Hardware) -> bool {
        lock(&self.inner.relays).values().any(|relay| relay.from == at)
    }

    /// Asks the machines for a sign of life to which connections are passed on.
    pub(super) fn ask_former(&self) {
        let relays = lock(&self.inner.relays).clone();
        let announced = self.announced().clone();
        let asked: BTreeSet<IpAddr> = relays.values().map(|relay| relay.via).collect();
        for via in asked {
            let ip = relays.iter().find(|(_, relay)| relay.via == via).map(|(ip, _)| ip);
            if let Some(link) = ip.and_then(|ip| announced.get(ip)) {
                self.inner.announcer.ask(via, link);
            }
        }
    }
}
