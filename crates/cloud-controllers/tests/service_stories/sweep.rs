//! What is left in the cloud of Services that are gone.

use cloud_controllers::service::{Settings, Sweep};
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use provider_fake::objects::Balancer;
use provider_fake::{Config, Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When, service};
use tokio::time::sleep;

use crate::stage::{CLUSTER, Stage, secs};

fn settings(sweep: Sweep) -> Settings {
    Settings { sweep, sweep_period: secs(600), quarantine: secs(1800), ..Settings::default() }
}

fn orphan(uid: &str, cluster: &str) -> Balancer {
    Balancer::new(format!("a{uid}")).tagged(CLUSTER_TAG, cluster).tagged(OWNER_TAG, uid)
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_removed_after_its_quarantine_and_nothing_else_ever_is() {
    let stage = Stage::new(1, Config::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.world.plant_balancer(orphan("gone-1", CLUSTER), Some(CLUSTER));
    stage.world.plant_balancer(orphan("gone-2", "cluster-2"), Some("cluster-2"));
    stage.world.plant_balancer(Balancer::new("somebodys"), Some("somebody"));
    let process = stage.start(settings(Sweep::Remove));
    stage.provisioned("web").await;
    sleep(secs(2300)).await;
    assert_eq!(stage.balancers().len(), 4, "it is in quarantine");
    assert_eq!(process.metric("service_controller_orphans"), Some(1.0));
    sleep(secs(700)).await;
    let names: Vec<String> = stage.balancers().into_iter().map(|balancer| balancer.name).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!names.contains(&"agone-1".to_owned()), "{names:?}");
    assert_eq!(process.metric("service_controller_orphans_removed_total{result=\"success\"}"), Some(1.0));
    sleep(secs(700)).await;
    assert_eq!(process.metric("service_controller_orphans"), Some(0.0));
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn where_the_policy_is_to_report_it_is_counted_and_left() {
    let stage = Stage::new(1, Config::default());
    stage.world.plant_balancer(orphan("gone-1", CLUSTER), Some(CLUSTER));
    let process = stage.start(settings(Sweep::Report));
    sleep(secs(7200)).await;
    assert_eq!(stage.balancers().len(), 1);
    assert_eq!(process.metric("service_controller_orphans"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_doubtful_picture_removes_nothing() {
    let stage = Stage::new(1, Config::default());
    stage.world.plant_balancer(orphan("gone-1", CLUSTER), Some(CLUSTER));
    let process = stage.start(settings(Sweep::Remove));
    sleep(secs(1900)).await;
    // The API server does not confirm that the Service is gone.
    let list = When::verb(Verb::List).kind("Service").user_agent("service");
    stage.server.faults().always(list, ApiFault::InternalError);
    sleep(secs(1800)).await;
    assert_eq!(stage.balancers().len(), 1);
    stage.server.faults().clear();
    // Nothing was heard of the API server for long.
    stage.server.faults().down_for(secs(7200));
    sleep(secs(7100)).await;
    assert_eq!(stage.balancers().len(), 1);
    sleep(secs(700)).await;
    assert_eq!(stage.balancers().len(), 0, "now it is certain");
    drop(process);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_lists_nothing_or_fails_starts_no_quarantine_anew_in_vain() {
    let stage = Stage::new(1, Config::default());
    stage.world.plant_balancer(orphan("gone-1", CLUSTER), Some(CLUSTER));
    stage.world.inject(Fault::new("delete_load_balancer", Effect::Fail).times(2)).unwrap();
    let process = stage.start(settings(Sweep::Remove));
    sleep(secs(4300)).await;
    assert_eq!(stage.balancers().len(), 0);
    assert_eq!(process.metric("service_controller_orphans_removed_total{result=\"error\"}"), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn not_more_than_a_few_are_removed_in_one_round() {
    let stage = Stage::new(1, Config::default());
    for number in 0..25 {
        stage.world.plant_balancer(orphan(&format!("gone-{number}"), CLUSTER), Some(CLUSTER));
    }
    let _process = stage.start(settings(Sweep::Remove));
    sleep(secs(2450)).await;
    assert_eq!(stage.balancers().len(), 15);
    sleep(secs(600)).await;
    assert_eq!(stage.balancers().len(), 5);
}
