//! Volumes: what the volume controller, the PV-label webhook and CSI services stand on.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PersistentVolume;

use crate::changes::Changes;
use crate::error::Error;
use crate::instances::NodeRef;

/// The volume name that stands in a PV before its volume exists; such a PV gets no labels.
pub const PLACEHOLDER_NAME: &str = "placeholder-for-provisioning";

/// What separates the zones in the zone label of a volume that lives in several.
pub const ZONE_DELIMITER: &str = "__";

/// A cloud's block storage.
#[async_trait]
pub trait Volumes: Send + Sync + 'static {
    /// Makes a volume. Idempotent by name: asked again with the same name, it answers with the volume that is there,
    /// and refuses with `InvalidConfig` if that one does not fit the request.
    async fn create(&self, request: &VolumeRequest, changes: &Changes) -> Result<Volume, Error>;

    /// Removes a volume. One that is gone is success; one that is attached is refused with `InUse`.
    async fn delete(&self, id: &str, changes: &Changes) -> Result<(), Error>;

    /// Attaches a volume to a node and tells the device path there. Already attached there is success; attached
    /// elsewhere is refused with `InUse`, which names that node and device.
    async fn attach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<String, Error>;

    /// Detaches a volume from a node. Not attached there is success.
    async fn detach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<(), Error>;

    /// Grows a volume and tells its new size in bytes. Never shrinks: a smaller size is success and changes nothing.
    async fn resize(&self, id: &str, bytes: u64, changes: &Changes) -> Result<u64, Error>;

    /// One volume; `NotFound` if the cloud says that there is none.
    async fn get(&self, id: &str) -> Result<Volume, Error>;

    /// All volumes of this cluster.
    async fn list(&self) -> Result<Vec<Volume>, Error>;

    /// The labels that a PV should carry. `None`: the PV is not of this cloud. `NotFound`: it names a volume that does
    /// not exist.
    async fn labels_for(&self, volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>, Error>;
}

/// What is asked of a new volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeRequest {
    /// Its name, unique in the cluster: `pvc-<claim UID>`.
    pub name: String,
    /// At least this many bytes.
    pub bytes: u64,
    /// The zones in which it may be made; empty for any.
    pub zones: Vec<String>,
    /// The parameters of its StorageClass.
    pub parameters: BTreeMap<String, String>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// The cloud's own ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The zones it lives in.
    pub zones: Vec<String>,
    /// The region it lives in.
    pub region: Option<String>,
    /// The nodes that hold it, by name, with the device path.
    pub attachments: BTreeMap<String, String>,
}

/// The value of the zone label of a volume in these zones.
pub fn zone_label(zones: &[String]) -> String {
    let mut zones: Vec<&str> = zones.iter().map(String::as_str).collect();
    zones.sort_unstable();
    zones.dedup();
    zones.join(ZONE_DELIMITER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: IFACE-40
    #[test]
    fn the_names_of_the_volume_era_are_kept() {
        assert_eq!(PLACEHOLDER_NAME, "placeholder-for-provisioning");
        assert_eq!(zone_label(&["b".into(), "a".into(), "b".into()]), "a__b");
    }
}
