//! Leader migration: what another component leads is not begun here until that component gives it up.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::PATIENCE;
use crate::scene::Scene;

const SECOND: &str = "cloud-provider-extraction-migration";

/// Proves: APP-37, APP-42
#[tokio::test]
async fn what_is_migrated_begins_only_once_the_other_component_has_given_up_its_lease() {
    let scene = Scene::set().await;
    let leases: Api<Lease> = Api::namespaced(scene.client().await, "kube-system");
    let held: Lease = serde_json::from_value(json!({
        "metadata": {"name": SECOND},
        "spec": {"holderIdentity": "kube-controller-manager", "leaseDurationSeconds": 3600, "leaseTransitions": 1,
                 "acquireTime": "2030-01-01T00:00:00.000000Z", "renewTime": "2030-01-01T00:00:00.000000Z"},
    }))
    .expect("a lease");
    leases.create(&PostParams::default(), &held).await.expect("another component leads");

    let mut nephos = scene.nephos(&["--enable-leader-migration"]);
    nephos.wait_for("Started \\\"cloud-node-controller\\\"", PATIENCE).await;
    nephos.wait_for("Standing for the lease of the leader migration", PATIENCE).await;
    assert_eq!(nephos.count("Started \\\"cloud-node-lifecycle-controller\\\""), 0, "{}", nephos.log());

    let given_up = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
    leases.patch(SECOND, &PatchParams::default(), &Patch::Merge(&given_up)).await.expect("it gives up");
    nephos.wait_for("Started \\\"cloud-node-lifecycle-controller\\\"", PATIENCE).await;
    let holder =
        leases.get(SECOND).await.expect("reading the lease").spec.and_then(|spec| spec.holder_identity);
    assert_ne!(holder.as_deref(), Some("kube-controller-manager"));
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    let after =
        leases.get(SECOND).await.expect("reading the lease").spec.and_then(|spec| spec.holder_identity);
    assert_eq!(after.unwrap_or_default(), "", "both leases are given back");
    scene.end().await;
}

/// Proves: APP-43
#[tokio::test]
async fn losing_the_lease_of_the_migration_ends_the_process() {
    let scene = Scene::set().await;
    let leases: Api<Lease> = Api::namespaced(scene.client().await, "kube-system");
    let mut nephos = scene.nephos(&["--enable-leader-migration"]);
    nephos.wait_for("Started \\\"cloud-node-lifecycle-controller\\\"", PATIENCE).await;
    let taken = json!({"spec": {"holderIdentity": "somebody-else"}});
    leases.patch(SECOND, &PatchParams::default(), &Patch::Merge(&taken)).await.expect("another takes it");
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(1), "{}", nephos.log());
    let main = leases.get("cloud-controller-manager").await.expect("reading the lease");
    assert_eq!(
        main.spec.and_then(|spec| spec.holder_identity).unwrap_or_default(),
        "",
        "the other lease is given back"
    );
    scene.end().await;
}
