use std::path::Path;

use rstest::rstest;

use super::*;

fn parse(text: &str) -> Result<Config, Error> {
    Config::parse(Path::new("/etc/nephos/local.yaml"), text)
}

#[test]
fn without_a_file_the_nodes_are_adopted_and_no_address_is_given_out() {
    let config = Config::of(None).unwrap();
    assert_eq!((config.site.as_str(), &config.machines), ("here", &Machines::Adopt));
    assert!(config.pools.is_empty());
    assert_eq!(config.data_plane, DataPlaneChoice::InProcess);
    assert!(!config.routes && parse("routes: true").unwrap().routes);
}

#[test]
fn a_whole_config_is_read() {
    let config = parse(
        "site: lab\n\
         inventory: machines.yaml\n\
         zone: rack-1\n\
         loadBalancerClasses: [nephos/local]\n\
         dataPlane: {kind: proxy, socket: /run/nephos/proxy.sock}\n\
         pools:\n\
         - name: lan\n  \
           addresses: [192.0.2.16/28, 2001:db8::10-2001:db8::20]\n\
         - name: shop\n  \
           addresses: [198.51.100.7]\n  \
           namespaces: [shop]\n  \
           classes: [example.org/wan]\n  \
           autoAssign: false\n",
    )
    .unwrap();
    assert_eq!(config.machines, Machines::Inventory("/etc/nephos/machines.yaml".into()), "beside the config");
    assert_eq!(config.classes, ["example.org/wan", "nephos/local"]);
    assert_eq!(config.data_plane, DataPlaneChoice::Socket("/run/nephos/proxy.sock".into()));
    assert_eq!(config.pools.named("shop").unwrap().namespaces, ["shop"]);
    assert!(!config.pools.named("shop").unwrap().auto_assign);
}

#[rstest]
#[case("site: [a]\n", "/etc/nephos/local.yaml:1: ")]
#[case("site: lab\nponds: []\n", "/etc/nephos/local.yaml:2: ")]
#[case("site: a/b\n", "/etc/nephos/local.yaml:1: site \"a/b\": letters, digits")]
#[case(
    "inventory: m.yaml\n\nadopt: true\n",
    "/etc/nephos/local.yaml:3: adopt and inventory exclude each other"
)]
#[case("adopt: false\n", "/etc/nephos/local.yaml:1: without adopt, an inventory is needed")]
#[case("dataPlane: {kind: ipvs}\n", "/etc/nephos/local.yaml:1: ")]
#[case(
    "pools:\n- name: a\n  addresses: [1.2.3]\n",
    "/etc/nephos/local.yaml:3: pool a: \"1.2.3\" is no address"
)]
#[case("pools:\n- name: a\n  addresses: []\n", "/etc/nephos/local.yaml:2: pool a has no addresses")]
#[case(
    "pools:\n- name: a\n  addresses: [192.0.2.1]\n- name: a\n  addresses: [192.0.2.2]\n",
    "/etc/nephos/local.yaml:4: pool a is described at line 2 already"
)]
#[case(
    "pools:\n- name: a\n  addresses:\n  - 192.0.2.0/28\n- name: b\n  addresses:\n  - 192.0.2.15-192.0.2.30\n",
    "/etc/nephos/local.yaml:7: pool b: 192.0.2.15-192.0.2.30 overlaps 192.0.2.0-192.0.2.15 of pool a at line 4"
)]
fn what_is_wrong_is_refused_with_file_and_line(#[case] text: &str, #[case] expected: &str) {
    let error = parse(text).unwrap_err();
    assert_eq!(error.decision(), &cloud_provider::Decision::InvalidConfig);
    assert!(error.report().contains(expected), "{}", error.report());
}

#[test]
fn every_problem_of_a_file_is_told_at_once() {
    let report =
        parse("site: a b\nadopt: false\npools:\n- name: x\n  addresses: [nonsense, 192.0.2.9-192.0.2.1]\n")
            .unwrap_err()
            .report();
    for line in ["yaml:1:", "yaml:2:", "\"nonsense\"", "ends before it begins"] {
        assert!(report.contains(line), "{report}");
    }
}

#[test]
fn the_kernel_is_chosen_by_its_kind_and_keys_of_one_kind_are_refused_for_the_other() {
    let chosen = |text: &str| parse(text).unwrap().data_plane;
    let kernel = |state: &str, addresses| {
        DataPlaneChoice::Kernel(KernelChoice { state: PathBuf::from(state), addresses })
    };
    assert_eq!(chosen("dataPlane: {kind: nft}"), kernel(STATE, AddressChoice::Found));
    assert_eq!(
        chosen("dataPlane: {kind: nft, interface: eth1, state: here.json}"),
        kernel("/etc/nephos/here.json", AddressChoice::Interface("eth1".into()))
    );
    assert_eq!(chosen("dataPlane: {kind: nft, announce: false}"), kernel(STATE, AddressChoice::Routed));
    for (text, part) in [
        ("dataPlane: {kind: nft, socket: /run/x}", "dataPlane.socket is for kind proxy"),
        ("dataPlane: {interface: eth0}", "dataPlane.interface is for kind nft"),
        ("dataPlane: {kind: nft, announce: false, interface: eth0}", "for addresses that are announced"),
    ] {
        let error = parse(text).unwrap_err().report();
        assert!(error.contains(part) && error.contains("/etc/nephos/local.yaml:1"), "{error}");
    }
}
