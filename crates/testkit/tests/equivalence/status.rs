//! What passes through the status subresource and what does not.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, Service};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;
use testkit::story::{Patch, Story};
use testkit::{lease, node, persistent_volume, service};

crate::stories![
    a_status_patch_leaves_the_spec_alone,
    a_main_patch_leaves_the_status_alone,
    metadata_passes_through_the_status_of_a_node,
    metadata_passes_through_the_status_of_a_service,
    a_status_replaced_as_a_whole_keeps_the_spec,
    a_volume_attachment_status_lets_no_metadata_through,
    a_lease_has_no_status,
    addresses_must_not_repeat_in_an_update,
    addresses_may_repeat_at_creation,
    the_address_of_a_load_balancer_is_kept_in_its_status,
    an_address_that_is_none_is_refused,
    a_service_without_a_balancer_has_no_address,
    clearing_the_status_of_a_balancer,
    a_volume_status_leaves_the_spec_alone,
    a_namespace_status_leaves_the_spec_alone,
];

async fn a_status_patch_leaves_the_spec_alone(s: &mut Story) {
    let a = s.create::<Node>(node("a")).await.succeeds();
    let after =
        s.patch_status::<Node>("a", Patch::Merge(json!({"spec": {"unschedulable": true}}))).await.succeeds();
    assert_eq!(a.version(), after.version());
    after.lacks("/spec/unschedulable");
}

async fn a_main_patch_leaves_the_status_alone(s: &mut Story) {
    let a = s.create::<Node>(node("a").ready()).await.succeeds();
    let patch =
        json!({"status": {"conditions": [], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let after = s.patch::<Node>("a", Patch::Merge(patch)).await.succeeds();
    assert_eq!(a.version(), after.version());
    after.has("/status/conditions/0/type", "Ready").lacks("/status/addresses");
}

async fn metadata_passes_through_the_status_of_a_node(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let metadata = json!({"labels": {"x": "1"}, "annotations": {"y": "2"}, "finalizers": ["a.io/x"]});
    s.patch_status::<Node>("a", Patch::Merge(json!({"metadata": metadata})))
        .await
        .has("/metadata/labels/x", "1")
        .has("/metadata/annotations/y", "2")
        .has("/metadata/finalizers/0", "a.io/x");
}

async fn metadata_passes_through_the_status_of_a_service(s: &mut Story) {
    s.create::<Service>(service("a").cluster_ip().port(80)).await.succeeds();
    let metadata = json!({"labels": {"x": "1"}, "annotations": {"y": "2"}, "finalizers": ["a.io/x"]});
    s.patch_status::<Service>("a", Patch::Strategic(json!({"metadata": metadata})))
        .await
        .has("/metadata/labels/x", "1")
        .has("/metadata/annotations/y", "2")
        .has("/metadata/finalizers/0", "a.io/x");
}

async fn a_status_replaced_as_a_whole_keeps_the_spec(s: &mut Story) {
    let a = s.create::<Node>(node("a").provider_id("fake://a").ready()).await.succeeds();
    let mut body = a.with("/status/conditions/0/status", "False");
    body["spec"] = json!({});
    s.put_subresource::<Node>("a", "status", body)
        .await
        .has("/spec/providerID", "fake://a")
        .has("/status/conditions/0/status", "False");
}

async fn a_volume_attachment_status_lets_no_metadata_through(s: &mut Story) {
    let spec =
        json!({"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
    s.create_raw::<VolumeAttachment>(json!({"metadata": {"name": "a"}, "spec": spec})).await.succeeds();
    let patch =
        json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["a.io/x"]}, "status": {"attached": true}});
    s.patch_status::<VolumeAttachment>("a", Patch::Merge(patch)).await;
    s.patch::<VolumeAttachment>("a", Patch::Merge(json!({"spec": {"nodeName": "m"}}))).await;
}

async fn a_lease_has_no_status(s: &mut Story) {
    let namespace = s.namespace().to_owned();
    s.create::<Lease>(lease(&namespace, "l")).await.succeeds();
    let answer = s.patch_status::<Lease>("l", Patch::Merge(json!({}))).await;
    assert_eq!(answer.code, 404);
}

async fn addresses_must_not_repeat_in_an_update(s: &mut Story) {
    s.create::<Node>(node("a")).await.succeeds();
    let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
    s.patch_status::<Node>("a", Patch::Merge(json!({"status": {"addresses": [address, address]}})))
        .await
        .is_refused(422, "Invalid");
}

async fn addresses_may_repeat_at_creation(s: &mut Story) {
    s.create::<Node>(node("a").internal_ip("10.0.0.1").internal_ip("10.0.0.1")).await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}))).await;
}

fn ingress(points: serde_json::Value) -> Patch {
    Patch::Strategic(json!({"status": {"loadBalancer": {"ingress": points}}}))
}

async fn the_address_of_a_load_balancer_is_kept_in_its_status(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().port(80)).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"ip": "192.0.2.1"}])))
        .await
        .has("/status/loadBalancer/ingress/0/ip", "192.0.2.1")
        .has("/status/loadBalancer/ingress/0/ipMode", "VIP");
    s.patch_status::<Service>("a", ingress(json!([{"ip": "192.0.2.1", "ipMode": "Proxy"}]))).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"hostname": "lb.example.com"}]))).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"hostname": "lb.example.com", "ipMode": "VIP"}]))).await;
    s.patch_status::<Service>("a", ingress(json!([{"ip": "192.0.2.1", "ipMode": "Sideways"}]))).await;
}

async fn an_address_that_is_none_is_refused(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().port(80)).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"ip": "somewhere"}]))).await.is_refused(422, "Invalid");
    s.patch_status::<Service>("a", ingress(json!([{"hostname": "192.0.2.1"}])))
        .await
        .is_refused(422, "Invalid");
    s.patch_status::<Service>("a", ingress(json!([{"hostname": "Not_A_Name"}])))
        .await
        .is_refused(422, "Invalid");
}

async fn a_service_without_a_balancer_has_no_address(s: &mut Story) {
    s.create::<Service>(service("a").cluster_ip().port(80)).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"ip": "192.0.2.1"}]))).await.is_refused(422, "Invalid");
}

async fn clearing_the_status_of_a_balancer(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().port(80)).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!([{"ip": "192.0.2.1"}]))).await.succeeds();
    s.patch::<Service>("a", Patch::Merge(json!({"spec": {"type": "ClusterIP"}}))).await.succeeds();
    s.patch_status::<Service>("a", ingress(json!(null))).await.lacks("/status/loadBalancer/ingress");
}

async fn a_volume_status_leaves_the_spec_alone(s: &mut Story) {
    s.create::<PersistentVolume>(persistent_volume("v", "csi.example.com", "h")).await.succeeds();
    let patch = json!({"metadata": {"labels": {"x": "1"}}, "spec": {"storageClassName": "x"}, "status": {"phase": "Available"}});
    s.patch_status::<PersistentVolume>("v", Patch::Merge(patch))
        .await
        .has("/status/phase", "Available")
        .lacks("/spec/storageClassName");
}

async fn a_namespace_status_leaves_the_spec_alone(s: &mut Story) {
    s.create_raw::<Namespace>(json!({"metadata": {"name": "n"}})).await.succeeds();
    let patch = json!({"metadata": {"labels": {"x": "1"}}, "spec": {"finalizers": []}});
    s.patch_status::<Namespace>("n", Patch::Merge(patch.clone())).await.succeeds();
    s.patch::<Namespace>("n", Patch::Merge(patch)).await.succeeds();
}
