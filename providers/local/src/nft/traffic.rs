//! Where the connections of all balancers lead, and what becomes of those whose backend left. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::conntrack::{Destinations, Flow};
use super::is_drained;
use super::listener::Side;
use super::ruleset::{Family, Ruleset};
use super::usable::Choice;
use crate::intent::{Balancer, Delivery, Intent, Listener, PortKey, Protocol, Uid};

/// Where the connections of some balancers lead, or of all.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic {
    places: BTreeMap<Listener, Arc<Place>>,
}

/// What is served at one address and port, and by which balancer.
#[derive(Debug)]
pub(super) struct Place {
    uid: Uid,
    /// Who takes new connections.
    chosen: BTreeSet<SocketAddr>,
    /// Who is behind it at all: those who fail their check keep the connections that they have.
    all: BTreeSet<SocketAddr>,
    /// How long connections may go on when their backend leaves.
    drain: Duration,
}

/// Connections that may go on until their time is over.
#[derive(Debug, Clone)]
pub(super) struct Drain {
    /// When they end.
    pub(super) due: Instant,
    /// Which they are.
    pub(super) flow: Flow,
}

impl Traffic {
    /// What this balancer and this choice lead to.
    pub(super) fn of(uid: &Uid, balancer: &Balancer, choice: &Choice) -> Self {
        let place = |listener| (listener, Arc::new(place(uid, balancer, listener, choice)));
        Self { places: balancer.listeners().map(place).collect() }
    }

    /// What several lead to, of which no two have the same place.
    pub(super) fn together<'a>(several: impl Iterator<Item = &'a Self>) -> Self {
        let places = several.flat_map(|one| &one.places);
        Self { places: places.map(|(listener, place)| (*listener, Arc::clone(place))).collect() }
    }

    /// What must not go on, after it was otherwise: UDP clients of a backend that takes no more, and everything that came
    /// through a balancer that is gone.
    pub(super) fn astray_after(&self, before: &Self) -> Destinations {
        let mut astray = Destinations::new();
        for (listener, place) in &self.places {
            let same = before.places.get(listener).is_some_and(|before| before.chosen == place.chosen);
            if listener.protocol == Protocol::Udp && !same {
                astray.insert(*listener, place.chosen.clone());
            }
        }
        let alive: BTreeSet<&Uid> = self.places.values().map(|place| &place.uid).collect();
        for (listener, place) in &before.places {
            let is_gone = !self.places.contains_key(listener);
            if is_gone && (!is_drained(listener.protocol) || !alive.contains(&place.uid)) {
                astray.insert(*listener, BTreeSet::new());
            }
        }
        astray
    }

    /// The connections that may go on for a while, after it was otherwise.
    pub(super) fn drains_after(&self, before: &Self, intent: &Intent, now: Instant) -> Vec<Drain> {
        let mut drains = Vec::new();
        for (listener, place) in before.places.iter().filter(|(listener, _)| is_drained(listener.protocol)) {
            let stays = self.places.get(listener).map(|place| place.all.clone()).unwrap_or_default();
            if !intent.balancers.contains_key(&place.uid) {
                continue;
            }
            for by in place.all.difference(&stays) {
                drains.push(Drain { due: now + place.drain, flow: Flow { to: *listener, by: *by } });
            }
        }
        drains
    }

    /// Of these, the ones whose backend did not come back.
    pub(super) fn still_left(&self, drains: &[Drain]) -> Vec<Flow> {
        let is_left =
            |flow: &Flow| self.places.get(&flow.to).is_none_or(|place| !place.all.contains(&flow.by));
        drains.iter().map(|drain| drain.flow).filter(is_left).collect()
    }
}

fn place(uid: &Uid, balancer: &Balancer, listener: Listener, choice: &Choice) -> Place {
    let (key, side) = (listener.key(), Side::of(listener.address));
    let port = &balancer.ports[&key];
    let remembered = port.delivery == Delivery::Rewritten;
    let sockets = |backends: Vec<crate::intent::Backend>| {
        backends.iter().filter(|_| remembered).map(crate::intent::Backend::socket).collect()
    };
    Place {
        uid: uid.clone(),
        chosen: sockets(choice.of(key, side)),
        all: sockets(
            port.backends.iter().filter(|backend| Side::of(backend.address) == side).cloned().collect(),
        ),
        drain: balancer.settings.drain_timeout,
    }
}

/// Every place that these tables serve, with nothing allowed: for whoever removes them.
pub(super) fn listeners_in(ruleset: &Ruleset) -> Destinations {
    let table = ruleset.tables.get(&Family::Inet);
    let elements = ["listeners4", "listeners6"]
        .into_iter()
        .filter_map(|name| table?.sets.get(name)?.elements())
        .flat_map(BTreeMap::keys);
    elements.filter_map(|key| Some((listener(key)?, BTreeSet::new()))).collect()
}

/// `203.0.113.10 . tcp . 80`.
fn listener(key: &str) -> Option<Listener> {
    let mut parts = key.split(" . ");
    let address: IpAddr = parts.next()?.parse().ok()?;
    let protocol = match parts.next()? {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some(PortKey { protocol, port: parts.next()?.parse().ok()? }.at(address))
}
