//! Whole stories: nothing leaks, nothing foreign is touched.

use super::volumes::{self, GIB, request};
use super::volumes_attached::{attach, detach};
use super::{routes, volumes::foreign};
use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, checks, equal, promised, skip};
use crate::conformance::objects::{WEB, bare, shop, web};
use crate::conformance::stage::THEIRS;
use crate::conformance::stand_in::{Foreign, listed};

checks! { Stories,
    a_whole_story_leaves_nothing_behind =>
        "After creates, changes and deletes of everything, the cloud is as empty as before.",
    a_whole_story_leaves_foreign_objects_as_they_were =>
        "Through creates, changes and deletes of everything, objects of others stay byte for byte as they \
         were.",
    every_change_of_a_story_is_told_to_the_gate =>
        "Over a whole story, every change that the gate admitted ended, and no more writes reached the \
         cloud than it admitted.",
}

async fn a_whole_story_leaves_nothing_behind(stage: &Stage) -> Verdict {
    let before = stage.contents().await?;
    story(stage).await?;
    let after = stage.contents().await?;
    let left = after.added_since(&before);
    promised(left.is_empty(), || format!("left behind: {}", listed(&left)))
}

async fn a_whole_story_leaves_foreign_objects_as_they_were(stage: &Stage) -> Verdict {
    let theirs = || Some(THEIRS.to_owned());
    let outside = "192.0.2.0/24".parse().or_else(|_| skip("no such network"))?;
    let mut planted = vec![
        Foreign::Balancer { name: "by-hand".to_owned(), cluster: None },
        Foreign::Balancer { name: "by-others".to_owned(), cluster: theirs() },
    ];
    if stage.routes().is_ok() {
        planted.push(Foreign::Route { destination: outside, cluster: None });
        planted.push(Foreign::Route { destination: routes::network(stage, 77)?, cluster: theirs() });
    }
    if stage.volumes().is_ok() {
        planted.push(foreign("pvc-foreign"));
        planted.push(Foreign::Volume { name: "by-hand".to_owned(), cluster: None });
    }
    for foreign in &planted {
        stage.stand_in.plant(foreign).await?;
    }
    let before = stage.contents().await?;
    promised(before.objects.len() >= planted.len(), || {
        "the stand-in does not show what it planted".to_owned()
    })?;
    story(stage).await?;
    let damage = stage.contents().await?.damage_since(&before);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn every_change_of_a_story_is_told_to_the_gate(stage: &Stage) -> Verdict {
    story(stage).await?;
    let admitted = stage.gate.admitted();
    let open: Vec<String> =
        admitted.iter().filter(|each| each.outcome.is_none()).map(|each| each.change.to_string()).collect();
    equal("changes that never ended", &open, &Vec::new())?;
    let writes = stage.calls().await.writes;
    promised(writes > 0 && writes <= admitted.len() as u64, || {
        format!("the gate admitted {} changes, and {writes} writes reached the cloud", admitted.len())
    })
}

/// Everything that a provider can do, once, back to nothing.
async fn story(stage: &Stage) -> Verdict {
    let told = [balancers(stage).await, routes_story(stage).await, volumes_story(stage).await];
    let (skipped, told): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|verdict| matches!(verdict, Err(Stop::Skipped(_))));
    if told.is_empty() {
        return skipped.into_iter().next().unwrap_or(Ok(()));
    }
    told.into_iter().collect()
}

async fn balancers(stage: &Stage) -> Verdict {
    stage.balancers()?;
    let nodes = stage.start_all(&["node-a", "node-b", "node-c"]).await?;
    let plain = stage.spec(web(), &nodes[..2])?;
    let other = stage.spec(shop(), &nodes)?;
    let changed = stage.spec(bare("web", WEB).port(8443).on_node_port(31443), &nodes[1..])?;
    stage.ensured(&plain).await?;
    stage.ensured(&other).await?;
    stage.ensured(&changed).await?;
    stage.update_backends(&plain).await.must("updating the backends")?;
    stage.ensured(&plain).await?;
    stage.deleted(&plain).await?;
    stage.ensured(&plain).await?;
    stage.delete(&plain.identity, None).await.must("deleting by identity")?;
    stage.deleted(&other).await
}

async fn routes_story(stage: &Stage) -> Verdict {
    stage.routes()?;
    let node = stage.start("node-r").await?;
    for number in [1, 2, 3] {
        routes::create(stage, &node, routes::network(stage, number)?).await?;
    }
    for route in routes::list(stage).await? {
        routes::delete(stage, &route).await.must("deleting a route")?;
    }
    Ok(())
}

async fn volumes_story(stage: &Stage) -> Verdict {
    stage.volumes()?;
    let node = stage.start("node-v").await?;
    let volume = volumes::create(stage, &request("pvc-1", GIB)).await?;
    attach(stage, &volume, &node).await.must("attaching")?;
    volumes::resize(stage, &volume.id, 2 * GIB).await?;
    detach(stage, &volume, &node).await.must("detaching")?;
    volumes::delete(stage, &volume.id).await.must("deleting a volume")
}
