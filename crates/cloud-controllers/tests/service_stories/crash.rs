//! A process that dies at any write, of the API server or of the cloud: the next one ends where it would have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cloud_controllers::service::Settings;
use k8s_openapi::api::core::v1::Service;
use provider_fake::{Config, Effect, Fault, Operation};
use testkit::service;
use tokio::time::sleep;

use crate::frozen::frozen_leader;
use crate::stage::{Process, Stage, secs};

/// What is done to the cluster, before the process dies over it.
type Deed = fn(&Stage);

/// How a process dies over a write.
#[derive(Debug, Clone, Copy)]
enum Death {
    /// The API server took the write, and the process is gone before the answer.
    ApiTookIt,
    /// The cloud was called, and the process is gone before the cloud did anything.
    CloudWasCalled,
    /// The cloud did it, and the process is gone before the answer.
    CloudDidIt,
}

/// Has the process die over the write of this number, counted from now; tells how many writes there were.
fn doom(stage: &Stage, process: &Process, death: Death, number: usize) -> Arc<AtomicUsize> {
    let (kill, count) = (process.killer(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&count);
    match death {
        Death::ApiTookIt => stage.server.invariant("counts", move |written| {
            let by_us = written.kind == "Service" && written.before.is_some() && is_ours(written);
            if by_us && counter.fetch_add(1, Ordering::Relaxed) == number {
                kill();
            }
            Ok(())
        }),
        Death::CloudWasCalled => stage.world.on_call(move |call| {
            if call.operation.is_write() && counter.fetch_add(1, Ordering::Relaxed) == number {
                kill();
            }
        }),
        Death::CloudDidIt => {
            // It never hears the answer, and dies a second later.
            let hang = Fault::new("writes", Effect::HangAfter).skip(number as u64).times(1);
            stage.world.inject(hang).unwrap();
            let kill = Arc::new(kill);
            stage.world.on_call(move |call| {
                if call.operation.is_write() && counter.fetch_add(1, Ordering::Relaxed) == number {
                    let kill = Arc::clone(&kill);
                    tokio::spawn(async move {
                        sleep(secs(1)).await;
                        kill();
                    });
                }
            });
        }
    }
    count
}

/// Whether a write is the controller's: it touches the finalizers or the status, and not the wish.
fn is_ours(written: &testkit::Written<'_>) -> bool {
    match (written.before, written.after) {
        (Some(before), Some(after)) => {
            before["spec"] == after["spec"]
                && before["metadata"]["deletionTimestamp"] == after["metadata"]["deletionTimestamp"]
        }
        (Some(_), None) => true,
        _ => false,
    }
}

fn create(stage: &Stage) {
    stage.server.create(&service("web").load_balancer().port(80).build());
}

fn edit(stage: &Stage) {
    stage.edit("web", |service| {
        let spec = service.spec.as_mut().unwrap();
        spec.ports.as_mut().unwrap()[0].port = 8080;
        spec.load_balancer_ip = Some("203.0.113.200".into());
    });
}

fn delete(stage: &Stage) {
    stage.server.delete::<Service>("default", "web");
}

fn retype(stage: &Stage) {
    stage.edit("web", |service| service.spec.as_mut().unwrap().type_ = Some("ClusterIP".into()));
}

/// Whether everything is as the deed asks for.
fn is_settled(stage: &Stage) -> bool {
    let contents = stage.world.contents();
    let Some(web) = stage.service("web") else {
        return contents.balancers.is_empty() && contents.addresses.is_empty();
    };
    let spec = web.spec.unwrap();
    if spec.type_.as_deref() != Some("LoadBalancer") || web.metadata.deletion_timestamp.is_some() {
        return contents.balancers.is_empty() && contents.addresses.is_empty() && !stage.is_held("web");
    }
    let [balancer] = &contents.balancers[..] else { return false };
    let asked =
        spec.load_balancer_ip.is_none_or(|ip| stage.addresses("web").iter().any(|(each, _)| *each == ip));
    stage.is_held("web")
        && contents.addresses.len() == 1
        && i32::from(balancer.settings.listeners[0].port) == spec.ports.unwrap()[0].port
        && balancer
            .addresses
            .values()
            .map(ToString::to_string)
            .eq(stage.addresses("web").into_iter().map(|(ip, _)| ip))
        && asked
}

async fn survives(before: Option<Deed>, deed: Deed, death: Death, number: usize) -> bool {
    let config = Config { latency: Duration::from_millis(20), ..Config::default() };
    let stage = Stage::new(number as u64, config);
    let process = stage.start(Settings::default());
    if let Some(before) = before {
        before(&stage);
        stage.until(secs(60), "the beginning", is_settled).await;
        sleep(secs(2)).await;
    }
    let writes = doom(&stage, &process, death, number);
    deed(&stage);
    sleep(secs(10)).await;
    let reached = writes.load(Ordering::Relaxed) > number;
    drop(process);
    stage.world.clear_faults();
    let settings = Settings { sweep_period: secs(60), quarantine: secs(60), ..Settings::default() };
    let process = stage.start(settings);
    stage.until(secs(120), &format!("{death:?} over write {number}"), is_settled).await;
    sleep(secs(400)).await;
    assert!(is_settled(&stage));
    assert_eq!(process.metric("service_controller_orphans"), Some(0.0), "{death:?} over write {number}");
    assert_eq!(process.metric("service_controller_orphans_removed_total{result=\"success\"}"), None);
    stage.assert_sound();
    reached
}

/// Dies over each write of a deed, one after the other, until there are no more.
async fn survives_all(before: Option<Deed>, deed: Deed, at_least: usize) {
    let mut deaths = 0;
    for death in [Death::ApiTookIt, Death::CloudWasCalled, Death::CloudDidIt] {
        let mut number = 0;
        while survives(before, deed, death, number).await {
            (number, deaths) = (number + 1, deaths + 1);
        }
    }
    assert!(deaths >= at_least, "{deaths} deaths");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_creation_is_made_up_for() {
    // The finalizer and the status; the address and the balancer, twice.
    survives_all(None, create, 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_an_update_is_made_up_for() {
    // The status; a new address, the balancer, the old address, twice.
    survives_all(Some(create), edit, 7).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_deletion_is_made_up_for() {
    // The finalizer; the balancer and the address, twice.
    survives_all(Some(create), delete, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_change_of_type_is_made_up_for() {
    survives_all(Some(create), retype, 5).await;
}

/// The lease runs out between two calls of one creation: whoever had it makes no further one, and writes nothing.
#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lease_amid_a_creation_stops_there_and_its_successor_doubles_nothing() {
    let stage = Stage::new(1, Config::default());
    stage.world.inject(Fault::new("create_address", Effect::HangAfter).times(1)).unwrap();
    let leadership = frozen_leader(&stage.server, &stage.clock).await;
    let _former = stage.start_as(Settings::default(), leadership.clone());
    sleep(secs(5)).await;
    create(&stage);
    let begun = |stage: &Stage| stage.world.counters().of(Operation::CreateAddress) > 0;
    stage.until(secs(5), "the first call of the creation", begun).await;
    assert!(leadership.may_write(), "it began in time");
    stage.until(secs(10), "the lease runs out", |_| !leadership.may_write()).await;
    let (written, told) = (stage.writes().count(), stage.reasons("web"));
    delete_and_make_another(&stage);
    sleep(secs(120)).await;
    assert_eq!(stage.world.counters().of(Operation::CreateAddress), 1, "fenced");
    assert_eq!(stage.world.counters().of(Operation::CreateLoadBalancer), 0, "fenced");
    assert_eq!(stage.world.counters().of(Operation::DeleteAddress), 0, "fenced");
    assert_eq!(stage.writes().count(), written, "and nothing is written");
    assert_eq!(stage.reasons("web"), told, "and silent");
    assert!(stage.reasons("other").is_empty(), "and silent");

    let _successor = stage.start(Settings::default());
    let done = |stage: &Stage| stage.service("web").is_none() && !stage.addresses("other").is_empty();
    stage.until(secs(120), "the successor", done).await;
    sleep(secs(600)).await;
    let contents = stage.world.contents();
    assert_eq!((contents.balancers.len(), contents.addresses.len()), (1, 1), "neither lost nor doubled");
    stage.assert_sound();
}

fn delete_and_make_another(stage: &Stage) {
    delete(stage);
    stage.server.create(&service("other").load_balancer().port(80).build());
}
