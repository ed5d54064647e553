use k8s_openapi::api::core::v1::NodeAddress;
use proptest::prelude::*;
use rstest::rstest;

use crate::node::addresses::{Nets, same_meaning, sift, wanted};
use crate::node::node_ip::{NodeIpError, choose, parse, parse_ip};

/// `InternalIP=10.0.0.1 Hostname=a`.
pub(super) fn list(text: &str) -> Vec<NodeAddress> {
    let pair = |word: &str| {
        let (type_, address) = word.split_once('=').unwrap();
        NodeAddress { type_: type_.to_owned(), address: address.to_owned() }
    };
    text.split_whitespace().map(pair).collect()
}

/// Proves: NODE-30
#[rstest]
#[case("10.0.0.1", true)]
#[case("2001:db8::1", true)]
#[case("10.0.0.1,2001:db8::1", true)]
#[case("2001:db8::1,10.0.0.1", true)]
#[case("010.000.0.01", true)]
#[case("0.0.0.0", true)]
#[case("", false)]
#[case(" 10.0.0.1", false)]
#[case("10.0.0.1, 2001:db8::1", false)]
#[case("10.0.0.1,", false)]
#[case("10.0.0.1,10.0.0.2", false)]
#[case("2001:db8::1,2001:db8::2", false)]
#[case("10.0.0.1,2001:db8::1,10.0.0.2", false)]
#[case("0.0.0.0,2001:db8::1", false)]
#[case("10.0.0.1,::", false)]
#[case("10.0.0.256", false)]
#[case("10.0.1", false)]
#[case("node-a", false)]
fn the_annotation_is_one_ip_or_one_of_each_family(#[case] annotation: &str, #[case] readable: bool) {
    assert_eq!(parse(annotation).is_ok(), readable, "{:?}", parse(annotation));
}

#[rstest]
#[case("010.1.002.003", "10.1.2.3")]
#[case("::ffff:10.0.0.1", "10.0.0.1")]
#[case("::ffff:010.0.0.1", "10.0.0.1")]
#[case("2001:DB8:0:0::1", "2001:db8::1")]
fn an_ip_is_read_as_the_go_library_reads_it(#[case] text: &str, #[case] ip: &str) {
    assert_eq!(parse_ip(text), Some(ip.parse().unwrap()));
}

/// Upstream's own cases for `GetNodeAddressesFromNodeIP`, in our words.
///
/// Proves: NODE-30, NODE-31
#[rstest]
#[case::a_matched_type_keeps_only_the_match(
    "10.1.1.1",
    "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=h",
    "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=h"
)]
#[case::an_external_match_comes_first_and_internal_ones_stay(
    "55.55.55.55",
    "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=h",
    "ExternalIP=55.55.55.55 InternalIP=10.1.1.1 Hostname=h"
)]
#[case::other_addresses_of_the_type_go(
    "10.1.1.2",
    "InternalIP=10.1.1.1 InternalIP=10.1.1.2 InternalIP=10.1.1.3 Hostname=h",
    "InternalIP=10.1.1.2 Hostname=h"
)]
#[case::in_both_families(
    "10.1.1.1",
    "InternalIP=10.1.1.1 InternalIP=fd01::1234 Hostname=h",
    "InternalIP=10.1.1.1 Hostname=h"
)]
#[case::a_pair_comes_in_its_own_order(
    "fd01::1234,10.1.1.1",
    "InternalIP=10.1.1.1 InternalIP=10.1.1.2 InternalIP=fd01::1234 Hostname=h",
    "InternalIP=fd01::1234 InternalIP=10.1.1.1 Hostname=h"
)]
#[case::a_pair_over_two_types_leaves_just_those(
    "55.55.55.55,fd01::1234",
    "InternalIP=10.1.1.1 InternalIP=fd01::1234 ExternalIP=55.55.55.55 ExternalIP=2001:db8::1 Hostname=h",
    "ExternalIP=55.55.55.55 InternalIP=fd01::1234 Hostname=h"
)]
#[case::one_ip_under_two_types_counts_under_both(
    "10.1.1.1",
    "InternalIP=10.1.1.1 ExternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=h",
    "InternalIP=10.1.1.1 ExternalIP=10.1.1.1 Hostname=h"
)]
#[case::another_spelling_matches_and_the_clouds_stays(
    "fd01:0:0:0::1234",
    "InternalIP=10.1.1.1 InternalIP=FD01::1234 Hostname=h",
    "InternalIP=FD01::1234 Hostname=h"
)]
fn a_kubelets_wish_chooses_among_the_clouds_addresses(
    #[case] annotation: &str,
    #[case] cloud: &str,
    #[case] expected: &str,
) {
    assert_eq!(wanted(&list(cloud), &Nets::default(), &[], Some(annotation)), Ok(Some(list(expected))));
}

/// Proves: NODE-30, NODE-32
#[rstest]
#[case("10.9.9.9", "InternalIP=10.1.1.1")]
#[case("10.1.1.1,fd01::1", "InternalIP=10.1.1.1 Hostname=h")]
#[case("10.1.1.1", "")]
#[case("10.1.1.1", "InternalIP=nonsense")]
fn a_wish_that_the_cloud_does_not_know_is_an_error(#[case] annotation: &str, #[case] cloud: &str) {
    assert!(matches!(
        wanted(&list(cloud), &Nets::default(), &[], Some(annotation)),
        Err(NodeIpError::NotInCloud(_))
    ));
}

/// Proves: NODE-29
#[rstest]
#[case::the_cloud_knows_none("", "InternalIP=10.0.0.1 Hostname=a", None)]
#[case::the_nodes_host_names_are_kept(
    "InternalIP=10.0.0.2",
    "InternalIP=10.0.0.1 Hostname=a Hostname=b",
    Some("InternalIP=10.0.0.2 Hostname=a Hostname=b")
)]
#[case::the_clouds_host_name_wins(
    "InternalIP=10.0.0.2 Hostname=cloud",
    "InternalIP=10.0.0.1 Hostname=a",
    Some("InternalIP=10.0.0.2 Hostname=cloud")
)]
#[case::nothing_else_is_kept(
    "InternalIP=10.0.0.2",
    "ExternalIP=1.2.3.4 InternalDNS=x",
    Some("InternalIP=10.0.0.2")
)]
fn without_a_wish_the_clouds_list_is_taken(
    #[case] cloud: &str,
    #[case] current: &str,
    #[case] expected: Option<&str>,
) {
    assert_eq!(wanted(&list(cloud), &Nets::default(), &list(current), None), Ok(expected.map(list)));
}

/// Proves: NODE-35
#[test]
fn what_cannot_be_an_address_is_left_out_with_the_reason() {
    let cloud = list(
        "InternalIP=10.0.0.1 InternalIP=10.0.0.1 InternalIP=ten ExternalIP= Rack=7 InternalIP=0.0.0.0 Hostname=a",
    );
    let (kept, dropped) = sift(&cloud, &Nets::default());
    assert_eq!(kept, list("InternalIP=10.0.0.1 Hostname=a"));
    let reasons: Vec<&str> = dropped.iter().map(|each| each.why).collect();
    assert_eq!(
        reasons,
        [
            "it is there twice",
            "it is no IP address",
            "it is empty",
            "its type is unknown",
            "no node can be reached by it"
        ]
    );
}

#[test]
fn addresses_are_taken_from_the_networks_that_are_named() {
    let cloud =
        list("InternalIP=10.0.0.1 InternalIP=172.17.0.1 ExternalIP=8.8.4.4 InternalIP=fd00::1 Hostname=a");
    let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
    let kept =
        |only: &[&str], except: &[&str]| sift(&cloud, &Nets { only: nets(only), except: nets(except) }).0;
    assert_eq!(kept(&[], &[]), cloud);
    assert_eq!(
        kept(&[], &["172.17.0.0/16"]),
        list("InternalIP=10.0.0.1 ExternalIP=8.8.4.4 InternalIP=fd00::1 Hostname=a")
    );
    assert_eq!(
        kept(&["10.0.0.0/8", "fd00::/8"], &[]),
        list("InternalIP=10.0.0.1 InternalIP=fd00::1 Hostname=a"),
        "a name is in no network"
    );
    assert_eq!(kept(&["10.0.0.0/8"], &["10.0.0.0/24"]), list("Hostname=a"));
}

#[rstest]
#[case::dual_stack_unchanged(
    "InternalIP=10.0.0.1 InternalIP=fd::1",
    "InternalIP=10.0.0.1 InternalIP=fd::1",
    true
)]
#[case::the_families_swapped(
    "InternalIP=10.0.0.1 InternalIP=fd::1",
    "InternalIP=fd::1 InternalIP=10.0.0.1",
    false
)]
#[case::upstream_misses_this(
    "InternalIP=10.0.0.9 InternalIP=10.0.0.1",
    "InternalIP=10.0.0.1 InternalIP=10.0.0.1",
    false
)]
#[case::types_in_another_order("InternalIP=10.0.0.1 Hostname=a", "Hostname=a InternalIP=10.0.0.1", true)]
#[case::one_more("InternalIP=10.0.0.1", "InternalIP=10.0.0.1 Hostname=a", false)]
#[case::another_type("InternalIP=10.0.0.1", "ExternalIP=10.0.0.1", false)]
fn lists_are_compared_by_what_readers_make_of_them(
    #[case] one: &str,
    #[case] other: &str,
    #[case] same: bool,
) {
    assert_eq!(same_meaning(&list(one), &list(other)), same);
}

fn some_address() -> impl Strategy<Value = NodeAddress> {
    let types = prop_oneof![Just("InternalIP"), Just("ExternalIP"), Just("Hostname"), Just("InternalDNS")];
    let texts = prop_oneof![
        Just("10.0.0.1"),
        Just("10.0.0.2"),
        Just("010.0.0.1"),
        Just("fd01::1"),
        Just("fd01:0::1"),
        Just("fd01::2"),
        Just("a"),
        Just("")
    ];
    (types, texts).prop_map(|(type_, address)| NodeAddress { type_: type_.into(), address: address.into() })
}

proptest! {
    /// KEP-3705 as rules that hold for every list.
    ///
    /// Proves: NODE-30
    #[test]
    fn a_choice_leads_with_the_wish_and_invents_nothing(
        cloud in prop::collection::vec(some_address(), 0..8),
        wish in prop_oneof![Just("10.0.0.1"), Just("fd01::1"), Just("10.0.0.1,fd01::1"), Just("fd01::2,10.0.0.2")],
    ) {
        let ips = parse(wish).unwrap();
        match choose(&cloud, &ips) {
            Err(NodeIpError::NotInCloud(ip)) => {
                prop_assert!(cloud.iter().all(|each| parse_ip(&each.address) != Some(ip)));
            }
            Err(other) => prop_assert!(false, "{other}"),
            Ok(chosen) => {
                prop_assert_eq!(parse_ip(&chosen[0].address), Some(ips[0]));
                prop_assert!(chosen.iter().all(|each| cloud.contains(each)));
                let matched: Vec<&str> = chosen
                    .iter()
                    .filter(|each| parse_ip(&each.address).is_some_and(|ip| ips.contains(&ip)))
                    .map(|each| each.type_.as_str())
                    .collect();
                for each in &cloud {
                    let wished = parse_ip(&each.address).is_some_and(|ip| ips.contains(&ip));
                    let stays = wished || !matched.contains(&each.type_.as_str());
                    prop_assert_eq!(chosen.contains(each), stays, "{:?} in {:?}", each, &chosen);
                }
            }
        }
    }
}
