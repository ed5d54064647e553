use std::path::Path;

use cloud_provider::load_balancer::Family::{V4, V6};
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::config::Config;

const POOLS: &str = "
pools:
- name: lan
  addresses: [192.0.2.254-192.0.3.2, '2001:db8::/126']
- name: team
  addresses: [198.51.100.8/31]
  namespaces: [team-a]
- name: wan
  addresses: [203.0.113.7]
  classes: [example.org/wan]
- name: held-back
  addresses: [198.51.100.99]
  autoAssign: false
";

fn pools() -> Pools {
    Config::parse(Path::new("local.yaml"), POOLS).unwrap().pools
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn used(by: &str, address: &str, share_key: Option<&str>, ports: &[u16]) -> Ledger {
    let mut ledger = Ledger::default();
    add(&mut ledger, by, address, share_key, ports);
    ledger
}

fn add(ledger: &mut Ledger, by: &str, address: &str, share_key: Option<&str>, ports: &[u16]) {
    let ports = ports.iter().map(|port| PortKey::tcp(*port)).collect();
    ledger.note(ip(address), Use { who: by.to_owned(), share_key: share_key.map(str::to_owned), ports });
}

fn asking(namespace: &str) -> Request<'_> {
    Request { namespace, families: vec![V4], ports: [PortKey::tcp(80)].into(), ..Request::default() }
}

fn chosen(request: &Request<'_>, ledger: &Ledger) -> Vec<String> {
    allocate(request, &pools(), ledger).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn the_next_free_address_is_taken_and_the_edges_are_left_out() {
    let mut ledger = Ledger::default();
    for expected in ["192.0.2.254", "192.0.3.1", "192.0.3.2"] {
        assert_eq!(chosen(&asking("default"), &ledger), [expected]);
        add(&mut ledger, "service a/b", expected, None, &[80]);
    }
    let refusal = allocate(&asking("default"), &pools(), &ledger).unwrap_err();
    assert_eq!(refusal.to_string(), "no IPv4 address is free in the pools lan");
    assert_eq!(refusal.refuse("x").decision(), &Decision::QuotaExceeded);
}

#[test]
fn a_namespace_with_a_pool_of_its_own_is_served_from_there_first() {
    let mut ledger = used("service a/b", "198.51.100.8", None, &[80]);
    assert_eq!(chosen(&asking("team-a"), &ledger), ["198.51.100.9"]);
    add(&mut ledger, "service a/c", "198.51.100.9", None, &[80]);
    assert_eq!(chosen(&asking("team-a"), &ledger), ["192.0.2.254"], "then from what is open to all");
}

#[test]
fn a_class_is_served_from_its_pool_alone() {
    let request = Request { class: Some("example.org/wan"), ..asking("default") };
    assert_eq!(chosen(&request, &Ledger::default()), ["203.0.113.7"]);
    assert!(allocate(&request, &pools(), &used("service a/b", "203.0.113.7", None, &[1])).is_err());
}

#[test]
fn what_a_service_has_it_keeps() {
    let request = Request { kept: vec![ip("192.0.3.1")], ..asking("default") };
    assert_eq!(chosen(&request, &Ledger::default()), ["192.0.3.1"]);
    assert_eq!(
        chosen(&request, &used("service a/b", "192.0.3.1", None, &[80])),
        ["192.0.2.254"],
        "unless another has it"
    );
    let moved = Request { pool: Some("held-back"), ..request };
    assert_eq!(chosen(&moved, &Ledger::default()), ["198.51.100.99"], "or another pool is asked for");
    let gone = Request { kept: vec![ip("10.9.9.9")], ..asking("default") };
    assert_eq!(chosen(&gone, &Ledger::default()), ["192.0.2.254"], "or its pool is gone");
}

#[test]
fn both_families_are_served_in_the_order_asked() {
    let request = Request { families: vec![V6, V4], ..asking("default") };
    assert_eq!(chosen(&request, &Ledger::default()), ["2001:db8::1", "192.0.2.254"]);
    let one_named = Request { addresses: vec![ip("192.0.3.2")], ..request };
    assert_eq!(chosen(&one_named, &Ledger::default()), ["2001:db8::1", "192.0.3.2"]);
}

#[test]
fn a_preferred_second_family_may_be_missing_and_a_required_one_may_not() {
    let request = Request { families: vec![V4, V6], pool: Some("held-back"), ..asking("default") };
    let preferred = Request { one_is_enough: true, ..request.clone() };
    assert_eq!(chosen(&preferred, &Ledger::default()), ["198.51.100.99"]);
    let refusal = allocate(&request, &pools(), &Ledger::default()).unwrap_err();
    assert_eq!(refusal.to_string(), "the pools held-back have no IPv6 addresses");
    let taken = used("service a/b", "198.51.100.99", None, &[80]);
    assert!(allocate(&preferred, &pools(), &taken).is_err(), "none at all is too few");
}

#[rstest]
#[case("10.1.1.1", "the requested address 10.1.1.1 is in no pool")]
#[case("203.0.113.7", "pool wan is kept for the classes example.org/wan")]
#[case("198.51.100.8", "pool team is kept for the namespaces team-a")]
#[case("2001:db8::2", "the requested address 2001:db8::2 is of a family that the Service does not have")]
#[case("192.0.3.1", "the requested address 192.0.3.1 is used by service a/b")]
fn a_requested_address_is_given_or_refused_and_never_replaced(#[case] address: &str, #[case] expected: &str) {
    let ledger = used("service a/b", "192.0.3.1", None, &[443]);
    let request = Request { addresses: vec![ip(address)], ..asking("default") };
    assert_eq!(allocate(&request, &pools(), &ledger).unwrap_err().to_string(), expected);
}

#[test]
fn a_requested_address_may_be_an_edge_or_held_back() {
    for address in ["192.0.3.0", "198.51.100.99"] {
        let request = Request { addresses: vec![ip(address)], ..asking("default") };
        assert_eq!(chosen(&request, &Ledger::default()), [address]);
    }
}

#[rstest]
#[case(&["192.0.3.1", "192.0.3.2"], None, "are of the same family")]
#[case(&["192.0.3.1"], Some("team"), "is in pool lan, and pool team is asked for")]
#[case(&[], Some("lann"), "there is no pool \"lann\": did you mean lan?")]
#[case(&[], Some("wan"), "pool wan is kept for the classes")]
fn requests_that_contradict_are_refused(
    #[case] addresses: &[&str],
    #[case] pool: Option<&str>,
    #[case] why: &str,
) {
    let addresses = addresses.iter().map(|text| ip(text)).collect();
    let request = Request { pool, addresses, ..asking("default") };
    let refusal = allocate(&request, &pools(), &Ledger::default()).unwrap_err();
    assert!(refusal.to_string().contains(why), "{refusal}");
    assert_eq!(refusal.refuse("x").decision(), &Decision::InvalidConfig);
}

#[test]
fn services_with_one_key_and_different_ports_share_an_address() {
    let mut ledger = used("service a/dns", "192.0.3.1", Some("dns"), &[53]);
    let request = Request { share_key: Some("dns"), ..asking("default") };
    assert_eq!(chosen(&request, &ledger), ["192.0.3.1"]);
    assert_eq!(chosen(&asking("default"), &ledger), ["192.0.2.254"], "who has no key shares nothing");
    let other = Request { share_key: Some("web"), ..asking("default") };
    assert_eq!(chosen(&other, &ledger), ["192.0.2.254"], "nor who has another");

    add(&mut ledger, "service a/web", "192.0.3.1", Some("dns"), &[80]);
    assert_eq!(chosen(&request, &ledger), ["192.0.2.254"], "a port that is taken cannot be shared");
    let insisting = Request { addresses: vec![ip("192.0.3.1")], ..request };
    let refusal = allocate(&insisting, &pools(), &ledger).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the requested address 192.0.3.1 is used by service a/web, which has a port in common"
    );
}

proptest! {
    /// However Services come and go, no two of them are at one address and port.
    #[test]
    fn no_address_and_port_is_ever_given_twice(
        wishes in prop::collection::vec((0_usize..3, prop::option::of(0_usize..2), 1_u16..4, any::<bool>()), 1..40)
    ) {
        let keys = ["red", "blue"];
        let namespaces = ["default", "team-a", "other"];
        let mut ledger = Ledger::default();
        let mut given = BTreeSet::new();
        for (index, (namespace, key, port, both)) in wishes.into_iter().enumerate() {
            let request = Request {
                namespace: namespaces[namespace],
                share_key: key.map(|key| keys[key]),
                ports: [PortKey::tcp(port)].into(),
                families: if both { vec![V4, V6] } else { vec![V4] },
                one_is_enough: true,
                ..Request::default()
            };
            let Ok(addresses) = allocate(&request, &pools(), &ledger) else { continue };
            for address in addresses {
                prop_assert!(given.insert((address, port)), "{address} port {port} twice");
                let who = format!("service {index}");
                ledger.note(address, Use { who, share_key: request.share_key.map(str::to_owned), ports: request.ports.clone() });
            }
        }
    }
}
