//! Deletion that waits.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Service};
use serde_json::json;
use testkit::story::{Patch, Story};
use testkit::{node, service};

crate::stories![
    a_finalizer_holds_an_object,
    the_last_finalizer_lets_an_object_go,
    a_replacement_without_finalizers_lets_an_object_go,
    no_finalizer_joins_after_the_deletion,
    a_second_deletion_changes_nothing,
    a_deletion_in_the_foreground_leaves_its_mark,
    an_orphaning_deletion_leaves_its_mark,
    an_object_that_is_going_can_still_be_changed,
    the_deletion_time_cannot_be_taken_back,
    a_service_is_held_until_its_balancer_is_gone,
    a_namespace_is_held_by_its_own_finalizer,
    nothing_is_created_in_a_namespace_that_is_going,
];

async fn a_finalizer_holds_an_object(s: &mut Story) {
    let a = s.create::<Node>(node("a").finalizer("a.io/x")).await.succeeds();
    let going = s.delete::<Node>("a").await.succeeds();
    assert!(!going.at("/metadata/deletionTimestamp").is_null());
    assert_ne!(a.version(), going.version());
    s.get::<Node>("a").await.succeeds();
}

async fn the_last_finalizer_lets_an_object_go(s: &mut Story) {
    s.create::<Node>(node("a").finalizer("a.io/x").finalizer("b.io/x")).await.succeeds();
    s.delete::<Node>("a").await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"finalizers": ["b.io/x"]}}))).await.succeeds();
    s.get::<Node>("a").await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.succeeds();
    s.get::<Node>("a").await.is_refused(404, "NotFound");
}

async fn a_replacement_without_finalizers_lets_an_object_go(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "finalizers": ["a.io/x"]}})).await.succeeds();
    let going = s.delete::<ConfigMap>("a").await.succeeds();
    s.put::<ConfigMap>("a", going.with("/metadata/finalizers", json!([]))).await.succeeds();
    s.get::<ConfigMap>("a").await.is_refused(404, "NotFound");
}

async fn no_finalizer_joins_after_the_deletion(s: &mut Story) {
    s.create::<Node>(node("a").finalizer("a.io/x")).await.succeeds();
    s.delete::<Node>("a").await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"finalizers": ["a.io/x", "b.io/x"]}})))
        .await
        .is_refused(422, "Invalid");
}

async fn a_second_deletion_changes_nothing(s: &mut Story) {
    s.create::<Node>(node("a").finalizer("a.io/x")).await.succeeds();
    let first = s.delete::<Node>("a").await.succeeds();
    let second = s.delete::<Node>("a").await.succeeds();
    assert_eq!(first.version(), second.version());
}

async fn a_deletion_in_the_foreground_leaves_its_mark(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await.succeeds();
    s.delete_with::<ConfigMap>("a", json!({"propagationPolicy": "Foreground"}))
        .await
        .has("/metadata/finalizers/0", "foregroundDeletion");
}

async fn an_orphaning_deletion_leaves_its_mark(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await.succeeds();
    s.delete_with::<ConfigMap>("a", json!({"propagationPolicy": "Orphan"}))
        .await
        .has("/metadata/finalizers/0", "orphan");
}

async fn an_object_that_is_going_can_still_be_changed(s: &mut Story) {
    s.create::<Node>(node("a").finalizer("a.io/x")).await.succeeds();
    s.delete::<Node>("a").await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}})))
        .await
        .has("/metadata/labels/x", "1");
}

async fn the_deletion_time_cannot_be_taken_back(s: &mut Story) {
    s.create::<Node>(node("a").finalizer("a.io/x")).await.succeeds();
    s.delete::<Node>("a").await.succeeds();
    let after =
        s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"deletionTimestamp": null}}))).await.succeeds();
    assert!(!after.at("/metadata/deletionTimestamp").is_null());
}

async fn a_service_is_held_until_its_balancer_is_gone(s: &mut Story) {
    let ours = "service.kubernetes.io/load-balancer-cleanup";
    s.create::<Service>(service("web").load_balancer().port(80)).await.succeeds();
    s.patch_status::<Service>("web", Patch::Strategic(json!({"metadata": {"finalizers": [ours]}})))
        .await
        .succeeds();
    s.delete::<Service>("web").await.succeeds();
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [ours]}});
    s.patch_status::<Service>("web", Patch::Strategic(patch)).await.succeeds();
    s.get::<Service>("web").await.is_refused(404, "NotFound");
}

async fn a_namespace_is_held_by_its_own_finalizer(s: &mut Story) {
    s.create_raw::<Namespace>(json!({"metadata": {"name": "n"}})).await.succeeds();
    s.delete::<Namespace>("n").await.has("/status/phase", "Terminating");
    let going = s.get::<Namespace>("n").await.succeeds();
    s.put_subresource::<Namespace>("n", "finalize", going.with("/spec/finalizers", json!([])))
        .await
        .succeeds();
    s.get::<Namespace>("n").await.is_refused(404, "NotFound");
}

async fn nothing_is_created_in_a_namespace_that_is_going(s: &mut Story) {
    s.create_raw::<Namespace>(json!({"metadata": {"name": "n"}})).await.succeeds();
    s.delete::<Namespace>("n").await.succeeds();
    let path = format!("/api/v1/namespaces/{}/configmaps", s.full_name::<Namespace>("n"));
    s.request("POST", &path, "application/json", &json!({"metadata": {"name": "a"}}).to_string())
        .await
        .is_refused(403, "Forbidden");
}
