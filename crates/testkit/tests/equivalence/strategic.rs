//! Strategic merge patch, as upstream's controllers use it.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Service, ServiceAccount};
use serde_json::{Value, json};
use testkit::story::{Patch, Story};
use testkit::{node, service};

crate::stories![
    taints_are_replaced_as_a_whole,
    conditions_merge_by_their_type,
    a_new_condition_comes_first,
    addresses_merge_by_their_type,
    addresses_are_replaced_with_a_marker,
    a_marker_on_an_empty_list_adds_the_rest,
    an_address_is_deleted_by_its_type,
    two_addresses_of_one_type_collide_in_a_merge,
    a_finalizer_joins_the_others,
    a_finalizer_joins_in_the_order_that_is_given,
    a_finalizer_leaves_the_others,
    finalizers_set_to_null_all_go,
    ports_merge_by_their_number,
    ports_keep_the_order_that_is_given,
    owners_merge_by_their_uid,
    retained_keys_drop_the_others,
    a_map_is_replaced_with_a_marker,
    a_map_is_deleted_with_a_marker,
    an_unknown_marker_is_refused,
    an_element_without_its_key_is_refused,
    an_order_that_leaves_out_an_element_is_refused,
    secrets_of_an_account_merge_by_name,
    pod_cidrs_are_a_set,
    null_in_a_new_map_is_dropped,
];

fn strategic(patch: Value) -> Patch {
    Patch::Strategic(patch)
}

async fn taints_are_replaced_as_a_whole(s: &mut Story) {
    s.create::<Node>(node("a").uninitialized().taint("k", "v", "NoExecute")).await.succeeds();
    s.patch::<Node>(
        "a",
        strategic(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}})),
    )
    .await
    .has("/spec/taints/0/key", "k")
    .lacks("/spec/taints/1");
}

async fn conditions_merge_by_their_type(s: &mut Story) {
    s.create::<Node>(node("a").ready().condition("NetworkUnavailable", "True", "NoRoute")).await.succeeds();
    let condition = json!({"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"});
    s.patch_status::<Node>("a", strategic(json!({"status": {"conditions": [condition]}})))
        .await
        .has("/status/conditions/1/reason", "RouteCreated")
        .has("/status/conditions/0/type", "Ready");
}

async fn a_new_condition_comes_first(s: &mut Story) {
    s.create::<Node>(node("a").ready()).await.succeeds();
    let condition = json!({"type": "NetworkUnavailable", "status": "False"});
    s.patch_status::<Node>("a", strategic(json!({"status": {"conditions": [condition]}})))
        .await
        .has("/status/conditions/0/type", "NetworkUnavailable");
}

async fn addressed(s: &mut Story) {
    s.create::<Node>(node("a").internal_ip("10.0.0.1").external_ip("192.0.2.1").hostname("a"))
        .await
        .succeeds();
}

async fn addresses_merge_by_their_type(s: &mut Story) {
    addressed(s).await;
    let patch = json!({"status": {"addresses": [{"type": "ExternalIP", "address": "192.0.2.2"}]}});
    s.patch_status::<Node>("a", strategic(patch)).await.has("/status/addresses/1/address", "192.0.2.2");
}

async fn addresses_are_replaced_with_a_marker(s: &mut Story) {
    addressed(s).await;
    let addresses = json!([
        {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"},
        {"type": "Hostname", "address": "a"}, {"$patch": "replace"},
    ]);
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": addresses}})))
        .await
        .has("/status/addresses/1/address", "fd00::2")
        .lacks("/status/addresses/3");
}

async fn a_marker_on_an_empty_list_adds_the_rest(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.2"}, {"$patch": "replace"}]);
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": addresses}}))).await;
}

async fn an_address_is_deleted_by_its_type(s: &mut Story) {
    addressed(s).await;
    let patch = json!({"status": {"addresses": [{"type": "ExternalIP", "$patch": "delete"}]}});
    s.patch_status::<Node>("a", strategic(patch)).await.lacks("/status/addresses/2");
}

async fn two_addresses_of_one_type_collide_in_a_merge(s: &mut Story) {
    addressed(s).await;
    let addresses = json!([
        {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"},
    ]);
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": addresses}}))).await;
}

const OURS: &str = "service.kubernetes.io/load-balancer-cleanup";

async fn held(s: &mut Story, finalizers: &[&str]) {
    let mut service = service("web").load_balancer().port(80);
    for finalizer in finalizers {
        service = service.finalizer(finalizer);
    }
    s.create::<Service>(service).await.succeeds();
}

async fn a_finalizer_joins_the_others(s: &mut Story) {
    held(s, &["a.io/x", "b.io/x"]).await;
    s.patch_status::<Service>("web", strategic(json!({"metadata": {"finalizers": [OURS]}})))
        .await
        .has("/metadata/finalizers", json!([OURS, "a.io/x", "b.io/x"]));
    let again =
        s.patch_status::<Service>("web", strategic(json!({"metadata": {"finalizers": [OURS]}}))).await;
    again.has("/metadata/finalizers", json!([OURS, "a.io/x", "b.io/x"]));
}

async fn a_finalizer_joins_in_the_order_that_is_given(s: &mut Story) {
    held(s, &["a.io/x", "b.io/x"]).await;
    let patch = json!({"metadata": {
        "finalizers": [OURS], "$setElementOrder/finalizers": ["a.io/x", "b.io/x", OURS]}});
    s.patch_status::<Service>("web", strategic(patch))
        .await
        .has("/metadata/finalizers", json!(["a.io/x", "b.io/x", OURS]));
}

async fn a_finalizer_leaves_the_others(s: &mut Story) {
    held(s, &["a.io/x", OURS, "b.io/x"]).await;
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": [OURS], "$setElementOrder/finalizers": ["a.io/x", "b.io/x"]}});
    s.patch_status::<Service>("web", strategic(patch))
        .await
        .has("/metadata/finalizers", json!(["a.io/x", "b.io/x"]));
}

async fn finalizers_set_to_null_all_go(s: &mut Story) {
    held(s, &["a.io/x", OURS]).await;
    s.patch_status::<Service>("web", strategic(json!({"metadata": {"finalizers": null}})))
        .await
        .lacks("/metadata/finalizers");
}

async fn ported(s: &mut Story) {
    s.create::<Service>(service("web").cluster_ip().named_port("http", 80).named_port("https", 443))
        .await
        .succeeds();
}

async fn ports_merge_by_their_number(s: &mut Story) {
    ported(s).await;
    let patch = json!({"spec": {"ports": [{"port": 443, "targetPort": 8443}]}});
    s.patch::<Service>("web", strategic(patch)).await.has("/spec/ports/1/targetPort", 8443);
    let patch = json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}});
    s.patch::<Service>("web", strategic(patch)).await.has("/spec/ports/0/port", 443).lacks("/spec/ports/1");
}

async fn ports_keep_the_order_that_is_given(s: &mut Story) {
    ported(s).await;
    let patch = json!({"spec": {
        "$setElementOrder/ports": [{"port": 443}, {"port": 8080}, {"port": 80}],
        "ports": [{"port": 8080, "name": "alt"}],
    }});
    s.patch::<Service>("web", strategic(patch))
        .await
        .has("/spec/ports/0/port", 443)
        .has("/spec/ports/1/port", 8080)
        .has("/spec/ports/2/port", 80);
}

async fn owners_merge_by_their_uid(s: &mut Story) {
    let owner = |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
    let (x, y) = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002");
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "ownerReferences": [owner(x, "x")]}}))
        .await
        .succeeds();
    let patch = json!({"metadata": {"ownerReferences": [owner(y, "y")]}});
    s.patch::<ConfigMap>("a", strategic(patch)).await.succeeds();
    let patch = json!({"metadata": {"ownerReferences": [{"uid": x, "$patch": "delete"}]}});
    s.patch::<ConfigMap>("a", strategic(patch)).await.has("/metadata/ownerReferences/0/name", "y");
}

async fn retained_keys_drop_the_others(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}}))
        .await
        .succeeds();
    let patch = json!({"data": {"$retainKeys": ["x", "z"], "z": "3"}});
    s.patch::<ConfigMap>("a", strategic(patch)).await.lacks("/data/y").has("/data/z", "3");
    s.patch::<ConfigMap>("a", strategic(json!({"data": {"$retainKeys": ["x"], "z": "3"}}))).await;
}

async fn a_map_is_replaced_with_a_marker(s: &mut Story) {
    s.create::<Node>(node("a").label("x", "1").label("y", "2")).await.succeeds();
    s.patch::<Node>("a", strategic(json!({"metadata": {"labels": {"$patch": "replace", "z": "3"}}})))
        .await
        .lacks("/metadata/labels/x")
        .has("/metadata/labels/z", "3");
}

async fn a_map_is_deleted_with_a_marker(s: &mut Story) {
    s.create::<Node>(node("a").label("x", "1")).await.succeeds();
    s.patch::<Node>("a", strategic(json!({"metadata": {"labels": {"$patch": "delete"}}})))
        .await
        .lacks("/metadata/labels");
}

async fn an_unknown_marker_is_refused(s: &mut Story) {
    s.create::<Node>(node("a").label("x", "1").internal_ip("10.0.0.1")).await.succeeds();
    s.patch::<Node>("a", strategic(json!({"metadata": {"labels": {"$patch": "maybe"}}}))).await;
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": [{"$patch": "maybe"}]}}))).await;
}

async fn an_element_without_its_key_is_refused(s: &mut Story) {
    addressed(s).await;
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": [{"address": "10.0.0.2"}]}}))).await;
    s.patch_status::<Node>("a", strategic(json!({"status": {"addresses": [{"$patch": "delete"}]}}))).await;
}

async fn an_order_that_leaves_out_an_element_is_refused(s: &mut Story) {
    held(s, &["a.io/x"]).await;
    let patch = json!({"metadata": {"finalizers": [OURS], "$setElementOrder/finalizers": ["a.io/x"]}});
    s.patch_status::<Service>("web", strategic(patch)).await;
}

async fn secrets_of_an_account_merge_by_name(s: &mut Story) {
    s.create_raw::<ServiceAccount>(json!({"metadata": {"name": "a"}, "secrets": [{"name": "x"}]}))
        .await
        .succeeds();
    s.patch::<ServiceAccount>("a", strategic(json!({"secrets": [{"name": "y"}]})))
        .await
        .has("/secrets/1/name", "x");
}

async fn pod_cidrs_are_a_set(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    s.patch::<Node>("a", strategic(json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}})))
        .await
        .succeeds();
    s.patch::<Node>("a", strategic(json!({"spec": {"podCIDRs": ["fd00::/64"]}}))).await;
}

async fn null_in_a_new_map_is_dropped(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    s.patch::<Node>("a", strategic(json!({"metadata": {"labels": {"x": null, "y": "1"}}})))
        .await
        .lacks("/metadata/labels/x");
}
