use cloud_controllers::node_lifecycle::Settings;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::Taint;
use provider_fake::{Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When};
use tokio::time::sleep;

use crate::deletion::{cluster, cluster_with, falls_silent, recovers};
use crate::stage::{Stage, secs, strict};

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Proves: LIFE-17, LIFE-18, LIFE-6, COST-5, WIRE-4
#[tokio::test(start_paused = true)]
async fn a_stopped_machine_is_tainted_once_and_untainted_when_its_kubelet_is_back() {
    let stage = cluster(3).await;
    stage.world.set_stopped("n0", true);
    falls_silent(&stage, "n0");
    stage.until(secs(10), "the taint", |stage| stage.has_taint("n0", SHUTDOWN)).await;
    sleep(secs(600)).await;
    let writes = stage.server.requests().user_agent("lifecycle");
    assert_eq!((writes.clone().writes().count(), writes.count()), (1, 1), "no GET, no second PATCH");
    let body = stage.server.requests().user_agent("lifecycle").last().unwrap().body.clone();
    assert!(body["metadata"]["resourceVersion"].is_string(), "guarded: {body}");

    stage.world.set_stopped("n0", false);
    sleep(secs(120)).await;
    assert!(stage.has_taint("n0", SHUTDOWN), "it boots");
    recovers(&stage, "n0");
    stage.until(secs(2), "the taint goes", |stage| !stage.has_taint("n0", SHUTDOWN)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_stays_off_is_declared_out_of_service_if_asked_for() {
    const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
    let settings = Settings { out_of_service_after: Some(secs(300)), ..Settings::default() };
    let stage = cluster_with(3, strict(), settings).await;
    stage.world.set_stopped("n0", true);
    falls_silent(&stage, "n0");
    stage.until(secs(10), "the taint", |stage| stage.has_taint("n0", SHUTDOWN)).await;
    sleep(secs(280)).await;
    // It is on for a moment: the count begins anew.
    stage.world.set_stopped("n0", false);
    sleep(secs(70)).await;
    stage.world.set_stopped("n0", true);
    sleep(secs(290)).await;
    assert!(!stage.has_taint("n0", OUT_OF_SERVICE));
    stage.until(secs(120), "five minutes off", |stage| stage.has_taint("n0", OUT_OF_SERVICE)).await;
    recovers(&stage, "n0");
    let free = |stage: &Stage| !stage.has_taint("n0", OUT_OF_SERVICE) && !stage.has_taint("n0", SHUTDOWN);
    stage.until(secs(2), "both go", free).await;
}

/// Proves: LIFE-6
#[tokio::test(start_paused = true)]
async fn ready_nodes_cost_no_call_even_when_their_machine_is_gone() {
    let stage = cluster(3).await;
    stage.world.reset_counters();
    stage.world.remove_machine("n0");
    sleep(secs(3600)).await;
    assert_eq!(stage.world.counters().total(), 0);
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
    assert!(stage.node("n0").is_some());
}

/// Proves: LIFE-21
#[tokio::test(start_paused = true)]
async fn a_taint_that_somebody_adds_meanwhile_survives() {
    let stage = cluster(3).await;
    stage.world.set_stopped("n0", true);
    stage.server.faults().once(When::verb(Verb::Patch).kind("Node"), ApiFault::Delay(secs(2)));
    falls_silent(&stage, "n0");
    sleep(secs(1)).await;
    stage.server.modify("", "n0", |node: &mut Node| {
        let taint = Taint { key: "theirs".into(), effect: "NoSchedule".into(), ..Taint::default() };
        node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    });
    stage.until(secs(10), "the taint", |stage| stage.has_taint("n0", SHUTDOWN)).await;
    assert!(stage.has_taint("n0", "theirs"));
}

/// Proves: LIFE-9, LIFE-16
#[tokio::test(start_paused = true)]
async fn an_error_of_the_cloud_changes_nothing() {
    for effect in [Effect::Fail, Effect::Unauthorized, Effect::Forbidden, Effect::Throttle, Effect::Empty] {
        let stage = cluster(3).await;
        stage.world.inject(Fault::new("reads", effect)).unwrap();
        stage.world.remove_machine("n0");
        falls_silent(&stage, "n0");
        sleep(secs(900)).await;
        assert!(stage.node("n0").is_some(), "{effect:?}");
        assert!(stage.server.requests().user_agent("lifecycle").is_empty(), "{effect:?}");
    }
}

/// Proves: COST-4
#[tokio::test(start_paused = true)]
async fn a_hundred_silent_nodes_are_asked_for_together() {
    let stage = cluster(100).await;
    stage.world.reset_counters();
    for number in 0..100 {
        falls_silent(&stage, &format!("n{number}"));
    }
    sleep(secs(60)).await;
    let calls = stage.world.counters().total();
    println!("100 silent nodes: {calls} cloud calls in a minute; upstream makes 2400");
    assert!(calls <= 30, "{calls}");
    assert_eq!(stage.server.list::<Node>().len(), 100);
}
