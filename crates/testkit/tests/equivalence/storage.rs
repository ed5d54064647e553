//! Volumes, claims, classes, slices of endpoints.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use testkit::story::{Patch, Story};
use testkit::{persistent_volume, storage_class};

crate::stories![
    a_volume_gets_its_defaults_and_its_protection,
    a_claim_gets_its_defaults_and_its_protection,
    a_claim_is_fixed_once_made,
    a_storage_class_is_fixed_once_made,
    an_endpoint_slice_counts_its_generations,
];

async fn a_volume_gets_its_defaults_and_its_protection(s: &mut Story) {
    s.create::<PersistentVolume>(persistent_volume("v", "csi.example.com", "h").class("c"))
        .await
        .has("/spec/persistentVolumeReclaimPolicy", "Retain")
        .has("/metadata/finalizers/0", "kubernetes.io/pv-protection")
        .has("/status/phase", "Pending");
    s.delete::<PersistentVolume>("v").await.succeeds();
}

async fn a_claim_gets_its_defaults_and_its_protection(s: &mut Story) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "c"});
    s.create_raw::<PersistentVolumeClaim>(json!({"metadata": {"name": "c"}, "spec": spec}))
        .await
        .has("/metadata/finalizers/0", "kubernetes.io/pvc-protection")
        .has("/status/phase", "Pending");
}

async fn a_claim_is_fixed_once_made(s: &mut Story) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "c"});
    s.create_raw::<PersistentVolumeClaim>(json!({"metadata": {"name": "c"}, "spec": spec})).await.succeeds();
    let change = Patch::Merge(json!({"metadata": {"annotations": {"a": "1"}}}));
    s.patch::<PersistentVolumeClaim>("c", change).await.succeeds();
}

async fn a_storage_class_is_fixed_once_made(s: &mut Story) {
    s.create::<StorageClass>(storage_class("c", "csi.example.com"))
        .await
        .has("/reclaimPolicy", "Delete")
        .has("/volumeBindingMode", "Immediate");
    for patch in [
        json!({"provisioner": "other.example.com"}),
        json!({"parameters": {"type": "fast"}}),
        json!({"reclaimPolicy": "Retain"}),
    ] {
        s.patch::<StorageClass>("c", Patch::Merge(patch)).await.is_refused(422, "Invalid");
    }
    s.delete::<StorageClass>("c").await.succeeds();
}

async fn an_endpoint_slice_counts_its_generations(s: &mut Story) {
    let body =
        json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]});
    s.create_raw::<EndpointSlice>(body).await.has("/metadata/generation", 1);
    let endpoints = json!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]});
    s.patch::<EndpointSlice>("e", Patch::Merge(endpoints)).await.has("/metadata/generation", 2);
}
