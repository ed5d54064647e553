//! Somebody changes a load balancer at the cloud's console.

use cloud_controllers::service::{Drift, Settings};
use provider_fake::{Config, Effect, Fault};
use testkit::service;
use tokio::time::sleep;

use crate::stage::{Process, Stage, secs};

fn settings(drift: Drift) -> Settings {
    Settings { drift, drift_period: secs(600), ..Settings::default() }
}

async fn provisioned(services: usize, drift: Drift) -> (Stage, Process) {
    let stage = Stage::new(1, Config::default());
    let process = stage.start(settings(drift));
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

/// Proves: SVC-12
#[tokio::test(start_paused = true)]
async fn a_balancer_removed_by_hand_is_back_within_the_period_at_its_address() {
    let (stage, process) = provisioned(3, Drift::Repair).await;
    let address = stage.addresses("web-1");
    let id = stage.balancers()[1].id.clone();
    stage.world.remove_balancer(&id);
    stage.until(secs(610), "it is back", |stage| stage.balancers().len() == 3).await;
    sleep(secs(10)).await;
    assert_eq!(stage.addresses("web-1"), address);
    let message = stage.message("web-1", "LoadBalancerDrifted").unwrap();
    assert!(message.contains("it is put right"), "{message}");
    assert_eq!(process.metric("service_controller_drift_found_total"), Some(1.0));
    assert_eq!(process.metric("service_controller_drift_repaired_total"), Some(1.0));
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_listener_and_backends_edited_by_hand_are_put_right() {
    let (stage, _process) = provisioned(1, Drift::Repair).await;
    let id = stage.balancers()[0].id.clone();
    stage.world.change_balancer(&id, |balancer| {
        balancer.settings.listeners.clear();
        balancer.backends.clear();
    });
    stage
        .until(secs(610), "it is right again", |stage| {
            let balancer = &stage.balancers()[0];
            balancer.settings.listeners.len() == 1 && balancer.backends.len() == 2
        })
        .await;
    stage.until(secs(5), "an event", |stage| stage.has_event("web-0", "LoadBalancerDrifted")).await;
    let message = stage.message("web-0", "LoadBalancerDrifted").unwrap();
    assert!(message.contains("listeners: [] instead of"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn where_the_policy_is_to_report_it_is_told_and_left() {
    let (stage, process) = provisioned(1, Drift::Report).await;
    let id = stage.balancers()[0].id.clone();
    stage.world.change_balancer(&id, |balancer| balancer.backends.clear());
    sleep(secs(700)).await;
    assert!(stage.balancers()[0].backends.is_empty());
    let message = stage.message("web-0", "LoadBalancerDrifted").unwrap();
    assert!(message.contains("only reported"), "{message}");
    assert_eq!(stage.world.counters().writes, 0);
    assert_eq!(process.metric("service_controller_drift_found_total"), Some(1.0));
    assert_eq!(process.metric("service_controller_drift_repaired_total"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn in_steady_state_the_scan_reads_each_balancer_once_a_period_and_no_faster_than_its_pace() {
    let (stage, _process) = provisioned(50, Drift::Repair).await;
    let writes = stage.writes().count();
    sleep(secs(1800)).await;
    let looks = stage.script.count("get");
    assert!((100..=150).contains(&looks), "{looks} looks in three periods");
    assert_eq!((stage.world.counters().writes, stage.writes().count()), (0, writes));
    let calls: Vec<_> = (0..50).flat_map(|number| stage.script.calls_for(&format!("web-{number}"))).collect();
    let mut times: Vec<_> = calls.iter().map(|(_, at)| *at).collect();
    times.sort();
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0]).as_millis() >= 990), "one at a time");
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_fails_is_no_complaint_about_the_service() {
    let (stage, _process) = provisioned(1, Drift::Repair).await;
    stage.world.inject(Fault::new("reads", Effect::Fail)).unwrap();
    sleep(secs(1300)).await;
    assert!(stage.script.count("get") >= 2, "it is tried again in the next period");
    assert_eq!(stage.condition("web-0", "LoadBalancerProvisioned"), None);
    assert!(!stage.has_event("web-0", "SyncLoadBalancerFailed"));
}

#[tokio::test(start_paused = true)]
async fn where_nobody_is_to_look_nobody_looks() {
    let (stage, _process) = provisioned(1, Drift::Off).await;
    sleep(secs(1800)).await;
    assert_eq!(stage.script.count("get"), 0);
}
