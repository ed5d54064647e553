//! Load balancers follow the nodes.

use std::time::Duration;

use cloud_controllers::service::Settings;
use cloud_provider::Error;
use k8s_openapi::api::core::v1::{Node, Taint};
use provider_fake::{Config, Effect, Fault, Operation};
use testkit::{node, service};
use tokio::time::sleep;

use crate::between::Instead;
use crate::stage::{Process, Stage, secs};

/// So many Services, with their load balancers.
async fn provisioned(services: usize, config: Config) -> (Stage, Process) {
    let stage = Stage::new(1, config);
    let process = stage.start(Settings::default());
    for number in 0..services {
        stage.server.create(&service(&format!("web-{number}")).load_balancer().port(80).build());
    }
    for number in 0..services {
        stage.provisioned(&format!("web-{number}")).await;
    }
    sleep(secs(5)).await;
    stage.script.forget();
    stage.world.reset_counters();
    (stage, process)
}

fn is_complete(stage: &Stage, nodes: usize) -> bool {
    stage.balancers().iter().all(|balancer| balancer.backends.len() == nodes)
}

/// Proves: SVC-44, SVC-49, SVC-50, SVC-51, SVC-65, COST-9, WEAK-5
#[tokio::test(start_paused = true)]
async fn a_new_node_reaches_each_balancer_with_one_update_and_one_event() {
    let (stage, process) = provisioned(20, Config::default()).await;
    let writes = stage.writes().count();
    stage.add_node("c", "10.0.0.3");
    let took = stage.until(secs(10), "all backends", |stage| is_complete(stage, 3)).await;
    assert!(took >= secs(1) && took < secs(2), "{took:?}");
    sleep(secs(60)).await;
    assert_eq!((stage.script.count("update"), stage.script.count("ensure")), (20, 0));
    assert_eq!(stage.world.counters().of(Operation::SetBackends), 20);
    assert_eq!(stage.writes().count(), writes, "no write without a difference");
    assert_eq!(
        stage.message("web-7", "UpdatedLoadBalancer").unwrap(),
        "Updated load balancer with new hosts"
    );
    assert_eq!(process.metric("service_controller_loadbalancer_sync_total"), Some(20.0));
    assert_eq!(process.metric("service_controller_nodesync_latency_seconds_count"), Some(1.0));
    assert_eq!(
        process.metric("service_controller_update_loadbalancer_host_latency_seconds_count"),
        Some(20.0)
    );
    for bound in ["1.0", "2.0", "8192.0", "16384.0"] {
        let line = format!("service_controller_nodesync_latency_seconds_bucket{{le=\"{bound}\"}}");
        assert!(process.metric(&line).is_some(), "{line}");
    }
    stage.assert_sound();
}

/// Proves: SVC-49, SVC-55
#[tokio::test(start_paused = true)]
async fn a_storm_of_node_changes_costs_each_balancer_a_few_updates_and_ends_exact() {
    let (stage, _process) = provisioned(10, Config::default()).await;
    for round in 0..600 {
        let name = format!("n{}", round % 40);
        if stage.server.get::<Node>("", &name).is_some() {
            stage.server.delete::<Node>("", &name);
        } else {
            stage.add_node(&name, "10.0.1.1");
        }
        sleep(Duration::from_millis(100)).await;
    }
    let alive = stage.server.list::<Node>().len();
    stage.until(secs(10), "exact backends", |stage| is_complete(stage, alive)).await;
    let updates = stage.script.count("update");
    assert!(updates <= 10 * 14, "{updates} updates in a minute of churn: one per balancer each 5 s");
    stage.assert_sound();
}

/// Proves: SVC-45, SVC-48
#[tokio::test(start_paused = true)]
async fn readiness_taints_and_deletions_under_way_move_nothing() {
    let (stage, _process) = provisioned(3, Config::default()).await;
    for name in ["a", "b"] {
        stage.server.modify::<Node>("", name, |node| {
            let conditions = testkit::node("x").not_ready().build().status.unwrap().conditions;
            node.status.as_mut().unwrap().conditions = conditions;
        });
    }
    stage.server.modify::<Node>("", "a", |node| {
        let taint = Taint {
            key: "ToBeDeletedByClusterAutoscaler".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        node.spec.as_mut().unwrap().taints = Some(vec![taint]);
    });
    sleep(secs(120)).await;
    assert_eq!(stage.world.counters().total(), 0);
    // The next real change takes the marked node along.
    stage.add_node("c", "10.0.0.3");
    stage
        .until(secs(10), "b and c", |stage| {
            stage.balancers().iter().all(|each| each.backends == ["b".to_owned(), "c".to_owned()].into())
        })
        .await;
}

/// Proves: WEAK-23
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_address_is_set_up_again() {
    let (stage, _process) = provisioned(1, Config::default()).await;
    stage.server.modify::<Node>("", "a", |node| {
        node.status.as_mut().unwrap().addresses.as_mut().unwrap()[0].address = "10.0.0.77".into();
    });
    stage.until(secs(10), "an update", |stage| stage.has_event("web-0", "UpdatedLoadBalancer")).await;
    assert_eq!(stage.script.count("update"), 1);
}

/// Proves: SVC-45, NAMES-1
#[tokio::test(start_paused = true)]
async fn a_node_is_excluded_by_a_label_and_included_again() {
    let (stage, _process) = provisioned(1, Config::default()).await;
    let exclude = "node.kubernetes.io/exclude-from-external-load-balancers";
    let label = |value: &'static str| {
        stage.server.modify::<Node>("", "a", |node| {
            node.metadata.labels.get_or_insert_default().insert(exclude.to_owned(), value.to_owned());
        });
    };
    label("");
    stage
        .until(secs(10), "without a", |stage| stage.balancers()[0].backends == ["b".to_owned()].into())
        .await;
    label("false");
    stage.until(secs(10), "with a", |stage| is_complete(stage, 2)).await;
}

/// Proves: SVC-51
#[tokio::test(start_paused = true)]
async fn the_last_node_leaves_a_balancer_without_backends_and_a_warning() {
    let (stage, _process) = provisioned(1, Config::default()).await;
    stage.server.delete::<Node>("", "a");
    stage.server.delete::<Node>("", "b");
    stage.until(secs(10), "no backends", |stage| is_complete(stage, 0)).await;
    stage.until(secs(10), "a warning", |stage| stage.has_event("web-0", "UnAvailableLoadBalancer")).await;
    assert!(!stage.addresses("web-0").is_empty(), "it keeps its address");
}

/// Proves: SVC-53, SVC-54
#[tokio::test(start_paused = true)]
async fn a_failed_update_is_told_with_the_nodes_and_tried_again_as_a_full_ensure() {
    let (stage, process) = provisioned(1, Config::default()).await;
    for number in 0..30 {
        stage
            .server
            .create(&node(&format!("n{number:02}")).provider_id(&format!("fake://n{number:02}")).build());
    }
    stage.world.inject(Fault::once("set_backends", Effect::Fail)).unwrap();
    stage.until(secs(20), "all backends", |stage| is_complete(stage, 32)).await;
    sleep(secs(5)).await;
    let message = stage.message("web-0", "UpdateLoadBalancerFailed").unwrap();
    assert!(message.starts_with("Error updating load balancer with new hosts [a,b,n00,n01,"), "{message}");
    assert!(message.contains("n17,<12 more>], total number of nodes: 32, error: "), "{message}");
    let calls: Vec<&str> = stage.script.calls_for("web-0").into_iter().map(|(call, _)| call).collect();
    assert_eq!(calls, ["update", "ensure"]);
    assert_eq!(process.metric("service_controller_nodesync_error_total"), Some(1.0));
}

/// Proves: SVC-53, IFACE-14
#[tokio::test(start_paused = true)]
async fn a_balancer_that_is_gone_when_its_nodes_change_is_made_again() {
    let (stage, process) = provisioned(1, Config::default()).await;
    let address = stage.addresses("web-0");
    stage.world.remove_balancer(&stage.balancers()[0].id);
    stage.add_node("c", "10.0.0.3");
    stage.until(secs(10), "a new one", |stage| stage.balancers().len() == 1 && is_complete(stage, 3)).await;
    assert_eq!(stage.addresses("web-0"), address, "its address was still reserved");
    assert!(!stage.has_event("web-0", "UpdateLoadBalancerFailed"));
    assert_eq!(process.metric("service_controller_drift_repaired_total"), Some(1.0));
}

/// Proves: SVC-30, SVC-58, SVC-59, WEAK-15
#[tokio::test(start_paused = true)]
async fn an_edit_during_a_slow_update_waits_for_it_and_ends_with_the_newest_nodes() {
    let config = Config { latencies: [("set_backends".to_owned(), secs(20))].into(), ..Config::default() };
    let (stage, _process) = provisioned(2, config).await;
    stage.add_node("c", "10.0.0.3");
    stage.until(secs(5), "updates under way", |stage| stage.script.count("update") == 2).await;
    stage.add_node("d", "10.0.0.4");
    stage.edit("web-0", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 8080);
    stage
        .until(secs(120), "everything", |stage| {
            let port = |port| stage.balancers().iter().any(|each| each.settings.listeners[0].port == port);
            is_complete(stage, 4) && port(8080)
        })
        .await;
    sleep(secs(60)).await;
    assert!(is_complete(&stage, 4), "nothing older came after it");
    stage.assert_sound();
}

/// Proves: SVC-60
#[tokio::test(start_paused = true)]
async fn nodes_that_come_before_any_service_touch_nothing_and_are_there_for_the_first() {
    let stage = Stage::new(1, Config::default());
    let _process = stage.start(Settings::default());
    for number in 0..10 {
        stage.add_node(&format!("n{number}"), "10.0.1.1");
    }
    sleep(secs(30)).await;
    assert_eq!(stage.world.counters().total(), 0);
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.provisioned("web").await;
    assert!(is_complete(&stage, 12));
    sleep(secs(30)).await;
    assert_eq!(stage.script.count("update"), 0);
}

/// Proves: SVC-56
#[tokio::test(start_paused = true)]
async fn an_update_under_way_is_finished_when_the_process_is_stopped() {
    let config = Config { latencies: [("set_backends".to_owned(), secs(3))].into(), ..Config::default() };
    let (stage, process) = provisioned(1, config).await;
    stage.add_node("c", "10.0.0.3");
    stage.until(secs(5), "the update is under way", |stage| stage.script.count("update") == 1).await;
    process.stop().await;
    assert!(is_complete(&stage, 3));
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_for_ten_minutes_is_followed_up_without_a_storm() {
    let (stage, _process) = provisioned(20, Config::default()).await;
    stage.script.always("update", || Error::other("internal error (500)"));
    stage.script.always("ensure", || Error::other("internal error (500)"));
    stage.add_node("c", "10.0.0.3");
    sleep(secs(600)).await;
    let tried = stage.script.count("update") + stage.script.count("ensure");
    assert!(tried <= 20 * 11, "{tried} tries");
    stage.script.clear();
    stage.until(secs(301), "all backends", |stage| is_complete(stage, 3)).await;
    stage.script.once("get", Instead::Panic);
    stage.assert_sound();
}
