//! Lost answers, failures half-way, cancelled calls: whatever happens in between, the next pass converges.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::load_balancer::Spec;

use super::{routes, volumes};
use crate::conformance::Stage;
use crate::conformance::check::{Stop, Verdict, broken, checks, equal, promised, skip};
use crate::conformance::interruption::dropped_after;
use crate::conformance::objects::{addresses_of, node_uid, web};
use crate::conformance::stand_in::{Aim, Balancer, Calls, Contents, Fault, Manners, listed};

/// A call that is not finished after so many polls is not going to be.
const POLLS: usize = 2_000;

checks! { Interruption,
    a_lost_answer_makes_no_second_balancer =>
        "Whichever answer of an ensure is lost, the next ensure leaves exactly what an undisturbed one \
         makes.",
    a_failure_half_way_is_finished_by_the_next_ensure =>
        "Whichever write of an ensure fails, the next ensure leaves exactly what an undisturbed one makes.",
    a_lost_answer_to_a_delete_leaves_nothing =>
        "Whichever answer of a delete is lost, the next delete succeeds and leaves nothing.",
    a_cancelled_ensure_can_be_repeated =>
        "An ensure that is cancelled at any of its awaits is finished by the next one, without duplicates \
         and without leaks.",
    a_cancelled_ensure_can_be_deleted =>
        "An ensure that is cancelled at any of its awaits leaves nothing that a delete does not remove.",
    a_cancelled_delete_can_be_repeated =>
        "A delete that is cancelled at any of its awaits is finished by the next one.",
    a_cancelled_route_can_be_repeated =>
        "A create of a route that is cancelled at any of its awaits is finished by the next one, without \
         duplicates.",
    a_cancelled_volume_can_be_repeated =>
        "A create of a volume that is cancelled at any of its awaits is finished by the next one, without \
         duplicates.",
}

async fn a_lost_answer_makes_no_second_balancer(stage: &Stage) -> Verdict {
    each_write_of_an_ensure(stage, Fault::LostAnswer).await
}

async fn a_failure_half_way_is_finished_by_the_next_ensure(stage: &Stage) -> Verdict {
    each_write_of_an_ensure(stage, Fault::Unavailable).await
}

async fn each_write_of_an_ensure(stage: &Stage, fault: Fault) -> Verdict {
    let spec = scene(stage).await?;
    stage.ensured(&spec).await?;
    let undisturbed = Picture::of(&stage.contents().await?);
    for after in 0..stage.calls().await.writes {
        let stage = stage.afresh().await?;
        let spec = scene(&stage).await?;
        stage.stand_in.inject(fault, Aim::one(Calls::Writes, after)).await?;
        let _ = stage.ensure(&spec).await;
        stage.stand_in.heal().await;
        stage.ensured(&spec).await?;
        let seen = Picture::of(&stage.contents().await?);
        equal(&format!("the cloud after {fault:?} at write {}", after + 1), &seen, &undisturbed)?;
    }
    Ok(())
}

async fn a_lost_answer_to_a_delete_leaves_nothing(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    stage.ensured(&spec).await?;
    let ensuring = stage.calls().await.writes;
    stage.deleted(&spec).await?;
    for after in 0..stage.calls().await.writes - ensuring {
        let stage = stage.afresh().await?;
        let spec = scene(&stage).await?;
        let before = stage.contents().await?;
        stage.ensured(&spec).await?;
        stage.stand_in.inject(Fault::LostAnswer, Aim::one(Calls::Writes, after)).await?;
        let _ = stage.delete(&spec.identity, Some(&spec.service)).await;
        stage.stand_in.heal().await;
        stage.deleted(&spec).await?;
        nothing_left(&stage, &before).await?;
    }
    Ok(())
}

async fn a_cancelled_ensure_can_be_repeated(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    stage.ensured(&spec).await?;
    let undisturbed = Picture::of(&stage.contents().await?);
    for polls in 1..POLLS {
        let stage = stage.among(SLOW).await?;
        let spec = scene(&stage).await?;
        let (balancers, changes) = (stage.balancers()?, stage.gate.changes());
        let finished = dropped_after(polls, balancers.ensure(&spec, &changes)).await.is_some();
        stage.stand_in.settle().await;
        stage.ensured(&spec).await?;
        let seen = Picture::of(&stage.contents().await?);
        equal(&format!("the cloud after an ensure was dropped at poll {polls}"), &seen, &undisturbed)?;
        if finished {
            return enough(polls);
        }
    }
    endless()
}

async fn a_cancelled_ensure_can_be_deleted(stage: &Stage) -> Verdict {
    for polls in 1..POLLS {
        let stage = stage.among(SLOW).await?;
        let spec = scene(&stage).await?;
        let before = stage.contents().await?;
        let (balancers, changes) = (stage.balancers()?, stage.gate.changes());
        let finished = dropped_after(polls, balancers.ensure(&spec, &changes)).await.is_some();
        stage.stand_in.settle().await;
        stage.deleted(&spec).await?;
        nothing_left(&stage, &before).await?;
        if finished {
            return enough(polls);
        }
    }
    endless()
}

async fn a_cancelled_delete_can_be_repeated(stage: &Stage) -> Verdict {
    for polls in 1..POLLS {
        let stage = stage.among(SLOW).await?;
        let spec = scene(&stage).await?;
        let before = stage.contents().await?;
        stage.ensured(&spec).await?;
        let (balancers, changes) = (stage.balancers()?, stage.gate.changes());
        let finished = dropped_after(polls, balancers.delete(&spec.identity, Some(&spec.service), &changes))
            .await
            .is_some();
        stage.stand_in.settle().await;
        stage.deleted(&spec).await?;
        nothing_left(&stage, &before).await?;
        if finished {
            return enough(polls);
        }
    }
    endless()
}

async fn a_cancelled_route_can_be_repeated(stage: &Stage) -> Verdict {
    stage.routes()?;
    for polls in 1..POLLS {
        let stage = stage.among(SLOW).await?;
        let node = stage.start("node-a").await?;
        let destination = routes::network(&stage, 1)?;
        let route = cloud_provider::Route::new(destination).to_node(&node.name, addresses_of(&node));
        let (slot, changes, hint) = (stage.routes()?, stage.gate.changes(), node_uid(&node.name));
        let finished =
            dropped_after(polls, slot.create(&stage.cluster, &hint, &route, &changes)).await.is_some();
        stage.stand_in.settle().await;
        routes::create(&stage, &node, destination).await?;
        equal("routes in the cloud", &stage.contents().await?.routes().count(), &1)?;
        if finished {
            return enough(polls);
        }
    }
    endless()
}

async fn a_cancelled_volume_can_be_repeated(stage: &Stage) -> Verdict {
    stage.volumes()?;
    let request = volumes::request("pvc-1", volumes::GIB);
    for polls in 1..POLLS {
        let stage = stage.among(SLOW).await?;
        let (slot, changes) = (stage.volumes()?, stage.gate.changes());
        let finished = dropped_after(polls, slot.create(&request, &changes)).await.is_some();
        stage.stand_in.settle().await;
        volumes::create(&stage, &request).await?;
        equal("volumes in the cloud", &stage.contents().await?.volumes().count(), &1)?;
        if finished {
            return enough(polls);
        }
    }
    endless()
}

/// How the cloud behaves while calls are cancelled: each has two awaits at least.
const SLOW: Manners =
    Manners { latency: Duration::from_millis(1), construction: Duration::ZERO, lag: Duration::ZERO };

/// A call that never waited was never interrupted.
fn enough(polls: usize) -> Verdict {
    if polls > 1 { Ok(()) } else { skip("the call never waits, so it cannot be interrupted") }
}

fn endless() -> Verdict {
    broken(format!("not finished after {POLLS} polls"))
}

async fn scene(stage: &Stage) -> Result<Spec, Stop> {
    stage.balancers()?;
    let nodes = stage.start_all(&["node-a", "node-b"]).await?;
    stage.spec(web(), &nodes)
}

async fn nothing_left(stage: &Stage, before: &Contents) -> Verdict {
    let now = stage.contents().await?;
    let left = now.added_since(before);
    promised(left.is_empty(), || format!("left behind: {}", listed(&left)))
}

/// What is in a cloud, but for IDs and addresses, which differ from one making to the next.
#[derive(Debug, PartialEq)]
struct Picture {
    kinds: BTreeMap<String, usize>,
    balancers: Vec<Balancer>,
    untagged: usize,
}

impl Picture {
    fn of(contents: &Contents) -> Self {
        let anonymous = |balancer: &Balancer| Balancer {
            addresses: vec![format!("{} addresses", balancer.addresses.len())],
            ..balancer.clone()
        };
        Self {
            kinds: contents.shape().into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            balancers: contents.balancers().map(|(_, balancer)| anonymous(balancer)).collect(),
            untagged: contents
                .objects
                .iter()
                .filter(|object| object.tags.is_some() && object.cluster().is_none())
                .count(),
        }
    }
}
