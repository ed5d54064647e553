//! What is known of the cloud's route table between two lists of it: what the last list showed, and what was made and
//! removed since. So a new Node costs its routes and no list.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::Route;
use ipnet::IpNet;
use tokio::time::Instant;

use super::plan::{Claim, Wish, claim};

/// How long the names of Nodes that are gone are remembered: a route to one of them may show up late.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// What a Node's CIDR needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: there is a route.
    Met,
    /// A route.
    Create,
    /// A route of ours is in the way, and has to go first.
    Cleared,
    /// The same, and it could not be removed the last time.
    Stuck,
}

/// The route table, as far as it is known.
#[derive(Debug, Default)]
pub struct Table {
    /// Whether it was ever listed.
    listed: bool,
    by_destination: BTreeMap<IpNet, Vec<Known>>,
    /// Nodes that are gone, and since when.
    former: BTreeMap<String, Instant>,
    /// Nodes without pod CIDRs to which routes led.
    unrouted: BTreeSet<String>,
    /// Destinations whose routes could not be removed.
    stuck: BTreeSet<IpNet>,
}

#[derive(Debug)]
struct Known {
    route: Route,
    /// When it was made, if no list has shown it yet.
    made: Option<Instant>,
    /// Nobody could prove that it is ours.
    foreign: bool,
}

impl Table {
    /// Whether anything is known at all.
    pub fn is_known(&self) -> bool {
        self.listed
    }

    /// Takes in a whole list that was asked for at `asked`.
    pub fn take_in(&mut self, routes: &[Route], unrouted: BTreeSet<String>, asked: Instant) {
        let mut fresh: BTreeMap<IpNet, Vec<Known>> = BTreeMap::new();
        for route in routes {
            let known = Known { route: route.clone(), made: None, foreign: false };
            fresh.entry(route.destination).or_default().push(known);
        }
        // What was made while the list was read may be missing from it.
        for known in std::mem::take(&mut self.by_destination).into_values().flatten() {
            if known.made.is_some_and(|made| made >= asked) {
                fresh.entry(known.route.destination).or_default().push(known);
            }
        }
        let targets: BTreeSet<&str> =
            routes.iter().filter_map(|route| route.target_node.as_deref()).collect();
        self.former.retain(|name, since| since.elapsed() < REMEMBERED || targets.contains(&**name));
        self.by_destination = fresh;
        self.unrouted = unrouted;
        self.stuck.clear();
        self.listed = true;
    }

    /// A route was made.
    pub fn made(&mut self, route: Route, now: Instant) {
        let known = self.by_destination.entry(route.destination).or_default();
        known.push(Known { route, made: Some(now), foreign: false });
    }

    /// A listed route is gone.
    pub fn removed(&mut self, route: &Route) {
        if let Some(known) = self.by_destination.get_mut(&route.destination) {
            known.retain(|known| known.route != *route);
        }
    }

    /// A listed route could not be removed, though it is ours.
    pub fn not_removed(&mut self, route: &Route) {
        self.stuck.insert(route.destination);
    }

    /// A listed route is not provably ours: it is worked around.
    pub fn is_foreign(&mut self, route: &Route) {
        for known in self.by_destination.get_mut(&route.destination).into_iter().flatten() {
            known.foreign |= known.route == *route;
        }
    }

    /// A Node is gone.
    pub fn node_gone(&mut self, name: &str, now: Instant) {
        self.former.insert(name.to_owned(), now);
        self.unrouted.remove(name);
    }

    /// Whether the cluster had a Node of this name.
    pub fn was_ours(&self, name: &str) -> bool {
        self.former.contains_key(name)
    }

    /// Whether routes led to a Node that has no pod CIDRs.
    pub fn is_unrouted(&self, name: &str) -> bool {
        self.unrouted.contains(name)
    }

    /// What one CIDR of a Node needs.
    pub fn need(
        &self,
        networks: &[IpNet],
        wish: &Wish,
        cidr: &IpNet,
        is_node: impl Fn(&str) -> bool,
    ) -> Need {
        let known = self.by_destination.get(cidr).map(Vec::as_slice).unwrap_or_default();
        if known.iter().any(|known| wish.is_met_by(&known.route)) {
            return Need::Met;
        }
        let is_node = |name: &str| is_node(name) || self.was_ours(name);
        let ours =
            |known: &&Known| !known.foreign && claim(networks, &known.route, is_node) == Some(Claim::Rule);
        match known.iter().any(|known| ours(&known)) {
            false => Need::Create,
            true if self.stuck.contains(cidr) => Need::Stuck,
            true => Need::Cleared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn wish(node: &str, cidr: &str) -> Wish {
        let (node, uid) = (node.to_owned(), format!("uid-{node}"));
        Wish {
            node,
            uid,
            cidrs: vec![net(cidr)],
            garbled: Vec::new(),
            addresses: Vec::new(),
            is_early: false,
        }
    }

    fn need(table: &Table, wish: &Wish) -> Need {
        table.need(&[net("10.244.0.0/16")], wish, &wish.cidrs[0], |name| name == "a" || name == "b")
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_made_while_a_list_is_read_survives_it_and_is_forgotten_with_the_next() {
        let mut table = Table::default();
        let a = wish("a", "10.244.1.0/24");
        assert!(!table.is_known());
        table.made(a.route(a.cidrs[0]), Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        let asked = Instant::now();
        let b = wish("b", "10.244.2.0/24");
        table.made(b.route(b.cidrs[0]), asked);
        table.take_in(&[], BTreeSet::new(), asked);
        assert_eq!((need(&table, &a), need(&table, &b)), (Need::Create, Need::Met));
        tokio::time::advance(Duration::from_secs(1)).await;
        table.take_in(&[], BTreeSet::new(), Instant::now());
        assert_eq!(need(&table, &b), Need::Create);
    }

    #[tokio::test(start_paused = true)]
    async fn a_route_of_ours_in_the_way_is_cleared_and_a_strangers_is_worked_around() {
        let mut table = Table::default();
        let a = wish("a", "10.244.1.0/24");
        let to = |node: &str| Route::new(net("10.244.1.0/24")).named(node).to_node(node, Vec::new());
        table.take_in(&[to("b")], BTreeSet::new(), Instant::now());
        assert_eq!(need(&table, &a), Need::Cleared);
        table.not_removed(&to("b"));
        assert_eq!(need(&table, &a), Need::Stuck);
        table.removed(&to("b"));
        assert_eq!(need(&table, &a), Need::Create);

        table.take_in(&[to("stranger")], BTreeSet::new(), Instant::now());
        assert_eq!(need(&table, &a), Need::Create);
        table.node_gone("stranger", Instant::now());
        assert_eq!(need(&table, &a), Need::Cleared, "it was a node of ours");
        table.is_foreign(&to("stranger"));
        assert_eq!(need(&table, &a), Need::Create, "the provider knows better");
    }
}
