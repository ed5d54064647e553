//! Creating, reading, replacing and deleting.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Secret, ServiceAccount};
use serde_json::json;
use testkit::story::Story;
use testkit::{lease, node};

crate::stories![
    a_created_node_is_read_back,
    a_new_node_gets_the_not_ready_taint,
    a_ready_node_gets_the_not_ready_taint_too,
    a_name_is_taken_only_once,
    what_is_not_there_is_not_found,
    a_grouped_kind_that_is_not_there_is_named_with_its_group,
    a_generated_name_is_unique,
    a_replaced_object_gets_a_new_version,
    an_outdated_version_is_a_conflict,
    a_version_that_is_no_number_is_refused,
    a_node_may_be_replaced_without_a_version,
    a_lease_may_not_be_replaced_without_a_version,
    replacing_an_absent_node_is_not_found,
    replacing_an_absent_lease_creates_it,
    replacing_under_another_name_is_refused,
    replacing_with_another_uid_is_a_conflict,
    a_replacement_that_changes_nothing_keeps_the_version,
    a_replacement_may_not_change_the_creation_time,
    a_version_must_not_be_set_at_creation,
    a_uid_set_at_creation_is_ignored,
    a_deleted_object_is_gone,
    a_deletion_with_another_uid_is_a_conflict,
    a_deletion_with_another_version_is_a_conflict,
    a_deletion_with_the_right_preconditions_succeeds,
    deleting_what_is_not_there_is_not_found,
    a_dry_run_changes_nothing,
    a_missing_namespace_is_not_found,
    a_namespace_in_the_body_must_fit_the_url,
    unknown_fields_are_dropped,
    a_wrong_type_is_a_bad_request,
    a_wrong_kind_is_a_bad_request,
    a_body_that_is_no_json_is_a_bad_request,
    an_unknown_resource_is_not_found,
    a_released_lease_keeps_an_empty_holder,
    a_lease_needs_a_positive_duration,
    events_about_nodes_live_in_default,
    secrets_and_accounts_are_kept,
    a_token_belongs_to_an_account,
    the_server_is_healthy,
];

async fn a_created_node_is_read_back(s: &mut Story) {
    s.create::<Node>(node("a").label("zone", "z1").provider_id("fake://a").internal_ip("10.0.0.1"))
        .await
        .succeeds();
    s.get::<Node>("a").await.has("/spec/providerID", "fake://a").has("/metadata/labels/zone", "z1");
}

async fn a_new_node_gets_the_not_ready_taint(s: &mut Story) {
    let created = s.create::<Node>(node("a").uninitialized()).await.succeeds();
    created
        .has("/spec/taints/0/key", "node.cloudprovider.kubernetes.io/uninitialized")
        .has("/spec/taints/1/key", "node.kubernetes.io/not-ready");
}

async fn a_ready_node_gets_the_not_ready_taint_too(s: &mut Story) {
    s.create::<Node>(node("a").ready()).await.has("/spec/taints/0/key", "node.kubernetes.io/not-ready");
    s.create::<Node>(node("b").taint("node.kubernetes.io/not-ready", "", "NoSchedule"))
        .await
        .lacks("/spec/taints/1");
}

async fn a_name_is_taken_only_once(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    s.create::<Node>(node("a")).await.is_refused(409, "AlreadyExists");
    s.create::<Lease>(lease(&ns(s), "l")).await.succeeds();
    s.create::<Lease>(lease(&ns(s), "l")).await.is_refused(409, "AlreadyExists");
}

fn ns(s: &Story) -> String {
    s.namespace().to_owned()
}

async fn what_is_not_there_is_not_found(s: &mut Story) {
    s.get::<Node>("a").await.is_refused(404, "NotFound");
}

async fn a_grouped_kind_that_is_not_there_is_named_with_its_group(s: &mut Story) {
    s.get::<Lease>("l").await.is_refused(404, "NotFound").has("/details/group", "coordination.k8s.io");
}

async fn a_generated_name_is_unique(s: &mut Story) {
    let body = json!({"metadata": {"generateName": "x-generated-"}});
    let a = s.create_raw::<ConfigMap>(body.clone()).await.succeeds();
    let b = s.create_raw::<ConfigMap>(body).await.succeeds();
    assert_ne!(a.text("/metadata/name"), b.text("/metadata/name"));
    assert_eq!(a.text("/metadata/name").len(), "x-generated-".len() + 5);
}

async fn a_replaced_object_gets_a_new_version(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let b = s.put::<ConfigMap>("a", a.with("/data/k", "2")).await.has("/data/k", "2");
    assert_ne!(a.version(), b.version());
    assert_eq!(a.uid(), b.uid());
}

async fn an_outdated_version_is_a_conflict(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    s.put::<ConfigMap>("a", a.with("/data/k", "2")).await.succeeds();
    s.put::<ConfigMap>("a", a.with("/data/k", "3")).await.is_refused(409, "Conflict");
    let l = s.create::<Lease>(lease(&ns(s), "l")).await;
    s.put::<Lease>("l", l.with("/spec/leaseDurationSeconds", 16)).await.succeeds();
    s.put::<Lease>("l", l.with("/spec/leaseDurationSeconds", 17)).await.is_refused(409, "Conflict");
}

async fn a_version_that_is_no_number_is_refused(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    s.put::<ConfigMap>("a", a.with("/metadata/resourceVersion", "often")).await;
}

async fn a_node_may_be_replaced_without_a_version(s: &mut Story) {
    let a = s.create::<Node>(node("a").label("x", "1")).await;
    let mut body = a.with("/metadata/labels/x", "2");
    body["metadata"]["resourceVersion"] = json!("");
    s.put::<Node>("a", body).await.has("/metadata/labels/x", "2");
}

async fn a_lease_may_not_be_replaced_without_a_version(s: &mut Story) {
    let a = s.create::<Lease>(lease(&ns(s), "l")).await;
    s.put::<Lease>("l", a.with("/metadata/resourceVersion", "")).await.is_refused(422, "Invalid");
}

async fn replacing_an_absent_node_is_not_found(s: &mut Story) {
    s.put::<Node>("a", json!({"metadata": {"name": "a"}})).await.is_refused(404, "NotFound");
}

async fn replacing_an_absent_lease_creates_it(s: &mut Story) {
    let body = json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 15}});
    let created = s.put::<Lease>("l", body).await;
    assert_eq!(created.code, 201);
}

async fn replacing_under_another_name_is_refused(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    s.put::<ConfigMap>("a", a.with("/metadata/name", "b")).await.is_refused(400, "BadRequest");
}

async fn replacing_with_another_uid_is_a_conflict(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    let other = "00000000-0000-4000-8000-000000000000";
    s.put::<ConfigMap>("a", a.with("/metadata/uid", other)).await.is_refused(409, "Conflict");
}

async fn a_replacement_that_changes_nothing_keeps_the_version(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let same = s.put::<ConfigMap>("a", a.body.clone()).await.succeeds();
    assert_eq!(a.version(), same.version());
}

async fn a_replacement_may_not_change_the_creation_time(s: &mut Story) {
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    s.put::<ConfigMap>("a", a.with("/metadata/creationTimestamp", "2020-01-01T00:00:00Z")).await;
}

async fn a_version_must_not_be_set_at_creation(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "resourceVersion": "5"}})).await;
}

async fn a_uid_set_at_creation_is_ignored(s: &mut Story) {
    let asked = "00000000-0000-4000-8000-000000000000";
    let a = s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "uid": asked}})).await.succeeds();
    assert_ne!(a.uid(), asked);
}

async fn a_deleted_object_is_gone(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    s.delete::<Node>("a").await.succeeds();
    s.get::<Node>("a").await.is_refused(404, "NotFound");
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a"}})).await.succeeds();
    s.delete::<ConfigMap>("a").await.succeeds();
    s.create::<Lease>(lease(&ns(s), "l")).await.succeeds();
    s.delete::<Lease>("l").await.succeeds();
}

async fn a_deletion_with_another_uid_is_a_conflict(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let options = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}});
    s.delete_with::<Node>("a", options).await.is_refused(409, "Conflict");
    s.get::<Node>("a").await.succeeds();
}

async fn a_deletion_with_another_version_is_a_conflict(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    s.delete_with::<Node>("a", options).await.is_refused(409, "Conflict");
}

async fn a_deletion_with_the_right_preconditions_succeeds(s: &mut Story) {
    let a = s.create::<Node>(node("a")).await.succeeds();
    s.delete_with::<Node>("a", json!({"preconditions": {"uid": a.uid(), "resourceVersion": a.version()}}))
        .await
        .succeeds();
}

async fn deleting_what_is_not_there_is_not_found(s: &mut Story) {
    s.delete::<Node>("a").await.is_refused(404, "NotFound");
}

async fn a_dry_run_changes_nothing(s: &mut Story) {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}}).to_string();
    let path = format!("/api/v1/namespaces/{}/configmaps", s.namespace());
    s.request("POST", &format!("{path}?dryRun=All"), "application/json", &body).await.succeeds();
    s.get::<ConfigMap>("a").await.is_refused(404, "NotFound");
}

async fn a_missing_namespace_is_not_found(s: &mut Story) {
    let body = json!({"metadata": {"name": "a"}}).to_string();
    s.request("POST", "/api/v1/namespaces/nowhere/configmaps", "application/json", &body)
        .await
        .is_refused(404, "NotFound");
}

async fn a_namespace_in_the_body_must_fit_the_url(s: &mut Story) {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "namespace": "elsewhere"}}))
        .await
        .is_refused(400, "BadRequest");
}

async fn unknown_fields_are_dropped(s: &mut Story) {
    let body = json!({"metadata": {"name": "a", "colour": "red"}, "spec": {"wheels": 4}});
    s.create_raw::<Node>(body).await.succeeds().lacks("/spec/wheels").lacks("/metadata/colour");
}

async fn a_wrong_type_is_a_bad_request(s: &mut Story) {
    s.create_raw::<Node>(json!({"metadata": {"name": "a"}, "spec": {"unschedulable": "yes"}}))
        .await
        .is_refused(400, "BadRequest");
}

async fn a_wrong_kind_is_a_bad_request(s: &mut Story) {
    s.create_raw::<Node>(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}))
        .await
        .is_refused(400, "BadRequest");
}

async fn a_body_that_is_no_json_is_a_bad_request(s: &mut Story) {
    s.request("POST", "/api/v1/nodes", "application/json", "{").await.is_refused(400, "BadRequest");
}

async fn an_unknown_resource_is_not_found(s: &mut Story) {
    let answer = s.request("GET", "/api/v1/gnomes", "", "").await;
    assert_eq!(answer.code, 404);
}

async fn a_released_lease_keeps_an_empty_holder(s: &mut Story) {
    let held = s.create::<Lease>(lease(&ns(s), "l").held_by("me", testkit::EPOCH)).await.succeeds();
    s.put::<Lease>("l", held.with("/spec/holderIdentity", "")).await;
}

async fn a_lease_needs_a_positive_duration(s: &mut Story) {
    s.create::<Lease>(lease(&ns(s), "l").lasting_seconds(0)).await.is_refused(422, "Invalid");
}

async fn events_about_nodes_live_in_default(s: &mut Story) {
    let about = json!({"kind": "Node", "name": "a", "apiVersion": "v1"});
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": about, "reason": "Because", "type": "Normal"});
    s.create_raw::<Event>(event.clone()).await.is_refused(422, "Invalid");
    let mut here = event;
    here["involvedObject"]["namespace"] = json!(s.namespace());
    s.create_raw::<Event>(here).await.succeeds();
}

async fn secrets_and_accounts_are_kept(s: &mut Story) {
    s.create_raw::<Secret>(json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}, "type": "Opaque"}))
        .await
        .succeeds();
    s.get::<Secret>("s").await.has("/data/k", "dg==");
    s.create_raw::<ServiceAccount>(json!({"metadata": {"name": "a"}})).await.succeeds();
    s.delete::<ServiceAccount>("a").await.succeeds();
}

async fn a_token_belongs_to_an_account(s: &mut Story) {
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 3600}});
    s.post_below::<ServiceAccount>("nobody/token", request).await.is_refused(404, "NotFound");
}

async fn the_server_is_healthy(s: &mut Story) {
    for path in ["/healthz", "/livez"] {
        assert_eq!(s.request("GET", path, "", "").await.body, "ok");
    }
}
