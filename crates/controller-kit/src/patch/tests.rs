//! The bodies that go over the wire, and two properties: a diff applied gives the wanted object, and nobody else's
//! finalizer is ever lost.

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, NodeAddress, NodeCondition, Service, Taint};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::node::{Change, MissingVersion};
use super::*;

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn service(finalizers: &[&str]) -> Service {
    serde_json::from_value(json!({ "metadata": { "name": "web", "finalizers": finalizers } })).unwrap()
}

fn strategic(patch: Option<Patch>) -> Option<Value> {
    patch.map(|patch| {
        assert_eq!(patch.content_type(), "application/strategic-merge-patch+json");
        patch.body()
    })
}

fn strategic_status(patch: Option<Patch>) -> Option<Value> {
    if let Some(patch) = &patch {
        assert_eq!(patch.subresource(), Some("status"));
    }
    strategic(patch)
}

/// Proves: WIRE-3
#[test]
fn only_labels_that_differ_are_written() {
    let node = node(json!({ "metadata": { "labels": { "zone": "a", "kept": "x", "old": "1" } } }));
    let change =
        Change::of(&node).label("zone", "b").label("kept", "x").label("new", "y").without_label("old");
    let patch = strategic(change.without_label("never was").patch().unwrap());
    assert_eq!(patch, Some(json!({ "metadata": { "labels": { "zone": "b", "new": "y", "old": null } } })));
    assert_eq!(Change::of(&node).label("kept", "x").without_label("none").patch(), Ok(None));
}

/// Proves: WIRE-4, NODE-25
#[test]
fn taints_are_written_whole_with_the_version_they_were_read_at() {
    let taints = json!([
        { "key": "cloud", "effect": "NoSchedule", "value": "true" },
        { "key": "other", "effect": "NoExecute" },
        { "key": "cloud", "effect": "NoExecute" },
    ]);
    let read = node(json!({ "metadata": { "resourceVersion": "42" }, "spec": { "taints": taints } }));
    let patch = strategic(Change::of(&read).without_taint("cloud").patch().unwrap());
    let expected = json!({
        "metadata": { "resourceVersion": "42" },
        "spec": { "taints": [{ "key": "other", "effect": "NoExecute" }] },
    });
    assert_eq!(patch, Some(expected));
    assert_eq!(Change::of(&read).without_taint("absent").patch(), Ok(None));

    let unversioned = node(json!({ "spec": { "taints": taints } }));
    assert_eq!(Change::of(&unversioned).without_taint("cloud").patch(), Err(MissingVersion));
    assert!(Change::of(&unversioned).label("a", "b").patch().unwrap().is_some());
}

/// Proves: NODE-19, WIRE-9
#[test]
fn one_request_carries_all_changes_of_a_node() {
    let uninitialised =
        Taint { key: "uninitialized".into(), effect: "NoSchedule".into(), ..Taint::default() };
    let read = node(json!({ "metadata": { "resourceVersion": "7" }, "spec": { "taints": [uninitialised] } }));
    let cidrs = ["10.0.0.0/24".to_owned(), "fd00::/64".to_owned()];
    let change = Change::of(&read).provider_id("fake://i-1").label("zone", "a").pod_cidrs(&cidrs);
    let expected = json!({
        "metadata": { "resourceVersion": "7", "labels": { "zone": "a" } },
        "spec": {
            "providerID": "fake://i-1", "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"], "taints": [],
        },
    });
    assert_eq!(strategic(change.without_taint("uninitialized").patch().unwrap()), Some(expected));
}

#[test]
fn a_provider_id_is_never_changed_and_cidrs_are_written_once() {
    let read = node(json!({ "spec": { "providerID": "fake://i-1", "podCIDRs": ["10.0.0.0/24"] } }));
    let cidrs = ["10.0.0.0/24".to_owned()];
    assert_eq!(
        Change::of(&read).provider_id("fake://i-2").pod_cidrs(&cidrs).pod_cidrs(&[]).patch(),
        Ok(None)
    );
    assert_eq!(Change::of(&node(json!({}))).provider_id("").patch(), Ok(None));
}

/// Proves: WIRE-2, NODE-34
#[rstest]
#[case::equal(json!([["InternalIP", "10.0.0.1"]]), json!([["InternalIP", "10.0.0.1"]]), None)]
#[case::first(json!([]), json!([["InternalIP", "10.0.0.1"]]), Some(json!([["InternalIP", "10.0.0.1"]])))]
#[case::order_of_two_of_one_type(
    json!([["InternalIP", "10.0.0.1"], ["InternalIP", "fd00::1"]]),
    json!([["InternalIP", "fd00::1"], ["InternalIP", "10.0.0.1"]]),
    Some(json!([["InternalIP", "fd00::1"], ["InternalIP", "10.0.0.1"], "replace"]))
)]
#[case::two_equal_of_one_type_in_place_of_different_ones(
    json!([["InternalIP", "10.0.0.9"], ["InternalIP", "10.0.0.1"]]),
    json!([["InternalIP", "10.0.0.1"], ["InternalIP", "10.0.0.1"]]),
    Some(json!([["InternalIP", "10.0.0.1"], ["InternalIP", "10.0.0.1"], "replace"]))
)]
fn addresses_are_replaced_as_a_whole(
    #[case] before: Value,
    #[case] after: Value,
    #[case] patch: Option<Value>,
) {
    let spell = |list: &Value| -> Vec<Value> {
        let spelled = |entry: &Value| match entry.as_str() {
            Some(directive) => json!({ "$patch": directive }),
            None => json!({ "type": entry[0], "address": entry[1] }),
        };
        list.as_array().unwrap().iter().map(spelled).collect()
    };
    let read = node(json!({ "status": { "addresses": spell(&before) } }));
    let wanted: Vec<NodeAddress> = serde_json::from_value(spell(&after).into()).unwrap();
    let expected = patch.map(|list| json!({ "status": { "addresses": spell(&list) } }));
    assert_eq!(strategic_status(node::addresses(&read, &wanted)), expected);
}

/// Proves: WIRE-6, ROUTE-34
#[test]
fn a_condition_is_written_alone_and_only_when_it_says_something_new() {
    let condition = |reason: &str, time: &str| -> NodeCondition {
        serde_json::from_value(json!({
            "type": "NetworkUnavailable", "status": "False", "reason": reason, "message": "m",
            "lastHeartbeatTime": time, "lastTransitionTime": time,
        }))
        .unwrap()
    };
    let old = condition("CalicoIsUp", "2026-01-01T00:00:00Z");
    let read = node(json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }, old] } }));
    let wanted = condition("RouteCreated", "2026-01-02T00:00:00Z");
    let expected = json!({ "status": { "conditions": [{
        "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": "m",
        "lastHeartbeatTime": "2026-01-02T00:00:00Z", "lastTransitionTime": "2026-01-02T00:00:00Z",
    }] } });
    assert_eq!(strategic_status(node::condition(&read, &wanted)), Some(expected));
    assert_eq!(node::condition(&read, &condition("CalicoIsUp", "2026-01-03T00:00:00Z")), None);
    assert!(node::condition(&node(json!({})), &wanted).is_some());
}

/// Proves: WIRE-7, SVC-36, SVC-37
#[test]
fn finalizers_are_named_one_by_one() {
    let added = strategic_status(service::add_finalizer(&service(&["theirs"]), "ours"));
    assert_eq!(added, Some(json!({ "metadata": { "finalizers": ["ours"] } })));
    let removed = strategic_status(service::remove_finalizer(&service(&["ours"]), "ours"));
    assert_eq!(removed, Some(json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["ours"] } })));
    assert_eq!(service::add_finalizer(&service(&["ours"]), "ours"), None);
    assert_eq!(service::remove_finalizer(&service(&["theirs"]), "ours"), None);
}

/// Proves: WIRE-8, SVC-34
#[rstest]
#[case::set(json!(null), json!([{ "ip": "192.0.2.1" }]), Some(json!([{ "ip": "192.0.2.1" }])))]
#[case::cleared(json!([{ "ip": "192.0.2.1" }]), json!(null), Some(json!(null)))]
#[case::absent_is_empty(json!(null), json!([]), None)]
#[case::same_with_empty_ports(json!([{ "ip": "192.0.2.1", "ports": [] }]), json!([{ "ip": "192.0.2.1" }]), None)]
#[case::same_with_empty_hostname(json!([{ "ip": "192.0.2.1", "hostname": "" }]), json!([{ "ip": "192.0.2.1" }]), None)]
#[case::ip_mode_counts(
    json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]),
    json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]),
    Some(json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]))
)]
#[case::ports_count(
    json!([{ "ip": "192.0.2.1" }]),
    json!([{ "ip": "192.0.2.1", "ports": [{ "port": 80, "protocol": "TCP" }] }]),
    Some(json!([{ "ip": "192.0.2.1", "ports": [{ "port": 80, "protocol": "TCP" }] }]))
)]
fn a_load_balancer_status_is_written_when_it_differs(
    #[case] before: Value,
    #[case] after: Value,
    #[case] patch: Option<Value>,
) {
    let read: Service =
        serde_json::from_value(json!({ "status": { "loadBalancer": { "ingress": before } } })).unwrap();
    let wanted: LoadBalancerStatus = serde_json::from_value(json!({ "ingress": after })).unwrap();
    let expected = patch.map(|ingress| json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
    assert_eq!(strategic_status(service::load_balancer_status(&read, &wanted)), expected);
}

#[test]
fn a_json_patch_tests_before_it_writes() {
    let patch = Patch::replace_if(&["spec", "a/b"], json!(["x"]), json!([]));
    assert_eq!(patch.content_type(), "application/json-patch+json");
    let expected = json!([
        { "op": "test", "path": "/spec/a~1b", "value": ["x"] },
        { "op": "replace", "path": "/spec/a~1b", "value": [] },
    ]);
    assert_eq!(patch.body(), expected);
    let removal = Patch::remove_if(&["metadata", "labels", "k"], json!("v")).body();
    assert_eq!(removal[1], json!({ "op": "remove", "path": "/metadata/labels/k" }));
}

#[test]
fn a_guard_goes_into_the_body_of_every_kind() {
    let uid = |patch: Patch| patch.only_for_uid("u-1").body();
    assert_eq!(uid(Patch::merge(json!({ "a": 1 }))), json!({ "a": 1, "metadata": { "uid": "u-1" } }));
    let strategic = Patch::strategic(json!({ "metadata": { "labels": {} } }));
    assert_eq!(uid(strategic), json!({ "metadata": { "labels": {}, "uid": "u-1" } }));
    let json = uid(Patch::json(json_patch::Patch(vec![])));
    assert_eq!(json, json!([{ "op": "replace", "path": "/metadata/uid", "value": "u-1" }]));
}

/// JSON objects as Kubernetes writes them: without nulls.
fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[ab]".prop_map(Value::from)
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|map| json!(map)),
        ]
    });
    prop::collection::btree_map("[abc]", value, 0..4).prop_map(|map| json!(map))
}

/// One step of a life of a Service on which several controllers keep finalizers.
#[derive(Debug, Clone)]
enum Step {
    /// We read the Service: our copy is as old as this from now on.
    Read,
    Add,
    Remove,
    /// Another controller adds or removes its own, knowing what it does.
    ForeignAdd(u8),
    ForeignRemove(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Read),
        Just(Step::Add),
        Just(Step::Remove),
        (0..3_u8).prop_map(Step::ForeignAdd),
        (0..3_u8).prop_map(Step::ForeignRemove),
    ]
}

/// What the server does with the two finalizer patches; `tests/patch_real.rs` shows that the real one does so.
fn merge_finalizers(list: &mut Vec<String>, patch: &Value) {
    let named = |directive: &str| -> Vec<String> {
        serde_json::from_value(patch["metadata"][directive].clone()).unwrap_or_default()
    };
    let removed = named("$deleteFromPrimitiveList/finalizers");
    list.retain(|present| !removed.contains(present));
    let added = named("finalizers");
    let null = patch["metadata"].get("finalizers").is_some_and(Value::is_null);
    assert!(!null, "a null would wipe everybody's finalizers");
    let missing: Vec<String> = added.into_iter().filter(|name| !list.contains(name)).collect();
    list.extend(missing);
}

proptest! {
    #[test]
    fn a_diff_applied_gives_the_wanted_object(before in object(), after in object()) {
        let mut result = before.clone();
        let patch = Patch::diff(&before, &after).unwrap();
        prop_assert_eq!(patch.is_none(), before == after);
        if let Some(patch) = patch {
            json_patch::merge(&mut result, &patch.body());
        }
        prop_assert_eq!(result, after);
    }

    #[test]
    fn an_object_does_not_differ_from_itself(object in object()) {
        prop_assert_eq!(Patch::diff(&object, &object).unwrap(), None);
    }

    #[test]
    fn foreign_finalizers_survive_every_interleaving(steps in prop::collection::vec(step(), 0..30)) {
        let (mut server, mut copy) = (Vec::<String>::new(), Vec::<String>::new());
        let mut foreign = std::collections::BTreeSet::new();
        for step in steps {
            let cached = || service(&copy.iter().map(String::as_str).collect::<Vec<_>>());
            let patch = match step {
                Step::Read => { copy.clone_from(&server); None }
                Step::Add => service::add_finalizer(&cached(), "ours"),
                Step::Remove => service::remove_finalizer(&cached(), "ours"),
                Step::ForeignAdd(id) => {
                    let name = format!("theirs-{id}");
                    if foreign.insert(name.clone()) { server.push(name); }
                    None
                }
                Step::ForeignRemove(id) => {
                    let name = format!("theirs-{id}");
                    foreign.remove(&name);
                    server.retain(|present| *present != name);
                    None
                }
            };
            if let Some(patch) = patch {
                merge_finalizers(&mut server, &patch.body());
            }
            let theirs = server.iter().filter(|name| *name != "ours").cloned().collect();
            prop_assert_eq!(&foreign, &theirs);
        }
    }
}
