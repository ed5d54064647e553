//! The smaller kinds.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ConfigMap, Namespace, PersistentVolume, PersistentVolumeSpec, ServiceAccount,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::{builds, metadata_sentences, named};

fn named_in(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.to_owned()), ..named(name) }
}

/// A Namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: named(name), ..Namespace::default() }
}

/// A `ServiceAccount`.
pub fn service_account(namespace: &str, name: &str) -> ServiceAccount {
    ServiceAccount { metadata: named_in(namespace, name), ..ServiceAccount::default() }
}

/// A `ConfigMap` with these entries.
pub fn config_map(namespace: &str, name: &str, entries: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<_, _> = entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ConfigMap { metadata: named_in(namespace, name), data: Some(data), ..ConfigMap::default() }
}

/// A `StorageClass` of this provisioner.
pub fn storage_class(name: &str, provisioner: &str) -> StorageClass {
    StorageClass { metadata: named(name), provisioner: provisioner.to_owned(), ..StorageClass::default() }
}

/// A Lease in the making.
#[derive(Debug, Clone)]
pub struct LeaseBuilder(Lease);

builds!(LeaseBuilder => Lease);

/// A Lease that nobody holds.
pub fn lease(namespace: &str, name: &str) -> LeaseBuilder {
    LeaseBuilder(Lease {
        metadata: named_in(namespace, name),
        spec: Some(LeaseSpec { lease_duration_seconds: Some(15), ..LeaseSpec::default() }),
    })
}

impl LeaseBuilder {
    metadata_sentences!();

    /// Held by this identity, renewed at this time.
    #[must_use]
    pub fn held_by(mut self, identity: &str, renewed: jiff::Timestamp) -> Self {
        let spec = self.0.spec.get_or_insert_default();
        spec.holder_identity = Some(identity.to_owned());
        spec.acquire_time.get_or_insert(MicroTime(renewed));
        spec.renew_time = Some(MicroTime(renewed));
        spec.lease_transitions.get_or_insert(0);
        self
    }

    /// Good for this long after each renewal.
    #[must_use]
    pub fn lasting_seconds(mut self, seconds: i32) -> Self {
        self.0.spec.get_or_insert_default().lease_duration_seconds = Some(seconds);
        self
    }
}

/// A `PersistentVolume` in the making.
#[derive(Debug, Clone)]
pub struct VolumeBuilder(PersistentVolume);

builds!(VolumeBuilder => PersistentVolume);

/// A `PersistentVolume` of one gibibyte behind a CSI driver.
pub fn persistent_volume(name: &str, driver: &str, handle: &str) -> VolumeBuilder {
    let source = CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        volume_handle: handle.to_owned(),
        ..CSIPersistentVolumeSource::default()
    };
    VolumeBuilder(PersistentVolume {
        metadata: named(name),
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            capacity: Some([("storage".to_owned(), Quantity("1Gi".to_owned()))].into()),
            csi: Some(source),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    })
}

impl VolumeBuilder {
    metadata_sentences!();

    /// Of this storage class.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.0.spec.get_or_insert_default().storage_class_name = Some(class.to_owned());
        self
    }
}
