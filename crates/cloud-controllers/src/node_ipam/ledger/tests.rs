use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn set(network: &str, mask: u8) -> CidrSet {
    CidrSet::new(net(network), mask).unwrap()
}

/// Sixteen blocks of IPv4 and four of IPv6.
fn lopsided() -> Ledger {
    Ledger::new(vec![set("10.244.0.0/20", 24), set("fd00::/62", 64)], &[])
}

fn used(ledger: &Ledger) -> Vec<u32> {
    ledger.tallies().map(|tally| tally.used).collect()
}

/// Proves: IPAM-11
#[test]
fn a_node_gets_one_block_of_each_network_in_their_order() {
    let mut ledger = lopsided();
    assert_eq!(ledger.claim("a", "1").unwrap(), [net("10.244.0.0/24"), net("fd00::/64")]);
    assert_eq!(ledger.claim("b", "2").unwrap(), [net("10.244.1.0/24"), net("fd00:0:0:1::/64")]);
    assert_eq!(ledger.claim("a", "1").unwrap(), [net("10.244.0.0/24"), net("fd00::/64")], "again the same");
    assert_eq!(used(&ledger), [2, 2]);
}

/// Proves: IPAM-16
#[test]
fn a_family_that_is_exhausted_never_drains_the_other() {
    let mut ledger = lopsided();
    for node in ["a", "b", "c", "d"] {
        ledger.claim(node, node).unwrap();
    }
    for _ in 0..100 {
        let refused = ledger.claim("e", "e").unwrap_err();
        assert_eq!(refused, Exhausted { network: net("fd00::/62"), max: 4 });
    }
    assert_eq!(used(&ledger), [4, 4]);
    assert!(ledger.forget("b"));
    assert_eq!(ledger.claim("e", "e").unwrap(), [net("10.244.4.0/24"), net("fd00:0:0:1::/64")]);
}

/// Proves: IPAM-12
#[test]
fn no_node_gets_the_addresses_of_services() {
    for (services, first) in [("10.244.0.0/22", "10.244.4.0/24"), ("10.244.0.128/25", "10.244.1.0/24")] {
        let mut ledger = Ledger::new(vec![set("10.244.0.0/20", 24)], &[net(services), net("fd00::/112")]);
        assert_eq!(ledger.claim("a", "1").unwrap(), [net(first)], "{services}");
    }
}

/// Proves: IPAM-24
#[test]
fn a_node_holds_every_block_that_its_cidr_touches() {
    let mut ledger = lopsided();
    ledger.hold("large", "1", vec![net("10.244.0.0/22")]);
    ledger.hold("small", "2", vec![net("10.244.5.128/25")]);
    assert_eq!(used(&ledger), [5, 0]);
    ledger.hold("large", "1", vec![net("10.244.0.0/22")]);
    let tally = ledger.tallies().next().unwrap();
    assert_eq!((tally.taken, tally.returned), (5, 0), "only what really changes counts");
    assert!(ledger.forget("large") && !ledger.forget("large"));
    assert_eq!(used(&ledger), [1, 0]);
    ledger.hold("all", "3", vec![net("10.0.0.0/8")]);
    assert_eq!(used(&ledger), [16, 0]);
}

#[test]
fn what_two_nodes_share_is_free_only_when_both_are_gone() {
    let mut ledger = lopsided();
    ledger.hold("a", "1", vec![net("10.244.0.0/24")]);
    let odd = ledger.hold("b", "2", vec![net("10.244.0.0/24"), net("192.168.0.0/24")]);
    assert_eq!(odd, Oddities { outside: vec![net("192.168.0.0/24")], shared_with: vec!["a".into()] });
    ledger.forget("a");
    assert_eq!(ledger.claim("c", "3").unwrap()[0], net("10.244.1.0/24"));
    ledger.forget("b");
    assert_eq!(used(&ledger), [1, 1]);
}

#[test]
fn a_node_that_was_made_anew_gives_back_what_the_former_one_held() {
    let mut ledger = lopsided();
    ledger.claim("a", "1").unwrap();
    assert_eq!(ledger.claim("a", "2").unwrap()[0], net("10.244.1.0/24"));
    assert!(!ledger.forget_uid("a", "1"), "the deletion of the former one comes late");
    assert_eq!(used(&ledger), [1, 1]);
    ledger.hold("a", "2", vec![net("10.244.7.0/24"), net("fd00:0:0:2::/64")]);
    assert_eq!(used(&ledger), [1, 1], "it turned out to have others");
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8),
    Delete(u8),
    /// The write of a claim reached the server, or did not.
    Write(u8, bool),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..24).prop_map(Step::Add),
        2 => (0_u8..24).prop_map(Step::Delete),
        4 => (0_u8..24, any::<bool>()).prop_map(|(node, lands)| Step::Write(node, lands)),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever is added, deleted, written, lost and restarted: no two Nodes are ever given the same addresses.
    #[test]
    fn no_two_nodes_share_a_block_over_any_history(steps in steps(), dual in any::<bool>()) {
        let fresh = || {
            let mut sets = vec![set("10.244.0.0/20", 24)];
            sets.extend(dual.then(|| set("fd00::/59", 64)));
            Ledger::new(sets, &[net("10.244.0.0/23")])
        };
        let (mut ledger, mut uid) = (fresh(), 0);
        // What the server has: the UID and the pod CIDRs of each Node.
        let mut server: HashMap<u8, (String, Vec<IpNet>)> = HashMap::new();
        for step in steps {
            match step {
                Step::Add(node) => {
                    uid += 1;
                    server.entry(node).or_insert_with(|| (uid.to_string(), Vec::new()));
                }
                Step::Delete(node) => {
                    server.remove(&node);
                    ledger.forget(&node.to_string());
                }
                Step::Write(node, lands) => {
                    let Some((uid, has)) = server.get_mut(&node) else { continue };
                    if has.is_empty()
                        && let Ok(cidrs) = ledger.claim(&node.to_string(), uid)
                        && lands
                    {
                        *has = cidrs;
                    }
                }
                Step::Restart => {
                    ledger = fresh();
                    for (node, (uid, has)) in &server {
                        if !has.is_empty() {
                            ledger.hold(&node.to_string(), uid, has.clone());
                        }
                    }
                }
            }
            let all: Vec<&IpNet> = server.values().flat_map(|(_, has)| has).collect();
            for (at, one) in all.iter().enumerate() {
                prop_assert!(!net("10.244.0.0/23").contains(*one), "{one} is the Services'");
                for other in &all[at + 1..] {
                    prop_assert!(!one.contains(*other) && !other.contains(*one), "{one} and {other}");
                }
            }
        }
    }
}
