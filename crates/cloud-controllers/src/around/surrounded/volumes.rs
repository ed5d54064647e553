//! Volumes, surrounded.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cloud_provider::{Changes, Error, NodeRef, Volume, VolumeRequest, Volumes};
use k8s_openapi::api::core::v1::PersistentVolume;

use super::super::operation::Operation;
use super::Around;

#[async_trait]
impl Volumes for Around<dyn Volumes> {
    async fn create(&self, request: &VolumeRequest, changes: &Changes) -> Result<Volume, Error> {
        self.make(Operation::CreateVolume, async { self.slot.create(request, changes).await }).await
    }

    async fn delete(&self, id: &str, changes: &Changes) -> Result<(), Error> {
        self.make(Operation::DeleteVolume, async { self.slot.delete(id, changes).await }).await
    }

    async fn attach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<String, Error> {
        self.make(Operation::AttachVolume, async { self.slot.attach(id, node, changes).await }).await
    }

    async fn detach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<(), Error> {
        self.make(Operation::DetachVolume, async { self.slot.detach(id, node, changes).await }).await
    }

    async fn resize(&self, id: &str, bytes: u64, changes: &Changes) -> Result<u64, Error> {
        self.make(Operation::ResizeVolume, async { self.slot.resize(id, bytes, changes).await }).await
    }

    async fn get(&self, id: &str) -> Result<Volume, Error> {
        self.make(Operation::GetVolume, async { self.slot.get(id).await }).await
    }

    async fn list(&self) -> Result<Vec<Volume>, Error> {
        self.make(Operation::ListVolumes, async { self.slot.list().await }).await
    }

    async fn labels_for(&self, volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>, Error> {
        self.make(Operation::LabelVolume, async { self.slot.labels_for(volume).await }).await
    }
}
