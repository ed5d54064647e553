//! Volumes: made under a token, tagged as ours, touched only with that tag.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::ownership::CLUSTER_TAG;
use cloud_provider::volumes::{PLACEHOLDER_NAME, zone_label};
use cloud_provider::well_known::labels;
use cloud_provider::{
    Change, Changes, ClusterIdentity, Decision, Error, NodeRef, Proof, Volume, VolumeRequest, Volumes,
};
use k8s_openapi::api::core::v1::PersistentVolume;

use super::all_pages;
use crate::api::{Api, Filter};
use crate::objects::{Disk, NewDisk, Tags};

/// The CSI driver whose volumes are this cloud's.
///
/// INVARIANT: it stands in `PersistentVolume` objects.
pub const DRIVER: &str = "csi.fake.cloud";

pub(super) struct FakeVolumes {
    api: Arc<dyn Api>,
    cluster: ClusterIdentity,
}

impl FakeVolumes {
    pub(super) fn new(api: Arc<dyn Api>, cluster: ClusterIdentity) -> Self {
        Self { api, cluster }
    }

    async fn disk(&self, id: &str) -> Result<Disk, Error> {
        self.api.get_volume(id).await.map_err(|error| error.during(format!("reading volume {id}")))
    }

    /// A volume that is to be changed, with the proof that it is ours.
    async fn ours(&self, id: &str) -> Result<(Disk, Proof), Error> {
        let disk = self.disk(id).await?;
        let tag = disk.tags.get(CLUSTER_TAG).map(String::as_str);
        let proof = Proof::by_cluster_tag(&self.cluster, tag)
            .map_err(|error| error.context(format!("checking whose volume {id} is")))?;
        Ok((disk, proof))
    }

    async fn make(&self, request: &VolumeRequest, changes: &Changes) -> Result<Disk, Error> {
        let id = self.cluster.id().map(ToString::to_string);
        let new = NewDisk {
            name: request.name.clone(),
            bytes: request.bytes,
            zones: request.zones.clone(),
            tags: id.clone().map(|id| (CLUSTER_TAG.to_owned(), id)).into_iter().collect::<Tags>(),
            token: Some(format!("{}/volume/{}", id.unwrap_or_default(), request.name)),
        };
        let change = Change::create("volume", &request.name).detail(format!("{} bytes", request.bytes));
        let attempt = format!("creating volume {}", request.name);
        changes
            .make(change, |permit| async move {
                self.api.create_volume(&new, &permit).await.map_err(|error| error.during(attempt))
            })
            .await
    }
}

#[async_trait]
impl Volumes for FakeVolumes {
    async fn create(&self, request: &VolumeRequest, changes: &Changes) -> Result<Volume, Error> {
        let token = Filter::Token(format!(
            "{}/volume/{}",
            self.cluster.id().map_or("", |id| id.as_str()),
            request.name
        ));
        let listed = self
            .api
            .list_volumes(&token, None)
            .await
            .map_err(|error| error.during(format!("looking for volume {}", request.name)))?;
        let disk = match listed.items.into_iter().next() {
            Some(disk) => disk,
            None => self.make(request, changes).await?,
        };
        let fits =
            disk.bytes >= request.bytes && (request.zones.is_empty() || request.zones.contains(&disk.zone));
        if fits {
            return Ok(volume(disk));
        }
        Err(Error::invalid_config(format!(
            "creating volume {}: {} has {} bytes in zone {} and does not fit the request",
            request.name, disk.id, disk.bytes, disk.zone
        )))
    }

    async fn delete(&self, id: &str, changes: &Changes) -> Result<(), Error> {
        let (disk, proof) = match self.ours(id).await {
            Err(error) if *error.decision() == Decision::NotFound => return Ok(()),
            other => other?,
        };
        let deleted = changes
            .make(Change::delete("volume", &disk.name, &proof), |permit| async move {
                let attempt = || format!("deleting volume {id}");
                self.api.delete_volume(id, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await;
        match deleted {
            Err(error) if *error.decision() == Decision::NotFound => Ok(()),
            other => other,
        }
    }

    async fn attach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<String, Error> {
        let (disk, proof) = self.ours(id).await?;
        let machine = &node.name;
        if let Some((_, device)) = disk.attached.filter(|(holder, _)| holder == machine) {
            return Ok(device);
        }
        let change = Change::update("volume", &disk.name, &proof).detail(format!("attach to {machine}"));
        let disk = changes
            .make(change, |permit| async move {
                let attempt = || format!("attaching volume {id} to {machine}");
                self.api.attach_volume(id, machine, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await?;
        disk.attached
            .map(|(_, device)| device)
            .ok_or_else(|| Error::other(format!("attaching volume {id}: the cloud named no device")))
    }

    async fn detach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<(), Error> {
        let (disk, proof) = match self.ours(id).await {
            // What is gone is attached to nothing.
            Err(error) if *error.decision() == Decision::NotFound => return Ok(()),
            other => other?,
        };
        let machine = &node.name;
        if disk.attached.is_none_or(|(holder, _)| holder != *machine) {
            return Ok(());
        }
        let change = Change::update("volume", &disk.name, &proof).detail(format!("detach from {machine}"));
        changes
            .make(change, |permit| async move {
                let attempt = || format!("detaching volume {id} from {machine}");
                self.api.detach_volume(id, machine, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await
            .map(drop)
    }

    async fn resize(&self, id: &str, bytes: u64, changes: &Changes) -> Result<u64, Error> {
        let (disk, proof) = self.ours(id).await?;
        if bytes <= disk.bytes {
            return Ok(disk.bytes);
        }
        let change = Change::update("volume", &disk.name, &proof).detail(format!("grow to {bytes} bytes"));
        let grown = changes
            .make(change, |permit| async move {
                let attempt = || format!("growing volume {id}");
                self.api.resize_volume(id, bytes, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await?;
        Ok(grown.bytes)
    }

    async fn get(&self, id: &str) -> Result<Volume, Error> {
        self.disk(id).await.map(volume)
    }

    async fn list(&self) -> Result<Vec<Volume>, Error> {
        let Some(id) = self.cluster.id() else { return Ok(Vec::new()) };
        let filter = &Filter::Tagged(CLUSTER_TAG.to_owned(), id.to_string());
        let disks = all_pages(|token| async move { self.api.list_volumes(filter, token.as_deref()).await })
            .await
            .map_err(|error| error.during("listing volumes"))?;
        let by_id: BTreeMap<String, Disk> = disks.into_iter().map(|disk| (disk.id.clone(), disk)).collect();
        Ok(by_id.into_values().map(volume).collect())
    }

    async fn labels_for(&self, pv: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>, Error> {
        let source = pv.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        let Some(source) = source.filter(|source| source.driver == DRIVER) else { return Ok(None) };
        if source.volume_handle == PLACEHOLDER_NAME {
            return Ok(Some(BTreeMap::new()));
        }
        let disk = self.disk(&source.volume_handle).await?;
        Ok(Some(BTreeMap::from([
            (labels::ZONE.to_owned(), zone_label(&[disk.zone])),
            (labels::REGION.to_owned(), disk.region),
        ])))
    }
}

fn volume(disk: Disk) -> Volume {
    Volume {
        id: disk.id,
        name: disk.name,
        bytes: disk.bytes,
        zones: vec![disk.zone],
        region: Some(disk.region),
        attachments: disk.attached.into_iter().collect(),
    }
}
