//! Volumes on nodes: attached, held, detached.

use std::collections::BTreeSet;

use cloud_provider::{Decision, Error, Volume};

use super::volumes::{GIB, create, delete, request};
use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised};
use crate::conformance::objects::by_id;
use crate::conformance::stand_in::Instance;

checks! { Volumes,
    an_attached_volume_tells_node_and_device =>
        "An attached volume names its node and the device path that attach told.",
    attaching_twice_is_success =>
        "Attaching a volume to the node that holds it is success, with the same device path.",
    a_volume_held_elsewhere_is_in_use =>
        "Attaching a volume that another node holds is InUse and names that node; it stays where it is.",
    detaching_frees_a_volume =>
        "A detached volume can be attached elsewhere, and detaching it again is success.",
    detaching_from_another_node_changes_nothing =>
        "Detaching a volume from a node that does not hold it is success, and leaves it where it is.",
    an_attached_volume_is_not_deleted => "Deleting an attached volume is InUse, and the volume stays.",
}

async fn an_attached_volume_tells_node_and_device(stage: &Stage) -> Verdict {
    let (volume, [a, _]) = &scene(stage).await?;
    let device = attach(stage, volume, a).await.must("attaching")?;
    promised(!device.is_empty(), || "attach told no device path".to_owned())?;
    let seen = stage.volumes()?.get(&volume.id).await.must("getting the volume")?;
    equal("the attachments", &seen.attachments, &[(a.name.clone(), device)].into())?;
    held_by(stage, &["node-a"]).await
}

async fn attaching_twice_is_success(stage: &Stage) -> Verdict {
    let (volume, [a, _]) = &scene(stage).await?;
    let first = attach(stage, volume, a).await.must("attaching")?;
    equal("the device path", &attach(stage, volume, a).await.must("attaching again")?, &first)?;
    held_by(stage, &["node-a"]).await
}

async fn a_volume_held_elsewhere_is_in_use(stage: &Stage) -> Verdict {
    let (volume, [a, b]) = &scene(stage).await?;
    let device = attach(stage, volume, a).await.must("attaching")?;
    let refused = attach(stage, volume, b).await;
    held_by(stage, &["node-a"]).await?;
    match refused {
        Ok(device) => broken(format!("a volume that node-a holds was attached to node-b at {device}")),
        Err(error) => match error.decision() {
            Decision::InUse { by, device: at } => {
                equal("who holds it", by, &Some("node-a".to_owned()))?;
                promised(at.as_ref().is_none_or(|at| *at == device), || {
                    format!("it is at {device}, told is {at:?}")
                })
            }
            other => broken(format!("about a volume that another node holds: {other:?}")),
        },
    }
}

async fn detaching_frees_a_volume(stage: &Stage) -> Verdict {
    let (volume, [a, b]) = &scene(stage).await?;
    attach(stage, volume, a).await.must("attaching")?;
    for _ in 0..2 {
        detach(stage, volume, a).await.must("detaching")?;
        held_by(stage, &[]).await?;
    }
    attach(stage, volume, b).await.must("attaching elsewhere")?;
    held_by(stage, &["node-b"]).await
}

async fn detaching_from_another_node_changes_nothing(stage: &Stage) -> Verdict {
    let (volume, [a, b]) = &scene(stage).await?;
    attach(stage, volume, a).await.must("attaching")?;
    detach(stage, volume, b).await.must("detaching from a node that does not hold it")?;
    held_by(stage, &["node-a"]).await
}

async fn an_attached_volume_is_not_deleted(stage: &Stage) -> Verdict {
    let (volume, [a, _]) = &scene(stage).await?;
    attach(stage, volume, a).await.must("attaching")?;
    let deleted = delete(stage, &volume.id).await;
    equal("volumes in the cloud", &stage.contents().await?.volumes().count(), &1)?;
    match deleted {
        Ok(()) => broken("a delete of an attached volume succeeded"),
        Err(error) => promised(matches!(error.decision(), Decision::InUse { .. }), || format!("{error:?}")),
    }?;
    detach(stage, volume, a).await.must("detaching")?;
    delete(stage, &volume.id).await.must("deleting a detached volume")
}

async fn scene(stage: &Stage) -> Result<(Volume, [Instance; 2]), Stop> {
    stage.volumes()?;
    let nodes = [stage.start("node-a").await?, stage.start("node-b").await?];
    Ok((create(stage, &request("pvc-1", GIB)).await?, nodes))
}

pub(super) async fn attach(stage: &Stage, volume: &Volume, node: &Instance) -> Result<String, Error> {
    let Ok(volumes) = stage.volumes() else { return Err(Error::not_implemented("attaching a volume")) };
    let node = by_id(node);
    stage.persist(async || volumes.attach(&volume.id, &node, &stage.gate.changes()).await).await
}

pub(super) async fn detach(stage: &Stage, volume: &Volume, node: &Instance) -> Result<(), Error> {
    let Ok(volumes) = stage.volumes() else { return Err(Error::not_implemented("detaching a volume")) };
    let node = by_id(node);
    stage.persist(async || volumes.detach(&volume.id, &node, &stage.gate.changes()).await).await
}

/// The volume is held by exactly these nodes, as the cloud itself shows.
async fn held_by(stage: &Stage, nodes: &[&str]) -> Verdict {
    let contents = stage.contents().await?;
    let seen: BTreeSet<String> =
        contents.volumes().flat_map(|(_, volume)| volume.attached_to.clone()).collect();
    equal("the nodes that hold the volume", &seen, &nodes.iter().map(ToString::to_string).collect())
}
