//! From an intent to rules, without a kernel.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::listener::{Side, label_in};
use super::networks::Networks;
use super::picture::{Picture, Scene};
use super::plan::plan;
use super::ruleset::{Family, Ruleset, Table};
use super::share::{Shares, shares};
use super::usable::Choice;
use crate::intent::status::Health;
use crate::intent::{
    Affinity, Algorithm, Backend, Balancer, Delivery, Intent, Port, PortKey, Settings, TrafficPolicy,
};

fn backend(last: u8, weight: u16) -> Backend {
    Backend { node: format!("node-{last}"), address: [10, 0, 0, last].into(), port: 30_080, weight }
}

fn balancer(settings: Settings, backends: impl IntoIterator<Item = Backend>) -> Balancer {
    Balancer {
        cluster: None,
        namespace: "shop".into(),
        name: "web".into(),
        addresses: [[192, 0, 2, 10].into()].into(),
        ports: [(PortKey::tcp(80), Port { backends: backends.into_iter().collect(), ..Port::default() })]
            .into(),
        settings,
    }
}

fn of(balancers: impl IntoIterator<Item = (&'static str, Balancer)>) -> Intent {
    let balancers = balancers.into_iter().map(|(uid, balancer)| (uid.to_owned(), balancer.into())).collect();
    Intent { balancers, ..Intent::empty() }
}

fn rendered(intent: &Intent) -> Ruleset {
    let scene = Scene {
        intent,
        health: &|_, _, _| Health::Healthy,
        verdicts: 0,
        networks: &Networks::new(),
        guarded: &BTreeSet::new(),
    };
    Picture::default().then(&scene).whole()
}

fn table(intent: &Intent) -> Table {
    rendered(intent).tables.remove(&Family::Inet).unwrap()
}

fn texts(table: &Table, chain: &str) -> Vec<String> {
    table.chains[chain].rules.iter().map(|rule| rule.text.clone()).collect()
}

#[test]
fn what_is_as_it_should_be_is_not_touched_and_an_empty_intent_has_no_table() {
    let intent = of([("u-1", balancer(Settings::default(), [backend(1, 1), backend(2, 1)]))]);
    assert_eq!(plan(&rendered(&intent), &rendered(&intent)), "");
    assert_eq!(rendered(&Intent::empty()), Ruleset::default());
    assert_eq!(plan(&rendered(&intent), &Ruleset::default()), "delete table inet nephos\n");
}

#[test]
fn one_balancers_change_is_told_in_a_few_lines() {
    let wish = |last: u8| balancer(Settings::default(), [backend(1, 1), backend(last, 1)]);
    let other = Balancer { addresses: [[192, 0, 2, 11].into()].into(), ..wish(2) };
    let (before, after) =
        (of([("u-1", wish(2)), ("u-2", other.clone())]), of([("u-1", wish(3)), ("u-2", other)]));
    let script = plan(&rendered(&before), &rendered(&after));
    let lines: Vec<&str> = script.lines().collect();
    assert_eq!(lines[0], "flush chain inet nephos b-u-1-tcp-80-4");
    assert!(
        lines[1..].iter().all(|line| line.starts_with("add rule inet nephos b-u-1-tcp-80-4 ")),
        "{script}"
    );
    assert!(script.contains("10.0.0.3 . 30080") && !script.contains("10.0.0.2"), "{script}");
}

#[test]
fn what_refers_goes_before_what_it_refers_to_and_comes_after_it() {
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(60) };
    let settings =
        Settings { affinity, source_ranges: ["10.0.0.0/8".parse().unwrap()].into(), ..Settings::default() };
    let elsewhere =
        Balancer { addresses: [[192, 0, 2, 9].into()].into(), ..balancer(Settings::default(), []) };
    let none = of([("u-0", elsewhere)]);
    let mut both = none.clone();
    both.balancers.insert("u-1".into(), balancer(settings, [backend(1, 1), backend(2, 1)]).into());
    let at =
        |script: &str, part: &str| script.find(part).unwrap_or_else(|| panic!("{part} is not in {script}"));
    let come = plan(&rendered(&none), &rendered(&both));
    assert!(at(&come, "add set inet nephos seen-") < at(&come, "add rule inet nephos e-"));
    assert!(
        at(&come, "add chain inet nephos b-u-1-tcp-80-4") < at(&come, "add element inet nephos listeners4")
    );
    let go = plan(&rendered(&both), &rendered(&none));
    assert!(
        at(&go, "delete element inet nephos listeners4") < at(&go, "delete chain inet nephos b-u-1-tcp-80-4")
    );
    assert!(at(&go, "flush chain inet nephos b-u-1-tcp-80-4") < at(&go, "delete chain inet nephos e-"));
    assert!(at(&go, "delete chain inet nephos e-") < at(&go, "delete set inet nephos seen-"));
    assert!(at(&go, "delete chain inet nephos g-u-1-4") < at(&go, "delete counter inet nephos refused-u-1"));
}

#[rstest]
#[case::nobody(TrafficPolicy::Cluster, &[], "unserved-u-1")]
#[case::one(TrafficPolicy::Cluster, &[1], "dnat ip to 10.0.0.1:30080")]
#[case::two(TrafficPolicy::Cluster, &[1, 2], "dnat ip to numgen inc mod 2 map { 0 : 10.0.0.1 . 30080, 1 : 10.0.0.2 . 30080 }")]
fn a_port_leads_to_those_who_serve(#[case] policy: TrafficPolicy, #[case] last: &[u8], #[case] part: &str) {
    let settings = Settings { traffic_policy: policy, ..Settings::default() };
    let table = table(&of([("u-1", balancer(settings, last.iter().map(|last| backend(*last, 1))))]));
    let rules = texts(&table, "b-u-1-tcp-80-4");
    assert!(rules.iter().any(|rule| rule.contains(part)), "{rules:?}");
}

/// A packet in the chain at the moment of a change finds the map of the rule that goes empty.
#[rstest]
#[case::shared(Affinity::None, "meta l4proto tcp dnat ip to 10.0.0.1:30080")]
#[case::remembered(Affinity::ClientIp { timeout: Duration::from_secs(60) }, "goto e-")]
fn whoever_finds_no_place_in_the_map_is_sent_to_a_backend_all_the_same(
    #[case] affinity: Affinity,
    #[case] last: &str,
) {
    let settings = Settings { affinity, ..Settings::default() };
    let table = table(&of([("u-1", balancer(settings, [1, 2].map(|last| backend(last, 1))))]));
    let rules = texts(&table, "b-u-1-tcp-80-4");
    let [.., chosen, otherwise] = &rules[..] else { panic!("{rules:?}") };
    assert!(chosen.contains("map {") && otherwise.starts_with(last), "{rules:?}");
}

#[rstest]
#[case(&["10.0.0.0/8", "10.1.0.0/16"], Some("ip saddr != { 10.0.0.0/8 } "))]
#[case(&["0.0.0.0/0"], None)]
#[case(&["2001:db8::/32"], Some(""))]
fn ranges_are_checked_before_an_address_is_rewritten(
    #[case] ranges: &[&str],
    #[case] condition: Option<&str>,
) {
    let source_ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    let settings = Settings { source_ranges, ..Settings::default() };
    let table = table(&of([("u-1", balancer(settings, [backend(1, 1)]))]));
    let gate = table.chains.get("g-u-1-4").map(|_| texts(&table, "g-u-1-4"));
    assert_eq!(gate, condition.map(|text| vec![format!("{text}counter name \"refused-u-1\" drop")]));
    assert_eq!(texts(&table, "b-u-1-tcp-80-4")[0] == "jump g-u-1-4", condition.is_some());
}

#[test]
fn only_a_good_answer_counts_under_the_policy_local_and_a_wrong_check_takes_nobody_down() {
    let chosen = |policy, health: [Health; 3]| {
        let settings = Settings { traffic_policy: policy, ..Settings::default() };
        let balancer = balancer(settings, (1..=3).map(|last| backend(last, 1)));
        let of_node = |backend: &Backend| {
            health[backend.node.trim_start_matches("node-").parse::<usize>().unwrap() - 1].clone()
        };
        let choice = Choice::make(&balancer, |_, backend| of_node(backend));
        choice.of(PortKey::tcp(80), Side::V4).iter().map(|backend| backend.node.clone()).collect::<Vec<_>>()
    };
    let bad = || Health::Unhealthy { why: "refused".into() };
    let all = ["node-1", "node-2", "node-3"];
    assert_eq!(chosen(TrafficPolicy::Cluster, [Health::Healthy, Health::Unknown, bad()]), ["node-1"]);
    assert_eq!(chosen(TrafficPolicy::Cluster, [bad(), Health::Unknown, bad()]), ["node-2"]);
    assert_eq!(chosen(TrafficPolicy::Cluster, [bad(), bad(), bad()]), all);
    assert_eq!(chosen(TrafficPolicy::Local, [Health::Healthy, Health::Unknown, bad()]), ["node-1"]);
    assert!(chosen(TrafficPolicy::Local, [Health::Unknown, Health::Unknown, bad()]).is_empty());
}

#[test]
fn places_follow_weights_exactly_and_in_a_mixed_order() {
    let Shares::Many { pick, places } =
        shares(Algorithm::RoundRobin, Side::V4, &[backend(1, 20), backend(2, 10), backend(3, 10)])
    else {
        panic!("there are three")
    };
    assert_eq!(pick, "numgen inc mod 4");
    let turns: Vec<SocketAddr> = places.iter().map(|(_, socket)| *socket).collect();
    assert_eq!(turns.iter().filter(|socket| **socket == backend(1, 1).socket()).count(), 2);
    assert_ne!(turns[0], turns[1], "a heavy backend is not taken several times in a row");
    let Shares::Many { pick, places } =
        shares(Algorithm::RoundRobin, Side::V4, &[backend(1, 999), backend(2, 1)])
    else {
        panic!("there are two")
    };
    assert_eq!((pick.as_str(), places[1].0.as_str()), ("numgen random mod 1000", "999-999"));
}

#[test]
fn a_port_without_node_ports_is_in_the_table_of_its_family_and_remembered_nowhere() {
    let mut wish = balancer(Settings::default(), [backend(1, 1), backend(2, 1)]);
    wish.ports.get_mut(&PortKey::tcp(80)).unwrap().delivery = Delivery::Unmodified;
    let ruleset = rendered(&of([("u-1", wish)]));
    let rules = texts(&ruleset.tables[&Family::Ip], "u-u-1-tcp-80");
    assert!(
        rules[0].starts_with("dup to jhash ip saddr . th sport mod 256 seed 0x6e657068 map { 0 : 10.0.0."),
        "{rules:?}"
    );
    assert_eq!(rules[1], "drop");
    let inet = &ruleset.tables[&Family::Inet];
    assert!(inet.sets["listeners4"].elements().unwrap().is_empty());
}

#[test]
fn the_name_of_a_balancer_is_found_in_the_names_of_its_chains() {
    let uid = "0f1e2d3c-0000-4000-8000-000000000001";
    let wish = balancer(Settings { connection_limit: 1, ..Settings::default() }, [backend(1, 1)]);
    let mut intent = Intent::empty();
    intent.balancers.insert(uid.to_owned(), wish.into());
    let table = table(&intent);
    let own: Vec<&String> = table.chains.keys().filter(|name| label_in(name) == Some(uid)).collect();
    assert_eq!(own.len(), 2, "{:?}", table.chains.keys());
    assert!(["prerouting", "e-0123456789abcdef"].iter().all(|name| label_in(name).is_none()));
}

proptest! {
    /// Whatever the shares, no backend of weight is left out and the places fill the round.
    #[test]
    fn every_backend_has_a_place(weights in proptest::collection::vec(1_u16..40, 2..8)) {
        let backends: Vec<Backend> =
            weights.iter().zip(1..).map(|(weight, last)| backend(last, *weight)).collect();
        let Shares::Many { places, .. } = shares(Algorithm::RoundRobin, Side::V4, &backends) else {
            panic!("there are several")
        };
        for backend in &backends {
            prop_assert!(places.iter().any(|(_, socket)| *socket == backend.socket()));
        }
    }
}
