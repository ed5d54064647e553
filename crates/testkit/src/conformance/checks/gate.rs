//! Every write passes the gate, and ends as it is told.

use std::time::Duration;

use cloud_provider::{Decision, Error, Outcome, Verb};

use super::routes;
use super::volumes::{self, GIB, request};
use super::volumes_attached::{attach, detach};
use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised};
use crate::conformance::context::Mode;
use crate::conformance::objects::{WEB, bare, by_id, web};
use crate::conformance::stand_in::{Aim, Calls, Fault, Instance};

checks! { Gate,
    a_closed_gate_lets_no_balancer_write_through =>
        "While the gate is closed, no create, update or delete of a balancer reaches the cloud, and each is \
         answered Fenced.",
    a_closed_gate_lets_no_route_write_through =>
        "While the gate is closed, no create or delete of a route reaches the cloud, and each is answered \
         Fenced.",
    a_closed_gate_lets_no_volume_write_through =>
        "While the gate is closed, no change of a volume reaches the cloud, and each is answered Fenced.",
    a_lease_lost_half_way_stops_the_next_write =>
        "However far an ensure or a delete has come, not one write reaches the cloud that the gate did not \
         admit.",
    every_admitted_change_is_told_as_made =>
        "Each change that the gate admitted ends exactly once, as made, with a kind and a name.",
    a_write_that_failed_is_told_as_failed =>
        "A change whose call failed ends as failed, and the caller learns of it.",
    a_cancelled_write_is_told_as_interrupted => "A change whose caller was cancelled ends as interrupted.",
    observe_mode_records_and_writes_nothing =>
        "In observe mode the first change is recorded, the pass ends, and nothing reaches the cloud.",
    observe_mode_is_quiet_when_nothing_is_to_do =>
        "In observe mode an ensure that has nothing to do succeeds and records nothing.",
    the_gate_is_not_asked_for_reads => "Reads ask the gate for nothing and work while it is closed.",
}

async fn a_closed_gate_lets_no_balancer_write_through(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.gate.set(Mode::Closed);
    fenced("ensure", stage.ensure(&spec).await)?;
    equal("writes behind a closed gate", &stage.calls().await.writes, &0)?;
    stage.gate.set(Mode::Open);
    stage.ensured(&spec).await?;
    let (before, writes) = (stage.contents().await?, stage.calls().await.writes);
    stage.gate.set(Mode::Closed);
    let changed = stage.spec(bare("web", WEB).port(8443).on_node_port(31443), &nodes[..1])?;
    fenced("ensure of a change", stage.ensure(&changed).await)?;
    fenced("update", stage.update_backends(&changed).await)?;
    fenced("delete", stage.delete(&spec.identity, Some(&spec.service)).await)?;
    fenced("delete by identity", stage.delete(&spec.identity, None).await)?;
    equal("writes behind a closed gate", &(stage.calls().await.writes - writes), &0)?;
    let damage = stage.contents().await?.damage_since(&before);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn a_closed_gate_lets_no_route_write_through(stage: &Stage) -> Verdict {
    stage.routes()?;
    let node = stage.start("node-a").await?;
    routes::create(stage, &node, routes::network(stage, 1)?).await?;
    let listed = routes::list(stage).await?;
    let writes = stage.calls().await.writes;
    stage.gate.set(Mode::Closed);
    let route = cloud_provider::Route::new(routes::network(stage, 2)?).to_node("node-a", Vec::new());
    fenced("create", stage.routes()?.create(&stage.cluster, "hint", &route, &stage.gate.changes()).await)?;
    for route in &listed {
        fenced("delete", routes::delete(stage, route).await)?;
    }
    equal("writes behind a closed gate", &(stage.calls().await.writes - writes), &0)
}

async fn a_closed_gate_lets_no_volume_write_through(stage: &Stage) -> Verdict {
    stage.volumes()?;
    let node = stage.start("node-a").await?;
    let held = volumes::create(stage, &request("pvc-held", GIB)).await?;
    let free = volumes::create(stage, &request("pvc-free", GIB)).await?;
    attach(stage, &held, &node).await.must("attaching")?;
    let writes = stage.calls().await.writes;
    stage.gate.set(Mode::Closed);
    let (slot, changes) = (stage.volumes()?, stage.gate.changes());
    fenced("create", slot.create(&request("pvc-new", GIB), &changes).await)?;
    fenced("resize", slot.resize(&free.id, 9 * GIB, &changes).await)?;
    fenced("attach", slot.attach(&free.id, &by_id(&node), &changes).await)?;
    fenced("detach", detach(stage, &held, &node).await)?;
    fenced("delete", volumes::delete(stage, &free.id).await)?;
    equal("writes behind a closed gate", &(stage.calls().await.writes - writes), &0)
}

async fn a_lease_lost_half_way_stops_the_next_write(stage: &Stage) -> Verdict {
    nodes(stage).await?;
    for admitted in 0..32 {
        let stage = stage.afresh().await?;
        let nodes = nodes(&stage).await?;
        let spec = stage.spec(web(), &nodes)?;
        stage.gate.set(Mode::ClosesAfter(admitted));
        let ensured = stage.ensure(&spec).await;
        within(&stage).await?;
        stage.gate.set(Mode::Open);
        stage.ensured(&spec).await?;
        stage.gate.set(Mode::ClosesAfter(admitted));
        let deleted = stage.delete(&spec.identity, Some(&spec.service)).await;
        within(&stage).await?;
        if ensured.is_ok() && deleted.is_ok() {
            return Ok(());
        }
    }
    broken("an ensure needs more than 30 changes")
}

async fn every_admitted_change_is_told_as_made(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    stage.update_backends(&stage.spec(web(), &nodes[..1])?).await.must("updating the backends")?;
    stage.deleted(&spec).await?;
    let admitted = stage.gate.admitted();
    promised(admitted.iter().any(|each| each.change.verb() == Verb::Create), || {
        "the gate saw no create".to_owned()
    })?;
    promised(admitted.iter().any(|each| each.change.verb() == Verb::Delete), || {
        "the gate saw no delete".to_owned()
    })?;
    for each in &admitted {
        promised(each.outcome == Some(Outcome::Made), || format!("{}: {:?}", each.change, each.outcome))?;
        promised(!each.change.kind().is_empty() && !each.change.name().is_empty(), || {
            format!("a change is described as {:?}", each.change.to_string())
        })?;
    }
    equal("ends of changes that were not under way", &stage.gate.strays(), &Vec::new())?;
    within(stage).await
}

async fn a_write_that_failed_is_told_as_failed(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    for after in 0..stage.calls().await.writes {
        let stage = stage.afresh().await?;
        let spec = stage.spec(web(), &self::nodes(&stage).await?)?;
        stage.stand_in.inject(Fault::Unavailable, Aim { calls: Calls::Writes, after, times: None }).await?;
        let ensured = stage.ensure(&spec).await;
        let told = stage.gate.admitted();
        promised(told.iter().any(|each| matches!(each.outcome, Some(Outcome::Failed(_)))), || {
            format!("write {} failed, and the gate was told {told:?}", after + 1)
        })?;
        promised(ensured.is_err(), || format!("write {} failed for good, and ensure succeeded", after + 1))?;
    }
    Ok(())
}

async fn a_cancelled_write_is_told_as_interrupted(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.balancers()?;
    stage.stand_in.inject(Fault::Hangs, Aim::every(Calls::Writes)).await?;
    let changes = stage.gate.changes();
    let admitted = async {
        while stage.gate.admitted().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = stage.balancers()?.ensure(&spec, &changes) => {
            return broken(format!("an ensure ended while its writes hung: {ended:?}"));
        }
        waited = tokio::time::timeout(Duration::from_secs(10), admitted) => {
            promised(waited.is_ok(), || "a write was under way, and the gate was never asked".to_owned())?;
        }
    }
    let outcomes: Vec<_> = stage.gate.admitted().into_iter().map(|each| each.outcome).collect();
    equal("how the admitted changes ended", &outcomes, &vec![Some(Outcome::Interrupted)])
}

async fn observe_mode_records_and_writes_nothing(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.gate.set(Mode::Observe);
    recorded("ensure", stage.ensure(&spec).await)?;
    equal("changes recorded by one pass", &stage.gate.recorded().len(), &1)?;
    equal("writes in observe mode", &stage.calls().await.writes, &0)?;
    stage.gate.set(Mode::Open);
    stage.ensured(&spec).await?;
    let writes = stage.calls().await.writes;
    stage.gate.set(Mode::Observe);
    recorded("update", stage.update_backends(&stage.spec(web(), &nodes[..1])?).await)?;
    recorded("delete", stage.delete(&spec.identity, Some(&spec.service)).await)?;
    equal("changes recorded by three passes", &stage.gate.recorded().len(), &3)?;
    equal("writes in observe mode", &(stage.calls().await.writes - writes), &0)
}

async fn observe_mode_is_quiet_when_nothing_is_to_do(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    stage.gate.set(Mode::Observe);
    stage.ensured(&spec).await?;
    stage.update_backends(&spec).await.must("updating to the same backends")?;
    let recorded: Vec<String> = stage.gate.recorded().iter().map(ToString::to_string).collect();
    equal("what was recorded", &recorded, &Vec::new())
}

async fn the_gate_is_not_asked_for_reads(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    stage.gate.forget();
    stage.gate.set(Mode::Closed);
    stage.balancers()?.get(&spec).await.must("a get behind a closed gate")?;
    stage.balancers()?.list_owned(&stage.cluster).await.must("a list behind a closed gate")?;
    if stage.instances().is_ok() {
        stage.look_up(&[by_id(&nodes[0])]).await?;
    }
    equal("what the gate turned away", &stage.gate.refused().len(), &0)
}

async fn nodes(stage: &Stage) -> Result<Vec<Instance>, Stop> {
    stage.balancers()?;
    stage.start_all(&["node-a", "node-b"]).await
}

/// No more writes reached the cloud than the gate admitted: one change is one write.
async fn within(stage: &Stage) -> Verdict {
    let (admitted, writes) = (stage.gate.admitted().len() as u64, stage.calls().await.writes);
    promised(writes <= admitted, || {
        format!("the gate admitted {admitted} changes, and {writes} writes reached the cloud")
    })
}

fn fenced<T>(what: &str, answered: Result<T, Error>) -> Verdict {
    match answered {
        Ok(_) => broken(format!("{what} succeeded behind a closed gate")),
        Err(error) => equal(&format!("the decision of {what}"), error.decision(), &Decision::Fenced),
    }
}

fn recorded<T>(what: &str, answered: Result<T, Error>) -> Verdict {
    match answered {
        Ok(_) => broken(format!("{what} succeeded in observe mode")),
        Err(error) => equal(&format!("the decision of {what}"), error.decision(), &Decision::Recorded),
    }
}
