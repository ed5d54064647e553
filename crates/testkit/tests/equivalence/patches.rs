//! JSON merge patch and JSON patch.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use serde_json::json;
use testkit::story::{Patch, Story};
use testkit::{node, service};

crate::stories![
    a_merge_patch_adds_changes_and_removes,
    a_merge_patch_replaces_lists,
    a_merge_patch_that_changes_nothing_keeps_the_version,
    a_patch_of_what_is_not_there_is_not_found,
    a_json_patch_adds_and_removes,
    a_json_patch_whose_test_fails_is_refused,
    a_json_patch_whose_test_holds_passes,
    a_json_patch_to_nowhere_is_refused,
    a_json_patch_removes_only_what_is_there,
    a_json_patch_can_test_the_version,
    an_unknown_patch_format_is_refused,
    a_patch_that_is_no_json_is_a_bad_request,
    a_patch_with_a_wrong_type_is_refused,
    the_provider_id_of_a_node_is_written_once,
    the_pod_cidrs_of_a_node_are_written_once,
    a_pod_cidr_and_pod_cidrs_are_one_fact,
    a_pod_cidr_must_be_one,
    a_taint_needs_a_known_effect,
    a_taint_stands_once,
    the_class_of_a_load_balancer_is_written_once,
    an_immutable_config_map_stays_as_it_is,
];

async fn labelled(s: &mut Story) {
    s.create::<Node>(node("a").label("x", "1").label("y", "2")).await.succeeds();
}

async fn a_merge_patch_adds_changes_and_removes(s: &mut Story) {
    labelled(s).await;
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": null, "y": "3", "z": "4"}}})))
        .await
        .lacks("/metadata/labels/x")
        .has("/metadata/labels/y", "3")
        .has("/metadata/labels/z", "4");
}

async fn a_merge_patch_replaces_lists(s: &mut Story) {
    labelled(s).await;
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})))
        .await
        .has("/spec/taints/0/key", "k")
        .lacks("/spec/taints/1");
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"taints": null}}))).await.lacks("/spec/taints");
}

async fn a_merge_patch_that_changes_nothing_keeps_the_version(s: &mut Story) {
    labelled(s).await;
    let before = s.get::<Node>("a").await;
    let after =
        s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}))).await.succeeds();
    assert_eq!(before.version(), after.version());
    let after = s.patch_status::<Node>("a", Patch::Merge(json!({}))).await.succeeds();
    assert_eq!(before.version(), after.version());
}

async fn a_patch_of_what_is_not_there_is_not_found(s: &mut Story) {
    s.patch::<Node>("a", Patch::Merge(json!({}))).await.is_refused(404, "NotFound");
    s.patch_status::<Service>("a", Patch::Strategic(json!({}))).await.is_refused(404, "NotFound");
}

async fn a_json_patch_adds_and_removes(s: &mut Story) {
    labelled(s).await;
    let patch = json!([
        {"op": "add", "path": "/metadata/labels/z", "value": "4"},
        {"op": "remove", "path": "/metadata/labels/x"},
        {"op": "replace", "path": "/metadata/labels/y", "value": "3"},
    ]);
    s.patch::<Node>("a", Patch::Json(patch)).await.lacks("/metadata/labels/x").has("/metadata/labels/z", "4");
}

async fn a_json_patch_whose_test_fails_is_refused(s: &mut Story) {
    labelled(s).await;
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/x", "value": "other"},
        {"op": "remove", "path": "/metadata/labels/x"},
    ]);
    s.patch::<Node>("a", Patch::Json(patch)).await.is_refused(422, "Invalid");
    s.get::<Node>("a").await.has("/metadata/labels/x", "1");
}

async fn a_json_patch_whose_test_holds_passes(s: &mut Story) {
    labelled(s).await;
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/x", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/x"},
    ]);
    s.patch::<Node>("a", Patch::Json(patch)).await.succeeds().lacks("/metadata/labels/x");
}

async fn a_json_patch_to_nowhere_is_refused(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let patch = json!([{"op": "add", "path": "/metadata/labels/x", "value": "1"}]);
    s.patch::<Node>("a", Patch::Json(patch)).await.is_refused(422, "Invalid");
}

async fn a_json_patch_removes_only_what_is_there(s: &mut Story) {
    labelled(s).await;
    let patch = json!([{"op": "remove", "path": "/metadata/labels/none"}]);
    s.patch::<Node>("a", Patch::Json(patch)).await.is_refused(422, "Invalid");
}

async fn a_json_patch_can_test_the_version(s: &mut Story) {
    labelled(s).await;
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/x"},
    ]);
    s.patch::<Node>("a", Patch::Json(patch)).await.is_refused(422, "Invalid");
}

async fn an_unknown_patch_format_is_refused(s: &mut Story) {
    labelled(s).await;
    let path = format!("/api/v1/nodes/{}", s.full_name::<Node>("a"));
    s.request("PATCH", &path, "application/json", "{}").await.is_refused(415, "UnsupportedMediaType");
}

async fn a_patch_that_is_no_json_is_a_bad_request(s: &mut Story) {
    labelled(s).await;
    let path = format!("/api/v1/nodes/{}", s.full_name::<Node>("a"));
    s.request("PATCH", &path, "application/merge-patch+json", "{").await.is_refused(400, "BadRequest");
}

async fn a_patch_with_a_wrong_type_is_refused(s: &mut Story) {
    labelled(s).await;
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"unschedulable": "yes"}}))).await;
}

async fn the_provider_id_of_a_node_is_written_once(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let set = |id: &str| Patch::Merge(json!({"spec": {"providerID": id}}));
    s.patch::<Node>("a", set("fake://1")).await.succeeds();
    s.patch::<Node>("a", set("fake://1")).await.succeeds();
    s.patch::<Node>("a", set("fake://2")).await.is_refused(422, "Invalid");
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"providerID": null}})))
        .await
        .is_refused(422, "Invalid");
}

async fn the_pod_cidrs_of_a_node_are_written_once(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let set = |cidr: &str| Patch::Strategic(json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}));
    s.patch::<Node>("a", set("10.1.0.0/24")).await.succeeds();
    s.patch::<Node>("a", set("10.2.0.0/24")).await.is_refused(422, "Invalid");
}

async fn a_pod_cidr_and_pod_cidrs_are_one_fact(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"podCIDR": "10.1.0.0/24"}})))
        .await
        .has("/spec/podCIDRs", json!(["10.1.0.0/24"]));
    s.create::<Node>(node("b")).await.succeeds();
    s.patch::<Node>("b", Patch::Merge(json!({"spec": {"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}})))
        .await
        .has("/spec/podCIDR", "10.1.0.0/24");
}

async fn a_pod_cidr_must_be_one(s: &mut Story) {
    s.create::<Node>(node("a").pod_cidr("10.1.0.0")).await.is_refused(422, "Invalid");
}

async fn a_taint_needs_a_known_effect(s: &mut Story) {
    s.create::<Node>(node("a").taint("k", "", "Sometimes")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").taint("k", "", "")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").taint("two words", "", "NoSchedule")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a")).await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}})))
        .await
        .is_refused(422, "Invalid");
}

async fn a_taint_stands_once(s: &mut Story) {
    s.create::<Node>(node("a").taint("k", "1", "NoExecute").taint("k", "2", "NoExecute"))
        .await
        .is_refused(422, "Invalid");
}

async fn the_class_of_a_load_balancer_is_written_once(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().class("example.com/x").port(80)).await.succeeds();
    s.patch::<Service>("a", Patch::Merge(json!({"spec": {"loadBalancerClass": "example.com/y"}})))
        .await
        .is_refused(422, "Invalid");
    s.create::<Service>(service("b").cluster_ip().class("example.com/x").port(80))
        .await
        .is_refused(422, "Invalid");
    s.create::<Service>(service("c").load_balancer().port(80)).await.succeeds();
    s.patch::<Service>("c", Patch::Merge(json!({"spec": {"loadBalancerClass": "example.com/y"}})))
        .await
        .is_refused(422, "Invalid");
}

async fn an_immutable_config_map_stays_as_it_is(s: &mut Story) {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}, "immutable": true});
    s.create_raw::<ConfigMap>(body).await.succeeds();
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"data": {"k": "2"}}))).await.is_refused(422, "Invalid");
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}))).await.succeeds();
}
