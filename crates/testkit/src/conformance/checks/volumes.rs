//! Volumes: made, grown, listed, labelled, removed.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::volumes::zone_label;
use cloud_provider::well_known::labels;
use cloud_provider::{Decision, Error, Volume, VolumeRequest};
use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeSpec};

use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised};
use crate::conformance::stage::THEIRS;
use crate::conformance::stand_in::{Aim, Calls, Fault, Foreign, Seed};

/// One gibibyte: no cloud sells less.
pub(super) const GIB: u64 = 1 << 30;

checks! { Volumes,
    a_created_volume_is_what_was_asked_for =>
        "A new volume has the name that was asked for, at least the size, and one of the zones.",
    creating_a_volume_twice_is_one_volume =>
        "A create is idempotent by name: asked again, it answers with the volume that is there.",
    a_volume_that_does_not_fit_is_refused =>
        "A create under the name of a smaller volume is InvalidConfig, and changes nothing.",
    a_lost_answer_makes_no_second_volume =>
        "When the answer to a create is lost, a repeated create leaves exactly one volume.",
    a_deleted_volume_is_gone => "A deleted volume is gone, and deleting it again is success.",
    resizing_grows_and_never_shrinks =>
        "A resize grows a volume to at least the size asked for; a smaller size changes nothing.",
    a_missing_volume_is_not_found => "A volume that does not exist is NotFound.",
    a_failing_cloud_is_not_a_missing_volume => "While the cloud fails, a volume is not said to be NotFound.",
    only_volumes_of_this_cluster_are_listed =>
        "The list of volumes has all of this cluster's and nobody else's.",
    foreign_volumes_are_left_alone => "A volume with another cluster's tag is neither deleted nor grown.",
    a_volume_tells_its_labels => "The labels for a PV are the zone and the region of its volume.",
    a_foreign_pv_gets_no_labels =>
        "A PV of another kind gets None; one that names a missing volume gets NotFound.",
}

async fn a_created_volume_is_what_was_asked_for(stage: &Stage) -> Verdict {
    stage.volumes()?;
    let zone = stage.stand_in.start_instance(&Seed::named("node-a")).await?.zone;
    let zones: Vec<String> = Some(zone).filter(|zone| !zone.is_empty()).into_iter().collect();
    let asked = VolumeRequest { zones: zones.clone(), ..request("pvc-1", GIB) };
    let volume = create(stage, &asked).await?;
    equal("the name", &volume.name.as_str(), &"pvc-1")?;
    promised(volume.bytes >= GIB, || format!("asked for {GIB} bytes, got {}", volume.bytes))?;
    promised(zones.is_empty() || volume.zones == zones, || {
        format!("asked for {zones:?}, got {:?}", volume.zones)
    })?;
    promised(volume.attachments.is_empty(), || {
        format!("a new volume is attached: {:?}", volume.attachments)
    })?;
    let seen = stage.volumes()?.get(&volume.id).await.must("getting the volume")?;
    equal("the volume that get tells", &seen, &volume)
}

async fn creating_a_volume_twice_is_one_volume(stage: &Stage) -> Verdict {
    let first = create(stage, &request("pvc-1", GIB)).await?;
    for _ in 0..2 {
        equal("the volume of a repeated create", &create(stage, &request("pvc-1", GIB)).await?, &first)?;
    }
    equal("volumes in the cloud", &stage.contents().await?.volumes().count(), &1)
}

async fn a_volume_that_does_not_fit_is_refused(stage: &Stage) -> Verdict {
    create(stage, &request("pvc-1", GIB)).await?;
    let before = stage.contents().await?;
    match try_create(stage, &request("pvc-1", 4 * GIB)).await {
        Ok(volume) => broken(format!("asked for {} bytes under a taken name, got {volume:?}", 4 * GIB)),
        Err(error) => {
            equal("the decision", error.decision(), &Decision::InvalidConfig)?;
            let damage = stage.contents().await?.damage_since(&before);
            promised(damage.is_empty(), || damage.join("; "))
        }
    }
}

async fn a_lost_answer_makes_no_second_volume(stage: &Stage) -> Verdict {
    stage.volumes()?;
    stage.stand_in.inject(Fault::LostAnswer, Aim::one(Calls::Writes, 0)).await?;
    let _ = try_create(stage, &request("pvc-1", GIB)).await;
    stage.stand_in.heal().await;
    create(stage, &request("pvc-1", GIB)).await?;
    equal("volumes in the cloud", &stage.contents().await?.volumes().count(), &1)
}

async fn a_deleted_volume_is_gone(stage: &Stage) -> Verdict {
    let volume = create(stage, &request("pvc-1", GIB)).await?;
    let other = create(stage, &request("pvc-2", GIB)).await?;
    for _ in 0..2 {
        delete(stage, &volume.id).await.must("deleting a volume")?;
    }
    let contents = stage.contents().await?;
    let left: Vec<&str> = contents.volumes().map(|(object, _)| object.id.as_str()).collect();
    equal("volumes in the cloud", &left, &vec![other.id.as_str()])
}

async fn resizing_grows_and_never_shrinks(stage: &Stage) -> Verdict {
    let volume = create(stage, &request("pvc-1", 2 * GIB)).await?;
    let mut known = volume.bytes;
    for asked in [3 * GIB, GIB, 3 * GIB, 5 * GIB, 1] {
        let told = resize(stage, &volume.id, asked).await?;
        let seen = stage.volumes()?.get(&volume.id).await.must("getting the volume")?.bytes;
        promised(told >= asked && told == seen && seen >= known, || {
            format!("a volume of {known} bytes, asked for {asked}, was told to have {told} and has {seen}")
        })?;
        known = seen;
    }
    Ok(())
}

async fn a_missing_volume_is_not_found(stage: &Stage) -> Verdict {
    let volume = create(stage, &request("pvc-1", GIB)).await?;
    delete(stage, &volume.id).await.must("deleting a volume")?;
    match stage.volumes()?.get(&volume.id).await {
        Ok(volume) => broken(format!("a deleted volume is told as {volume:?}")),
        Err(error) => equal("the decision", error.decision(), &Decision::NotFound),
    }
}

async fn a_failing_cloud_is_not_a_missing_volume(stage: &Stage) -> Verdict {
    let volume = create(stage, &request("pvc-1", GIB)).await?;
    for fault in [Fault::Unavailable, Fault::TimesOut, Fault::Unauthorized] {
        stage.stand_in.inject(fault, Aim::every(Calls::All)).await?;
        let got = stage.volumes()?.get(&volume.id).await;
        let listed = stage.volumes()?.list().await;
        stage.stand_in.heal().await;
        match got {
            Ok(volume) => broken(format!("under {fault:?} get tells {volume:?}")),
            Err(error) => {
                promised(error.decision() != &Decision::NotFound, || format!("under {fault:?}: {error:?}"))
            }
        }?;
        promised(listed.is_err(), || format!("under {fault:?} the list is {listed:?}"))?;
    }
    Ok(())
}

async fn only_volumes_of_this_cluster_are_listed(stage: &Stage) -> Verdict {
    stage.volumes()?;
    stage.stand_in.plant(&foreign("pvc-foreign")).await?;
    let mut expected = BTreeSet::new();
    for index in 0..stage.stand_in.page_size().map_or(3, |size| (size + 1).min(30)) {
        let name = format!("pvc-{index}");
        create(stage, &request(&name, GIB)).await?;
        expected.insert(name);
    }
    let listed = stage.volumes()?.list().await.must("listing the volumes")?;
    equal("the names", &listed.into_iter().map(|volume| volume.name).collect(), &expected)
}

async fn foreign_volumes_are_left_alone(stage: &Stage) -> Verdict {
    stage.volumes()?;
    let id = stage.stand_in.plant(&foreign("pvc-foreign")).await?;
    let before = stage.contents().await?;
    let volumes = stage.volumes()?;
    let _ = delete(stage, &id).await;
    let _ = volumes.resize(&id, 100 * GIB, &stage.gate.changes()).await;
    let damage = stage.contents().await?.damage_since(&before);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn a_volume_tells_its_labels(stage: &Stage) -> Verdict {
    let volume = create(stage, &request("pvc-1", GIB)).await?;
    let pv = stage.stand_in.persistent_volume(&volume.id)?;
    let told = stage.volumes()?.labels_for(&pv).await.must("asking for labels")?;
    let mut expected = BTreeMap::new();
    if !volume.zones.is_empty() {
        expected.insert(labels::ZONE.to_owned(), zone_label(&volume.zones));
    }
    if let Some(region) = volume.region {
        expected.insert(labels::REGION.to_owned(), region);
    }
    let told = told.unwrap_or_default();
    let missing: Vec<_> = expected.iter().filter(|(key, value)| told.get(*key) != Some(value)).collect();
    promised(missing.is_empty(), || format!("the volume is at {missing:?}, and its labels are {told:?}"))
}

async fn a_foreign_pv_gets_no_labels(stage: &Stage) -> Verdict {
    let volumes = stage.volumes()?;
    let host_path = PersistentVolume {
        spec: Some(PersistentVolumeSpec {
            host_path: Some(HostPathVolumeSource { path: "/data".to_owned(), type_: None }),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    };
    let told = volumes.labels_for(&host_path).await.must("asking for the labels of a foreign PV")?;
    promised(told.is_none(), || format!("a PV of the host's own disk gets {told:?}"))?;
    let volume = create(stage, &request("pvc-1", GIB)).await?;
    let pv = stage.stand_in.persistent_volume(&volume.id)?;
    delete(stage, &volume.id).await.must("deleting a volume")?;
    match volumes.labels_for(&pv).await {
        Ok(told) => broken(format!("a PV of a missing volume gets {told:?}")),
        Err(error) => equal("the decision", error.decision(), &Decision::NotFound),
    }
}

pub(super) fn foreign(name: &str) -> Foreign {
    Foreign::Volume { name: name.to_owned(), cluster: Some(THEIRS.to_owned()) }
}

pub(super) fn request(name: &str, bytes: u64) -> VolumeRequest {
    VolumeRequest { name: name.to_owned(), bytes, ..VolumeRequest::default() }
}

async fn try_create(stage: &Stage, request: &VolumeRequest) -> Result<Volume, Error> {
    let Ok(volumes) = stage.volumes() else { return Err(Error::not_implemented("creating a volume")) };
    stage.persist(async || volumes.create(request, &stage.gate.changes()).await).await
}

pub(super) async fn create(stage: &Stage, request: &VolumeRequest) -> Result<Volume, Stop> {
    stage.volumes()?;
    try_create(stage, request).await.must("creating a volume")
}

pub(super) async fn delete(stage: &Stage, id: &str) -> Result<(), Error> {
    let Ok(volumes) = stage.volumes() else { return Err(Error::not_implemented("deleting a volume")) };
    stage.persist(async || volumes.delete(id, &stage.gate.changes()).await).await
}

pub(super) async fn resize(stage: &Stage, id: &str, bytes: u64) -> Result<u64, Stop> {
    let volumes = stage.volumes()?;
    stage
        .persist(async || volumes.resize(id, bytes, &stage.gate.changes()).await)
        .await
        .must("resizing a volume")
}
