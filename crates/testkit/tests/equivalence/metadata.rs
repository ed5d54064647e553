//! Names, labels and what may be in metadata.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use serde_json::json;
use testkit::node;
use testkit::story::{Patch, Story};

crate::stories![
    a_name_with_capitals_is_refused,
    an_object_needs_a_name,
    a_label_value_with_spaces_is_refused,
    a_label_key_with_spaces_is_refused,
    a_label_value_that_is_too_long_is_refused,
    an_annotation_key_is_checked_and_its_value_is_free,
    a_finalizer_needs_a_domain,
    an_owner_needs_a_uid,
    a_patch_may_not_rename,
    a_patch_with_another_uid_is_refused,
    a_patch_with_an_outdated_version_is_a_conflict,
    a_patch_with_the_current_version_passes,
    several_problems_are_reported_together,
    a_service_name_is_a_dns_label,
];

async fn a_name_with_capitals_is_refused(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "A"}})).await.is_refused(422, "Invalid");
}

async fn an_object_needs_a_name(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {}})).await.is_refused(422, "Invalid");
}

async fn a_label_value_with_spaces_is_refused(s: &mut Story) {
    s.create::<Node>(node("a").label("x", "two words")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a")).await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "two words"}}})))
        .await
        .is_refused(422, "Invalid");
}

async fn a_label_key_with_spaces_is_refused(s: &mut Story) {
    s.create::<Node>(node("a").label("two words", "x")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").label("/x", "x")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").label("Up.Per/x", "x")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").label("x/", "x")).await.is_refused(422, "Invalid");
}

async fn a_label_value_that_is_too_long_is_refused(s: &mut Story) {
    s.create::<Node>(node("a").label("x", &"v".repeat(64))).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").label(&"k".repeat(64), "x")).await.is_refused(422, "Invalid");
}

async fn an_annotation_key_is_checked_and_its_value_is_free(s: &mut Story) {
    s.create::<Node>(node("a").annotation("two words", "x")).await.is_refused(422, "Invalid");
    s.create::<Node>(node("a").annotation("Upper.Case/Key", "two words, and more")).await.succeeds();
}

async fn a_finalizer_needs_a_domain(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "finalizers": ["plain"]}}))
        .await
        .is_refused(422, "Invalid");
}

async fn an_owner_needs_a_uid(s: &mut Story) {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "ownerReferences": [owner]}}))
        .await
        .is_refused(422, "Invalid");
}

async fn a_patch_may_not_rename(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await.succeeds();
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"metadata": {"name": "b"}}))).await;
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"metadata": {"namespace": "b"}}))).await;
}

async fn a_patch_with_another_uid_is_refused(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let uid = "00000000-0000-4000-8000-000000000000";
    let patch = json!({"metadata": {"uid": uid, "labels": {"x": "1"}}});
    s.patch::<Node>("a", Patch::Merge(patch.clone())).await;
    s.patch::<Node>("a", Patch::Strategic(patch.clone())).await;
    s.patch_status::<Node>("a", Patch::Strategic(patch)).await;
    s.get::<Node>("a").await.lacks("/metadata/labels/x");
}

async fn a_patch_with_an_outdated_version_is_a_conflict(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let patch = json!({"metadata": {"resourceVersion": "1", "labels": {"x": "1"}}});
    s.patch::<Node>("a", Patch::Merge(patch.clone())).await.is_refused(409, "Conflict");
    s.patch::<Node>("a", Patch::Strategic(patch.clone())).await.is_refused(409, "Conflict");
    s.patch_status::<Node>("a", Patch::Merge(patch)).await.is_refused(409, "Conflict");
}

async fn a_patch_with_the_current_version_passes(s: &mut Story) {
    let a = s.create::<Node>(node("a")).await.succeeds();
    let patch = json!({"metadata": {"resourceVersion": a.version(), "uid": a.uid(), "labels": {"x": "1"}}});
    let request = s.patch::<Node>("a", Patch::Strategic(patch)).await;
    request.succeeds().has("/metadata/labels/x", "1");
}

async fn several_problems_are_reported_together(s: &mut Story) {
    let metadata = json!({"name": "A", "labels": {"x": "two words"}});
    s.create_raw::<ConfigMap>(json!({"metadata": metadata})).await.is_refused(422, "Invalid");
}

async fn a_service_name_is_a_dns_label(s: &mut Story) {
    let spec = json!({"ports": [{"port": 80}]});
    s.create_raw::<Service>(json!({"metadata": {"name": "a.b"}, "spec": spec}))
        .await
        .is_refused(422, "Invalid");
    s.create_raw::<Service>(json!({"metadata": {"name": "1a"}, "spec": spec})).await;
}
