use cloud_provider::{Existence, NodeRef};
use rstest::rstest;

use super::*;

fn read_it(text: &str) -> Result<Snapshot, Problems> {
    let defaults = Defaults { zone: "rack-0".into(), region: "lab".into(), instance_type: String::new() };
    parse("machines.yaml", text, "lab", &defaults)
}

fn found(snapshot: &Snapshot, name: &str) -> Instance {
    match snapshot.answer(&NodeRef { name: name.into(), ..NodeRef::default() }) {
        Existence::Found(instance) => *instance,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn everything_that_a_machine_says_of_itself_is_told() {
    let snapshot = read_it(
        "machines:\n\
         - name: a\n  \
           id: 4c4c-4544\n  \
           addresses:\n  \
           - 192.0.2.11\n  \
           - 2001:db8::11\n  \
           - ExternalIP: 203.0.113.9\n  \
           zone: rack-7\n  \
           type: r640\n  \
           labels: {disk: ssd}\n  \
           state: stopped\n\
         - name: b\n",
    )
    .unwrap();
    let a = found(&snapshot, "a");
    assert_eq!(a.provider_id.as_ref().unwrap().as_str(), "local://lab/4c4c-4544");
    let addresses: Vec<_> =
        a.addresses.iter().map(|each| (each.type_.as_str(), each.address.as_str())).collect();
    assert_eq!(
        addresses,
        [
            ("InternalIP", "192.0.2.11"),
            ("InternalIP", "2001:db8::11"),
            ("ExternalIP", "203.0.113.9"),
            ("Hostname", "a")
        ]
    );
    assert_eq!((a.zone.as_deref(), a.region.as_deref()), (Some("rack-7"), Some("lab")));
    assert_eq!((a.instance_type.as_deref(), a.power), (Some("r640"), Power::Off));
    assert_eq!(a.additional_labels["disk"], "ssd");

    let b = found(&snapshot, "b");
    assert_eq!(b.provider_id.as_ref().unwrap().as_str(), "local://lab/b", "the name stands in for the ID");
    assert_eq!((b.zone.as_deref(), b.power), (Some("rack-0"), Power::On));
}

#[rstest]
#[case("machines:\n- id: x\n", "machines.yaml:2: ")]
#[case(
    "machines:\n- name: a\n- name: b\n  id: a\n",
    "machines.yaml:3: the machine at line 2 has the ID \"a\" too"
)]
#[case(
    "machines:\n- {name: a, id: 1a}\n- {name: a, id: 2a}\n",
    "machines.yaml:3: the machine at line 2 has the name \"a\" too"
)]
#[case("machines:\n- name: a\n  addresses:\n  - 192.0.2\n", "machines.yaml:4: \"192.0.2\" is no IP address")]
#[case(
    "machines:\n- name: a\n  addresses:\n  - ExternIP: 192.0.2.1\n",
    "machines.yaml:4: \"ExternIP\" is no type of address: did you mean ExternalIP?"
)]
#[case(
    "machines:\n- {name: a, addresses: [192.0.2.1]}\n- {name: b, addresses: [192.0.2.1]}\n",
    "machines.yaml:3: 192.0.2.1 stands at line 2 already"
)]
#[case("machines:\n- name: a\n  id: x/y\n", "machines.yaml:2: the ID \"x/y\": letters")]
#[case("machines:\n- name: a\n  state: asleep\n", "machines.yaml:3: ")]
#[case("machines:\n- name: a\n  adresses: []\n", "machines.yaml:3: ")]
#[case("machines: [{name", "machines.yaml:1: ")]
fn a_bad_inventory_is_refused_with_file_and_line(#[case] text: &str, #[case] expected: &str) {
    let problems = read_it(text).unwrap_err().to_string();
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn a_file_of_comments_lists_nobody_and_proves_nothing() {
    let snapshot = read_it("# to be filled\n").unwrap();
    let answer = snapshot.answer(&NodeRef { name: "a".into(), ..NodeRef::default() });
    assert!(matches!(answer, Existence::Unknown(_)), "{answer:?}");
}
