use super::*;
use crate::api_server::kinds::{KINDS, named};
use serde_json::json;

fn merged(kind: &str, object: Value, patch: &Value) -> Value {
    apply(&KINDS[named(kind).unwrap()], object, patch).unwrap()
}

#[test]
fn taints_are_replaced_as_a_whole() {
    let node = json!({"spec": {"taints": [{"key": "a"}, {"key": "b"}]}});
    let patch = json!({"spec": {"taints": [{"key": "b"}]}});
    assert_eq!(merged("Node", node, &patch), json!({"spec": {"taints": [{"key": "b"}]}}));
}

#[test]
fn conditions_merge_by_type() {
    let node = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]}});
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let expected = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]}});
    assert_eq!(merged("Node", node, &patch), expected);
}

#[test]
fn a_replace_marker_replaces_a_keyed_list() {
    let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "1"}, {"type": "Hostname", "address": "h"}]}});
    let patch =
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "2"}, {"$patch": "replace"}]}});
    let expected = json!({"status": {"addresses": [{"type": "InternalIP", "address": "2"}]}});
    assert_eq!(merged("Node", node, &patch), expected);
}

#[test]
fn a_new_finalizer_is_put_in_front_unless_the_order_says_otherwise() {
    let service = json!({"metadata": {"finalizers": ["a/x", "b/x"]}});
    let plain = json!({"metadata": {"finalizers": ["c/x"]}});
    assert_eq!(
        merged("Service", service.clone(), &plain)["metadata"]["finalizers"],
        json!(["c/x", "a/x", "b/x"])
    );
    let ordered =
        json!({"metadata": {"finalizers": ["c/x"], "$setElementOrder/finalizers": ["a/x", "b/x", "c/x"]}});
    assert_eq!(merged("Service", service, &ordered)["metadata"]["finalizers"], json!(["a/x", "b/x", "c/x"]));
}

#[test]
fn finalizers_are_removed_one_by_one() {
    let service = json!({"metadata": {"finalizers": ["a/x", "b/x", "c/x"]}});
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["b/x"], "$setElementOrder/finalizers": ["a/x", "c/x"]}});
    assert_eq!(merged("Service", service, &patch)["metadata"]["finalizers"], json!(["a/x", "c/x"]));
}

#[test]
fn an_element_is_deleted_by_its_key() {
    let service = json!({"spec": {"ports": [{"port": 80}, {"port": 443}]}});
    let patch = json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}});
    assert_eq!(merged("Service", service, &patch), json!({"spec": {"ports": [{"port": 443}]}}));
}

#[test]
fn retained_keys_drop_the_others() {
    let service = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalName": "x"}});
    let patch = json!({"spec": {"$retainKeys": ["type", "clusterIP"], "type": "ClusterIP"}});
    let expected = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"}});
    assert_eq!(merged("Service", service, &patch), expected);
}

#[test]
fn null_removes_and_maps_merge() {
    let node = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}});
    assert_eq!(merged("Node", node, &patch), json!({"metadata": {"labels": {"b": "2", "c": "3"}}}));
}
