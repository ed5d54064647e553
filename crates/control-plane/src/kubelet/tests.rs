//! What a kubelet computes. How the real API server takes it is told in the crate's `tests/kubelet.rs`.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition};
use serde_json::json;

use super::registration::difference;
use super::{CloudProvider, Kubelet, Network, NodeIp, NodeIpError, PROVIDED_NODE_IP, UNINITIALIZED_TAINT};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn node(kubelet: &Kubelet) -> Node {
    kubelet.initial_node(at(0))
}

fn ip(text: &str) -> NodeIp {
    text.parse().unwrap()
}

fn addresses(node: &Node) -> Vec<(String, String)> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
    addresses.into_iter().map(|address| (address.type_, address.address)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, address)| ((*kind).to_owned(), (*address).to_owned())).collect()
}

fn provided(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(PROVIDED_NODE_IP).map(String::as_str)
}

fn labels(node: &Node) -> Vec<(&str, &str)> {
    node.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Proves: KUBELET-1
#[test]
fn only_no_cloud_provider_and_external_are_accepted() {
    assert_eq!("".parse(), Ok(CloudProvider::None));
    assert_eq!("external".parse(), Ok(CloudProvider::External));
    for refused in ["aws", "External", " external"] {
        assert!(refused.parse::<CloudProvider>().is_err(), "{refused}");
    }
}

/// Proves: KUBELET-1
#[test]
fn the_uninitialized_taint_comes_after_those_of_the_flag_and_only_with_an_external_provider() {
    let kubelet = Kubelet::new("a").taint("gpu", "yes", "NoExecute");
    let taints = node(&kubelet).spec.unwrap().taints.unwrap();
    let taints: Vec<_> = taints
        .iter()
        .map(|taint| (taint.key.as_str(), taint.value.as_deref(), taint.effect.as_str()))
        .collect();
    let expected = [("gpu", Some("yes"), "NoExecute"), (UNINITIALIZED_TAINT, Some("true"), "NoSchedule")];
    assert_eq!(taints, expected);
    let alone = Kubelet::new("a").cloud_provider(CloudProvider::None);
    assert_eq!(node(&alone).spec.unwrap().taints, None);
}

/// Proves: KUBELET-2
#[test]
fn a_node_that_exists_does_not_get_its_taints_again() {
    let kubelet = Kubelet::new("a").taint("gpu", "yes", "NoExecute").label("kubernetes.io/arch", "arm64");
    let mut existing = node(&Kubelet::new("a"));
    existing.spec.as_mut().unwrap().taints = None;
    let again = kubelet.reregistered(&existing, at(1)).expect("the label differs");
    assert_eq!(again.spec.unwrap().taints, None);
    assert_eq!(kubelet.refreshed(&existing, at(1)).0.spec.unwrap().taints, None);
}

/// Proves: KUBELET-3
#[test]
fn the_provider_id_is_set_at_creation_and_never_later() {
    let kubelet = Kubelet::new("a").provider_id("cloud://1");
    assert_eq!(node(&kubelet).spec.unwrap().provider_id.as_deref(), Some("cloud://1"));
    let existing = node(&Kubelet::new("a"));
    assert_eq!(kubelet.reregistered(&existing, at(1)), None);
}

/// Proves: KUBELET-4
#[test]
fn a_new_node_carries_the_machines_labels_and_those_of_the_flag_win() {
    let kubelet = Kubelet::new("a").hostname("a.site").arch("arm64").label("beta.kubernetes.io/os", "plan9");
    let expected = [
        ("beta.kubernetes.io/arch", "arm64"),
        ("beta.kubernetes.io/os", "plan9"),
        ("kubernetes.io/arch", "arm64"),
        ("kubernetes.io/hostname", "a.site"),
        ("kubernetes.io/os", "linux"),
    ];
    assert_eq!(labels(&node(&kubelet)), expected);
    let windows = node(&Kubelet::new("w").windows("10.0.20348"));
    assert!(labels(&windows).contains(&("node.kubernetes.io/windows-build", "10.0.20348")));
    assert!(labels(&windows).contains(&("kubernetes.io/os", "windows")));
}

/// Proves: KUBELET-5
#[test]
fn registering_again_restores_known_labels_that_the_kubelet_was_given_and_no_others() {
    let kubelet = Kubelet::new("a").label("topology.kubernetes.io/zone", "mine").label("team", "blue");
    let mut existing = node(&Kubelet::new("a"));
    let cloud = existing.metadata.labels.as_mut().unwrap();
    cloud.insert("topology.kubernetes.io/zone".to_owned(), "of-the-cloud".to_owned());
    cloud.insert("topology.kubernetes.io/region".to_owned(), "of-the-cloud".to_owned());
    cloud.insert("kubernetes.io/hostname".to_owned(), "wrong".to_owned());
    let again = kubelet.reregistered(&existing, at(1)).expect("two labels differ");
    let labels = again.metadata.labels.unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "mine");
    assert_eq!(labels["topology.kubernetes.io/region"], "of-the-cloud");
    assert_eq!(labels["kubernetes.io/hostname"], "a");
    assert!(!labels.contains_key("team"), "labels of one's own are not restored");
}

/// Proves: KUBELET-6
#[test]
fn the_annotation_tells_the_addresses_that_were_given_and_goes_when_none_are() {
    let one = Kubelet::new("a").node_ip(ip("10.0.0.1"));
    assert_eq!(provided(&node(&one)), Some("10.0.0.1"));
    let two = Kubelet::new("a").node_ip(ip("fd00::1,10.0.0.1"));
    assert_eq!(provided(&node(&two)), Some("fd00::1,10.0.0.1"));
    for without in ["", "0.0.0.0", "::"] {
        let kubelet = Kubelet::new("a").node_ip(ip(without));
        assert_eq!(provided(&kubelet.refreshed(&node(&one), at(1)).0), None, "{without:?}");
    }
    let alone = one.clone().cloud_provider(CloudProvider::None);
    assert_eq!(provided(&node(&alone)), None);
}

/// Proves: KUBELET-7
#[test]
fn addresses_that_are_there_are_never_changed() {
    let kubelet = Kubelet::new("a").node_ip(ip("10.0.0.1"));
    let mut existing = node(&kubelet);
    let cloud = NodeAddress { type_: "ExternalIP".to_owned(), address: "192.0.2.1".to_owned() };
    existing.status.as_mut().unwrap().addresses = Some(vec![cloud]);
    let (refreshed, changed) = kubelet.refreshed(&existing, at(1));
    assert_eq!(addresses(&refreshed), pairs(&[("ExternalIP", "192.0.2.1")]));
    assert!(!changed);
    let alone = kubelet.cloud_provider(CloudProvider::None);
    let own = pairs(&[("InternalIP", "10.0.0.1"), ("Hostname", "a")]);
    assert_eq!(addresses(&alone.refreshed(&existing, at(1)).0), own);
}

/// Proves: KUBELET-8
#[test]
fn the_first_addresses_follow_from_node_ip() {
    let kubelet = || Kubelet::new("a").hostname("host");
    assert_eq!(addresses(&node(&kubelet())), pairs(&[("Hostname", "host")]));
    let one = node(&kubelet().node_ip(ip("10.0.0.1")));
    assert_eq!(addresses(&one), pairs(&[("InternalIP", "10.0.0.1"), ("Hostname", "host")]));
    let two = node(&kubelet().node_ip(ip("10.0.0.1,fd00::1")));
    let expected = pairs(&[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "host")]);
    assert_eq!(addresses(&two), expected);
}

/// Proves: KUBELET-8
#[test]
fn an_unspecified_node_ip_is_looked_for_in_the_host_name_then_dns_then_the_default_route() {
    let ips = |list: &[&str]| -> Vec<IpAddr> { list.iter().map(|text| text.parse().unwrap()).collect() };
    let network = |dns: &[&str], route: &[&str]| Network { dns: ips(dns), default_route: ips(route) };
    let found = |hostname: &str, flag: &str, network: Network| {
        let kubelet = Kubelet::new("a").hostname(hostname).node_ip(ip(flag)).network(network);
        let node = node(&kubelet);
        assert_eq!(provided(&node), None);
        addresses(&node).into_iter().find(|(kind, _)| kind == "InternalIP").map(|(_, address)| address)
    };
    let all = || network(&["127.0.0.1", "10.1.0.1", "fd01::1"], &["10.2.0.1", "fd02::1"]);
    assert_eq!(found("10.9.0.1", "0.0.0.0", all()).as_deref(), Some("10.9.0.1"));
    assert_eq!(found("host", "0.0.0.0", all()).as_deref(), Some("10.1.0.1"));
    assert_eq!(found("host", "::", all()).as_deref(), Some("fd01::1"));
    assert_eq!(found("host", "0.0.0.0", network(&[], &["fd02::1", "10.2.0.1"])).as_deref(), Some("10.2.0.1"));
    assert_eq!(found("host", "::", network(&["::1"], &["10.2.0.1", "fd02::1"])).as_deref(), Some("fd02::1"));
    assert_eq!(found("host", "0.0.0.0", network(&[], &[])), None);
}

/// Proves: KUBELET-9
#[test]
fn nothing_is_patched_when_only_time_has_passed() {
    let kubelet = Kubelet::new("a").node_ip(ip("10.0.0.1"));
    let existing = node(&kubelet);
    assert_eq!(kubelet.reregistered(&existing, at(60)), None);
    assert!(!kubelet.refreshed(&existing, at(60)).1);
    let tired = kubelet.clone().ready(false);
    assert!(tired.refreshed(&existing, at(60)).1);
    let keys: Vec<&str> = labels(&existing).into_iter().map(|(key, _)| key).collect();
    assert!(
        keys.iter()
            .all(|key| !key.contains("zone") && !key.contains("region") && !key.contains("instance-type"))
    );
}

/// Proves: KUBELET-10
#[test]
fn node_ip_takes_one_address_or_one_of_each_family() {
    assert_eq!(ip("").primary(), None);
    let pair = ip(" 10.0.0.1 , fd00::1 ");
    assert_eq!(pair.primary(), Some("10.0.0.1".parse().unwrap()));
    assert_eq!(pair.secondary(), Some("fd00::1".parse().unwrap()));
    let sloppy = ip("nonsense,10.0.0.1,");
    assert_eq!(sloppy.primary(), Some("10.0.0.1".parse().unwrap()));
    assert_eq!(sloppy.ignored(), ["nonsense", ""]);
    let refused = |flag: &str| flag.parse::<NodeIp>().unwrap_err();
    assert_eq!(refused("10.0.0.1,10.0.0.2"), NodeIpError::NotAPair);
    assert_eq!(refused("10.0.0.1,fd00::1,10.0.0.2"), NodeIpError::NotAPair);
    assert_eq!(refused("0.0.0.0,fd00::1"), NodeIpError::UnspecifiedInPair);
    assert_eq!(refused("10.0.0.1,::"), NodeIpError::UnspecifiedInPair);
}

#[test]
fn a_condition_keeps_the_time_of_its_last_change_until_it_changes() {
    let kubelet = Kubelet::new("a");
    let since = |node: &Node| {
        let conditions = node.status.clone().unwrap().conditions.unwrap();
        let ready: NodeCondition =
            conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
        ready.last_transition_time.unwrap().0
    };
    let (later, _) = kubelet.refreshed(&node(&kubelet), at(60));
    assert_eq!(since(&later), at(0));
    let (tired, _) = kubelet.ready(false).refreshed(&later, at(120));
    assert_eq!(since(&tired), at(120));
}

#[test]
fn a_patch_holds_only_what_differs_and_replaces_addresses_as_a_whole() {
    let old = node(&Kubelet::new("a").node_ip(ip("10.0.0.1")));
    let mut new = old.clone();
    assert_eq!(difference(&old, &new).unwrap(), json!({}));
    new.metadata.annotations.as_mut().unwrap().remove(PROVIDED_NODE_IP);
    let address = NodeAddress { type_: "Hostname".to_owned(), address: "b".to_owned() };
    new.status.as_mut().unwrap().addresses = Some(vec![address]);
    let expected = json!({
        "metadata": { "annotations": { PROVIDED_NODE_IP: null } },
        "status": { "addresses": [{ "type": "Hostname", "address": "b" }, { "$patch": "replace" }] },
    });
    assert_eq!(difference(&old, &new).unwrap(), expected);
}
