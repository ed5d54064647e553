//! Volumes that are doubled, lost, shrunk, or torn from their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::ownership::CLUSTER_TAG;
use cloud_provider::{Change, Changes, Decision, Error, NodeRef, Permit, Volume, VolumeRequest, Volumes};
use k8s_openapi::api::core::v1::PersistentVolume;
use provider_fake::objects::{Disk, NewDisk};
use provider_fake::{Api, ApiError, Filter, Listed, World};

use super::between::Bend;
use super::gate::ajar;
use super::outside::{Twist, twisted};
use super::{Flaw, between, built, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        outside("names volumes after their ID", "a_created_volume_is_what_was_asked_for", Renames),
        outside("hands out a volume that is too small", "a_volume_that_does_not_fit_is_refused", Lax),
        outside("says that it resized", "resizing_grows_and_never_shrinks", Boasts),
        outside(
            "calls a missing volume a failure",
            "a_missing_volume_is_not_found",
            Lost(Decision::NotFound, Decision::Other),
        ),
        outside(
            "calls a failure a missing volume",
            "a_failing_cloud_is_not_a_missing_volume",
            Lost(Decision::Other, Decision::NotFound),
        ),
        outside("tells no labels", "a_volume_tells_its_labels", Unlabelled),
        outside("labels what is not its own", "a_foreign_pv_gets_no_labels", Unlabelled),
        outside("tells a device of its own", "an_attached_volume_tells_node_and_device", OneDevice),
        outside("fails when it is attached already", "attaching_twice_is_success", Once),
        outside("says that it attached what another holds", "a_volume_held_elsewhere_is_in_use", Shares),
        outside("detaches nothing", "detaching_frees_a_volume", Clings),
        outside("detaches from whoever holds it", "detaching_from_another_node_changes_nothing", Tears),
        outside("detaches in order to delete", "an_attached_volume_is_not_deleted", TearsAndDeletes),
        between("makes a volume twice", "creating_a_volume_twice_is_one_volume", Doubles),
        between(
            "makes a volume again when the answer is lost",
            "a_lost_answer_makes_no_second_volume",
            Doubles,
        ),
        between("makes a cancelled volume twice", "a_cancelled_volume_can_be_repeated", Doubles),
        between("deletes nothing", "a_deleted_volume_is_gone", Keeps),
        between("lists foreign volumes", "only_volumes_of_this_cluster_are_listed", ListsAll),
        built(
            "deletes foreign volumes",
            "foreign_volumes_are_left_alone",
            Arc::new(|built, world| {
                let twist: Arc<dyn Twist> = Arc::new(Ruthless(world.clone()));
                built.map(|cloud| twisted(cloud, &twist))
            }),
        ),
    ]
}

struct Renames;

#[async_trait]
impl Twist for Renames {
    async fn create_volume(
        &self,
        inner: &dyn Volumes,
        request: &VolumeRequest,
        changes: &Changes,
    ) -> Result<Volume, Error> {
        inner.create(request, changes).await.map(|volume| Volume { name: volume.id.clone(), ..volume })
    }
}

struct Lax;

#[async_trait]
impl Twist for Lax {
    async fn create_volume(
        &self,
        inner: &dyn Volumes,
        request: &VolumeRequest,
        changes: &Changes,
    ) -> Result<Volume, Error> {
        match inner.create(request, changes).await {
            Err(error) if error.decision() == &Decision::InvalidConfig => {
                inner.create(&VolumeRequest { bytes: 1, ..request.clone() }, changes).await
            }
            other => other,
        }
    }
}

struct Boasts;

#[async_trait]
impl Twist for Boasts {
    async fn resize(
        &self,
        inner: &dyn Volumes,
        id: &str,
        bytes: u64,
        changes: &Changes,
    ) -> Result<u64, Error> {
        inner.resize(id, bytes, changes).await.map(|_| bytes)
    }
}

/// Says one thing and means another.
struct Lost(Decision, Decision);

#[async_trait]
impl Twist for Lost {
    async fn get_volume(&self, inner: &dyn Volumes, id: &str) -> Result<Volume, Error> {
        inner.get(id).await.map_err(|error| {
            if error.decision() == &self.0 { Error::new(self.1.clone(), "reading a volume") } else { error }
        })
    }
}

struct Unlabelled;

#[async_trait]
impl Twist for Unlabelled {
    async fn labels_for(
        &self,
        _: &dyn Volumes,
        _: &PersistentVolume,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        Ok(Some(BTreeMap::new()))
    }
}

struct OneDevice;

#[async_trait]
impl Twist for OneDevice {
    async fn attach(
        &self,
        inner: &dyn Volumes,
        id: &str,
        node: &NodeRef,
        changes: &Changes,
    ) -> Result<String, Error> {
        inner.attach(id, node, changes).await.map(|_| "/dev/one".to_owned())
    }
}

struct Once;

#[async_trait]
impl Twist for Once {
    async fn attach(
        &self,
        inner: &dyn Volumes,
        id: &str,
        node: &NodeRef,
        changes: &Changes,
    ) -> Result<String, Error> {
        if inner.get(id).await?.attachments.contains_key(&node.name) {
            return Err(Error::in_use(Some(node.name.clone()), None, "attaching a volume"));
        }
        inner.attach(id, node, changes).await
    }
}

struct Shares;

#[async_trait]
impl Twist for Shares {
    async fn attach(
        &self,
        inner: &dyn Volumes,
        id: &str,
        node: &NodeRef,
        changes: &Changes,
    ) -> Result<String, Error> {
        match inner.attach(id, node, changes).await {
            Err(error) if matches!(error.decision(), Decision::InUse { .. }) => Ok("/dev/shared".to_owned()),
            other => other,
        }
    }
}

struct Clings;

#[async_trait]
impl Twist for Clings {
    async fn detach(&self, _: &dyn Volumes, _: &str, _: &NodeRef, _: &Changes) -> Result<(), Error> {
        Ok(())
    }
}

/// Detaches a volume from whoever holds it.
async fn tear(inner: &dyn Volumes, id: &str, changes: &Changes) -> Result<(), Error> {
    for name in inner.get(id).await?.attachments.into_keys() {
        inner.detach(id, &NodeRef { name, ..NodeRef::default() }, changes).await?;
    }
    Ok(())
}

struct Tears;

#[async_trait]
impl Twist for Tears {
    async fn detach(
        &self,
        inner: &dyn Volumes,
        id: &str,
        _: &NodeRef,
        changes: &Changes,
    ) -> Result<(), Error> {
        tear(inner, id, changes).await
    }
}

struct TearsAndDeletes;

#[async_trait]
impl Twist for TearsAndDeletes {
    async fn delete_volume(&self, inner: &dyn Volumes, id: &str, changes: &Changes) -> Result<(), Error> {
        let _ = tear(inner, id, changes).await;
        inner.delete(id, changes).await
    }
}

struct Doubles;

#[async_trait]
impl Bend for Doubles {
    async fn list_volumes(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Disk>, ApiError> {
        match filter {
            Filter::Token(_) | Filter::Named(_) => Ok(Listed { items: Vec::new(), next: None }),
            _ => api.list_volumes(filter, page).await,
        }
    }

    async fn create_volume(&self, api: &dyn Api, new: &NewDisk, permit: &Permit) -> Result<Disk, ApiError> {
        api.create_volume(&NewDisk { token: None, ..new.clone() }, permit).await
    }
}

struct Keeps;

#[async_trait]
impl Bend for Keeps {
    async fn delete_volume(&self, _: &dyn Api, _: &str, _: &Permit) -> Result<(), ApiError> {
        Ok(())
    }
}

struct ListsAll;

#[async_trait]
impl Bend for ListsAll {
    async fn list_volumes(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Disk>, ApiError> {
        let all = matches!(filter, Filter::Tagged(key, _) if key == CLUSTER_TAG);
        api.list_volumes(if all { &Filter::All } else { filter }, page).await
    }
}

struct Ruthless(World);

#[async_trait]
impl Twist for Ruthless {
    async fn delete_volume(&self, _: &dyn Volumes, id: &str, _: &Changes) -> Result<(), Error> {
        let api = &self.0.session("");
        let changes = Changes::through(ajar());
        let made = changes.make(Change::create("sweep", id), |permit| async move {
            api.delete_volume(id, &permit).await.map_err(|error| error.during("sweeping"))
        });
        made.await
    }
}
