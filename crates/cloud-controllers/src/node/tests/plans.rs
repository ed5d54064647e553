use cloud_provider::Instance;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use proptest::prelude::*;
use serde_json::json;
use testkit::node;

use super::addresses::list;
use super::labels::instance;
use crate::node::addresses::Nets;
use crate::node::labels::Policy;
use crate::node::plan::{Change, Note, Plan, Refusal, initialise, is_uninitialised, mirror, refresh};

fn label(key: &str, value: &str) -> Change {
    Change::Label { key: key.into(), value: value.into() }
}

/// A Node in the hands of a test, changed as the API server would.
fn apply(node: &mut Node, plan: &Plan) {
    for change in &plan.changes {
        match change.clone() {
            Change::Addresses(list) => node.status.get_or_insert_default().addresses = Some(list),
            Change::ProviderId(id) => node.spec.get_or_insert_default().provider_id = Some(id),
            Change::Label { key, value } => {
                node.metadata.labels.get_or_insert_default().insert(key, value);
            }
            Change::Untaint => {
                let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
                taints.retain(|taint| taint.key != "node.cloudprovider.kubernetes.io/uninitialized");
            }
        }
    }
}

/// Proves: NODE-10, NODE-18, NODE-19
#[test]
fn a_new_node_gets_addresses_provider_id_and_labels_and_loses_its_taint() {
    let cloud =
        instance().of_type("m1").located("z", "r").address("InternalIP", "10.0.0.7").label("rack", "7");
    let new = node("a").uninitialized().hostname("a").build();
    let plan = initialise(&new, &cloud, &Nets::default()).unwrap();
    let expected = [
        Change::Addresses(list("InternalIP=10.0.0.7 Hostname=a")),
        Change::ProviderId("fake://a".into()),
        label("beta.kubernetes.io/instance-type", "m1"),
        label("failure-domain.beta.kubernetes.io/region", "r"),
        label("failure-domain.beta.kubernetes.io/zone", "z"),
        label("node.kubernetes.io/instance-type", "m1"),
        label("rack", "7"),
        label("topology.kubernetes.io/region", "r"),
        label("topology.kubernetes.io/zone", "z"),
        Change::Untaint,
    ];
    assert_eq!(plan.changes, expected);
}

/// Proves: NODE-9
#[test]
fn a_taint_of_the_key_counts_whatever_its_value_and_effect() {
    assert!(is_uninitialised(
        &node("a").taint("node.cloudprovider.kubernetes.io/uninitialized", "", "NoExecute").build()
    ));
    assert!(!is_uninitialised(&node("a").taint("other", "true", "NoSchedule").build()));
    assert!(!is_uninitialised(&node("a").build()));
}

/// Proves: NODE-25
#[test]
fn every_taint_of_the_key_goes_and_the_others_keep_their_order() {
    let mut new = node("a")
        .taint("first", "", "NoSchedule")
        .uninitialized()
        .taint("second", "x", "NoExecute")
        .taint("node.cloudprovider.kubernetes.io/uninitialized", "other", "NoExecute")
        .provider_id("fake://a")
        .build();
    new.metadata.resource_version = Some("7".into());
    let patch = initialise(&new, &instance(), &Nets::default()).unwrap().object_patch(&new).unwrap().unwrap();
    let expected = json!({
        "metadata": {"resourceVersion": "7"},
        "spec": {"taints": [
            {"key": "first", "effect": "NoSchedule"}, {"key": "second", "value": "x", "effect": "NoExecute"},
        ]},
    });
    assert_eq!(patch.body(), expected);
    let mut only = node("a").uninitialized().provider_id("fake://a").build();
    only.metadata.resource_version = Some("7".into());
    let patch =
        initialise(&only, &instance(), &Nets::default()).unwrap().object_patch(&only).unwrap().unwrap();
    assert_eq!(patch.body()["spec"]["taints"], json!([]));
}

/// Proves: NODE-19
#[test]
fn a_provider_id_that_is_there_is_never_changed() {
    let new = node("a").uninitialized().provider_id("fake://other").build();
    assert_eq!(initialise(&new, &instance(), &Nets::default()).unwrap().changes, [Change::Untaint]);
}

/// Proves: NODE-36
#[test]
fn an_instance_without_a_provider_id_will_do_only_where_the_node_has_one() {
    let nameless = Instance::unnamed();
    let refused = initialise(&node("a").uninitialized().build(), &nameless, &Nets::default()).unwrap_err();
    assert_eq!(refused, Refusal::NoProviderId("a".into()));
    let with = node("a").uninitialized().provider_id("fake://a").build();
    assert_eq!(initialise(&with, &nameless, &Nets::default()).unwrap().changes, [Change::Untaint]);
}

/// Proves: NODE-20, NODE-32
#[test]
fn a_node_ip_that_the_cloud_does_not_know_keeps_the_taint() {
    let cloud = instance().address("InternalIP", "10.0.0.7");
    for wish in ["10.9.9.9", "10.0.0.7,fd01::1", "nonsense"] {
        let new = node("a").uninitialized().provided_node_ip(wish).build();
        let refused = initialise(&new, &cloud, &Nets::default()).unwrap_err();
        assert_eq!(refused.to_string(), "provided node ip for node \"a\" is not valid");
    }
}

/// Proves: NODE-32, NODE-46
#[test]
fn a_refresh_keeps_addresses_that_it_cannot_choose_and_still_sets_labels() {
    let old = node("a").internal_ip("10.0.0.1").provided_node_ip("10.9.9.9").provider_id("fake://a").build();
    let cloud = instance().address("InternalIP", "10.0.0.7").located("z", "");
    let plan = refresh(&old, &cloud, &Nets::default(), Policy::Reconcile);
    let expected =
        [label("failure-domain.beta.kubernetes.io/zone", "z"), label("topology.kubernetes.io/zone", "z")];
    assert_eq!(plan.changes, expected);
    assert!(matches!(plan.notes[..], [Note::AddressesKept(_)]), "{:?}", plan.notes);
}

#[test]
fn a_refresh_of_a_true_dual_stack_node_changes_nothing() {
    let old = node("a")
        .provider_id("fake://a")
        .internal_ip("10.0.0.1")
        .internal_ip("fd01::1")
        .hostname("a")
        .build();
    let cloud = instance().address("InternalIP", "10.0.0.1").address("InternalIP", "fd01::1");
    assert_eq!(refresh(&old, &cloud, &Nets::default(), Policy::SetOnce), Plan::default());
}

#[test]
fn a_refresh_fills_in_a_provider_id_that_was_never_set() {
    let plan = refresh(&node("a").build(), &instance(), &Nets::default(), Policy::SetOnce);
    assert_eq!(plan.changes, [Change::ProviderId("fake://a".into())]);
}

fn some_node() -> impl Strategy<Value = Node> {
    let addresses = prop::collection::vec(some_address(), 0..4);
    let wish = prop::option::of(prop::sample::select(vec!["10.0.0.1", "fd01::1", "10.0.0.1,fd01::1", "x"]));
    (addresses, wish, any::<bool>(), any::<bool>(), "[ab]?").prop_map(
        |(addresses, wish, new, named, zone)| {
            let mut builder = node("a").label("topology.kubernetes.io/zone", &zone);
            for NodeAddress { type_, address } in addresses {
                builder = builder.address(&type_, &address);
            }
            if let Some(wish) = wish {
                builder = builder.provided_node_ip(wish);
            }
            if new {
                builder = builder.uninitialized();
            }
            if named {
                builder = builder.provider_id("fake://a");
            }
            builder.build()
        },
    )
}

fn some_address() -> impl Strategy<Value = NodeAddress> {
    let types = prop::sample::select(vec!["InternalIP", "ExternalIP", "Hostname", "Rack"]);
    let texts = prop::sample::select(vec!["10.0.0.1", "10.0.0.2", "fd01::1", "FD01::1", "a", ""]);
    (types, texts).prop_map(|(type_, address)| NodeAddress { type_: type_.into(), address: address.into() })
}

proptest! {
    /// Proves: NODE-18
    #[test]
    fn carrying_out_a_plan_leaves_nothing_to_plan(
        mut node in some_node(),
        addresses in prop::collection::vec(some_address(), 0..5),
        zone in "[ab]?",
        reconcile: bool,
    ) {
        let policy = if reconcile { Policy::Reconcile } else { Policy::SetOnce };
        let mut cloud = instance().located(zone, "r").label("rack", "7");
        cloud.addresses = addresses;
        if is_uninitialised(&node) && let Ok(plan) = initialise(&node, &cloud, &Nets::default()) {
            apply(&mut node, &plan);
            prop_assert!(!is_uninitialised(&node));
            prop_assert!(initialise(&node, &cloud, &Nets::default()).unwrap().is_empty());
        }
        let plan = refresh(&node, &cloud, &Nets::default(), policy);
        apply(&mut node, &plan);
        let again = refresh(&node, &cloud, &Nets::default(), policy);
        prop_assert!(again.is_empty(), "{:?} after {:?}", again, plan);
        prop_assert!(mirror(&node, policy).is_empty());
    }
}
