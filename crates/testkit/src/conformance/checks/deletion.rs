//! Load balancers, to nothing again.

use cloud_provider::load_balancer::Spec;

use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, checks, equal, promised};
use crate::conformance::objects::{shop, web};
use crate::conformance::stand_in::{Aim, Calls, Contents, Fault, listed};

checks! { Deletion,
    delete_removes_everything => "A delete removes the balancer and everything that was made for it.",
    delete_twice_is_success => "A delete of what is already gone is success.",
    delete_of_nothing_is_success =>
        "A delete for a Service that never had a balancer is success, and writes nothing.",
    delete_works_without_the_service => "A delete needs the identity alone: the Service may be gone.",
    delete_leaves_other_services_alone =>
        "A delete of one Service's balancer leaves another's exactly as it was.",
    delete_removes_leftovers_of_a_failed_ensure =>
        "Whichever write of an ensure fails, a delete afterwards leaves nothing behind.",
    delete_removes_what_a_vanished_balancer_left =>
        "When somebody deleted the balancer by hand, a delete removes what is left of it.",
    a_delete_that_fails_says_so => "While the cloud fails, a delete is an error, never success.",
    a_failed_delete_can_be_repeated =>
        "Whichever write of a delete fails, the next delete leaves nothing behind.",
    a_service_can_come_back => "After a delete, an ensure makes the balancer again, complete.",
}

async fn delete_removes_everything(stage: &Stage) -> Verdict {
    let (spec, before) = scene(stage).await?;
    stage.ensured(&spec).await?;
    stage.deleted(&spec).await?;
    nothing_left(stage, &before).await
}

async fn delete_twice_is_success(stage: &Stage) -> Verdict {
    let (spec, before) = scene(stage).await?;
    stage.ensured(&spec).await?;
    stage.deleted(&spec).await?;
    let writes = stage.calls().await.writes;
    stage.deleted(&spec).await?;
    equal("writes of the second delete", &(stage.calls().await.writes - writes), &0)?;
    nothing_left(stage, &before).await
}

async fn delete_of_nothing_is_success(stage: &Stage) -> Verdict {
    let (spec, _) = scene(stage).await?;
    stage.deleted(&spec).await?;
    equal("writes that reached the cloud", &stage.calls().await.writes, &0)
}

async fn delete_works_without_the_service(stage: &Stage) -> Verdict {
    let (spec, before) = scene(stage).await?;
    stage.ensured(&spec).await?;
    stage.services.set(Vec::new());
    stage.delete(&spec.identity, None).await.must("deleting by identity")?;
    nothing_left(stage, &before).await
}

async fn delete_leaves_other_services_alone(stage: &Stage) -> Verdict {
    let (spec, _) = scene(stage).await?;
    let other = stage.spec(shop(), &[])?;
    stage.ensured(&other).await?;
    let before = stage.contents().await?;
    stage.ensured(&spec).await?;
    stage.deleted(&spec).await?;
    let after = stage.contents().await?;
    let damage = after.damage_since(&before);
    promised(damage.is_empty(), || damage.join("; "))?;
    nothing_left(stage, &before).await
}

async fn delete_removes_leftovers_of_a_failed_ensure(stage: &Stage) -> Verdict {
    let (spec, _) = scene(stage).await?;
    stage.ensured(&spec).await?;
    for after in 0..stage.calls().await.writes {
        let stage = stage.afresh().await?;
        let (spec, before) = scene(&stage).await?;
        stage.stand_in.inject(Fault::Unavailable, Aim::one(Calls::Writes, after)).await?;
        let _ = stage.ensure(&spec).await;
        stage.stand_in.heal().await;
        stage.deleted(&spec).await?;
        nothing_left(&stage, &before).await?;
    }
    Ok(())
}

async fn delete_removes_what_a_vanished_balancer_left(stage: &Stage) -> Verdict {
    let (spec, before) = scene(stage).await?;
    stage.ensured(&spec).await?;
    let (object, _) = stage.the_balancer().await?;
    stage.stand_in.remove(&object.id).await?;
    stage.deleted(&spec).await?;
    nothing_left(stage, &before).await
}

async fn a_delete_that_fails_says_so(stage: &Stage) -> Verdict {
    let (spec, before) = scene(stage).await?;
    stage.ensured(&spec).await?;
    for calls in [Calls::All, Calls::Reads, Calls::Writes] {
        stage.stand_in.inject(Fault::Unavailable, Aim::every(calls)).await?;
        let deleted = stage.delete(&spec.identity, Some(&spec.service)).await;
        stage.stand_in.heal().await;
        promised(deleted.is_err(), || format!("a delete succeeded while {calls:?} failed"))?;
    }
    stage.deleted(&spec).await?;
    nothing_left(stage, &before).await
}

async fn a_failed_delete_can_be_repeated(stage: &Stage) -> Verdict {
    let (spec, _) = scene(stage).await?;
    stage.ensured(&spec).await?;
    let ensuring = stage.calls().await.writes;
    stage.deleted(&spec).await?;
    for after in 0..stage.calls().await.writes - ensuring {
        let stage = stage.afresh().await?;
        let (spec, before) = scene(&stage).await?;
        stage.ensured(&spec).await?;
        stage.stand_in.inject(Fault::Unavailable, Aim::one(Calls::Writes, after)).await?;
        let _ = stage.delete(&spec.identity, Some(&spec.service)).await;
        stage.stand_in.heal().await;
        stage.deleted(&spec).await?;
        nothing_left(&stage, &before).await?;
    }
    Ok(())
}

async fn a_service_can_come_back(stage: &Stage) -> Verdict {
    let (spec, _) = scene(stage).await?;
    stage.ensured(&spec).await?;
    let (_, first) = stage.the_balancer().await?;
    stage.deleted(&spec).await?;
    stage.ensured(&spec).await?;
    let (_, second) = stage.the_balancer().await?;
    equal("the listeners", &second.listeners, &first.listeners)?;
    equal("the backends", &second.backends, &first.backends)
}

async fn scene(stage: &Stage) -> Result<(Spec, Contents), Stop> {
    stage.balancers()?;
    let nodes = stage.start_all(&["node-a", "node-b"]).await?;
    Ok((stage.spec(web(), &nodes)?, stage.contents().await?))
}

/// Nothing is in the cloud that was not there before.
async fn nothing_left(stage: &Stage, before: &Contents) -> Verdict {
    let now = stage.contents().await?;
    let left = now.added_since(before);
    promised(left.is_empty(), || format!("left behind: {}", listed(&left)))
}
