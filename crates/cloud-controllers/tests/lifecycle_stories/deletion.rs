use std::time::Duration;

use cloud_controllers::node_lifecycle::Settings;
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::Machine;
use provider_fake::{Config, Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When, node};
use tokio::time::sleep;

use crate::stage::{Stage, secs, strict};

pub(crate) fn add(stage: &Stage, name: &str) -> Node {
    stage.machine(name, "10.0.0.1");
    stage.server.create(&node(name).provider_id(&format!("fake://{name}")).ready().build())
}

/// So many ready nodes, older than any grace period.
pub(crate) async fn cluster_with(size: usize, config: Config, settings: Settings) -> Stage {
    let mut stage = Stage::new(1, config);
    for number in 0..size {
        add(&stage, &format!("n{number}"));
    }
    stage.start_lifecycle(settings);
    sleep(secs(300)).await;
    stage
}

pub(crate) async fn cluster(size: usize) -> Stage {
    cluster_with(size, strict(), Settings::default()).await
}

fn condition(stage: &Stage, name: &str, status: &str) {
    let wanted = node(name).condition("Ready", status, "Told").build().status.unwrap().conditions;
    stage.server.modify("", name, |node: &mut Node| {
        node.status.get_or_insert_default().conditions = wanted;
    });
}

pub(crate) fn falls_silent(stage: &Stage, name: &str) {
    condition(stage, name, "Unknown");
}

pub(crate) fn recovers(stage: &Stage, name: &str) {
    condition(stage, name, "True");
}

/// Proves: LIFE-7, LIFE-10, LIFE-24, LIFE-26, COST-6
#[tokio::test(start_paused = true)]
async fn the_node_of_a_vanished_machine_is_gone_within_ten_seconds() {
    let stage = cluster(10).await;
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    let took = stage.until(secs(10), "the node is deleted", |stage| stage.node("n0").is_none()).await;
    println!("a vanished machine's node is gone {took:?} after it fell silent");
    sleep(secs(1)).await;
    assert_eq!(
        stage.events_about("n0"),
        [(
            "Normal".to_owned(),
            "DeletingNode".to_owned(),
            "Deleting node n0 because it does not exist in the cloud provider".to_owned()
        )]
    );
    let requests = stage.server.requests().user_agent("lifecycle");
    assert_eq!(requests.count(), 1, "{requests}");
    assert_eq!(stage.server.list::<Node>().len(), 9);
}

/// Proves: LIFE-11
#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_under_the_same_name_is_not_deleted_for_its_predecessor() {
    let stage = cluster(10).await;
    stage.server.faults().once(When::verb(Verb::Delete).kind("Node"), ApiFault::Delay(secs(2)));
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    let asked = |stage: &Stage| !stage.server.requests().verb(Verb::Delete).is_empty();
    stage.until(secs(10), "the DELETE is on its way", asked).await;
    stage.server.delete::<Node>("", "n0");
    stage.world.add_machine(Machine::new("n0").with_id("second"));
    let second = stage.server.create(&node("n0").provider_id("fake://second").unknown().build());
    sleep(secs(600)).await;
    assert_eq!(stage.node("n0").unwrap().metadata.uid, second.metadata.uid);
    let codes: Vec<u16> = stage.server.requests().verb(Verb::Delete).iter().map(|each| each.code).collect();
    assert_eq!(codes, [409]);
}

/// Its pods are for others to remove.
///
/// Proves: LIFE-27, LIFE-28
#[tokio::test(start_paused = true)]
async fn nothing_but_nodes_and_events_is_touched() {
    let stage = cluster(10).await;
    let began = stage.server.elapsed();
    stage.world.remove_machine("n0");
    stage.world.set_stopped("n1", true);
    falls_silent(&stage, "n0");
    falls_silent(&stage, "n1");
    stage.until(secs(10), "the node is deleted", |stage| stage.node("n0").is_none()).await;
    sleep(secs(60)).await;
    let mut used = std::collections::BTreeSet::new();
    for request in &stage.server.requests().since(began) {
        used.insert((request.kind.clone(), format!("{:?}", request.verb)));
    }
    used.retain(|(_, verb)| verb != "Watch");
    let used: Vec<(&str, &str)> = used.iter().map(|(kind, verb)| (&**kind, &**verb)).collect();
    assert_eq!(used, [("Event", "Create"), ("Node", "Delete"), ("Node", "Patch")]);
}

/// Proves: LIFE-12
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_told_and_tried_again() {
    let stage = cluster(10).await;
    stage.server.faults().always(When::verb(Verb::Delete).kind("Node").times(2), ApiFault::InternalError);
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    stage.until(secs(60), "the node is deleted", |stage| stage.node("n0").is_none()).await;
    sleep(secs(1)).await;
    let events = stage.events_about("n0");
    let failed = events.iter().find(|(_, reason, _)| reason == "DeletingNodeFailed").unwrap();
    assert_eq!(failed.0, "Warning");
    assert!(failed.2.starts_with("Failed deleting node n0: "), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn one_absent_answer_is_not_enough() {
    let stage = cluster(10).await;
    // The list lies once, and so does the question for the one instance; then both tell the truth again.
    for operation in ["list_instances", "get_instance"] {
        stage.world.inject(Fault::once(operation, Effect::Foreign)).unwrap();
    }
    falls_silent(&stage, "n0");
    sleep(secs(600)).await;
    assert!(stage.node("n0").is_some());
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
}

/// The list shows strangers, the question for a witness fails, and the question for the suspect meets a lie.
#[tokio::test(start_paused = true)]
async fn a_lie_beside_a_witness_that_the_cloud_cannot_tell_of_costs_no_node() {
    let stage = cluster(10).await;
    stage.world.inject(Fault::new("list_instances", Effect::Foreign)).unwrap();
    stage.world.inject(Fault::new("get_instance", Effect::Fail).about("n1")).unwrap();
    stage.world.inject(Fault::new("get_instance", Effect::NotFound).about("n0")).unwrap();
    falls_silent(&stage, "n0");
    sleep(secs(600)).await;
    assert!(stage.node("n0").is_some());
    assert_eq!(stage.reasons("n0"), ["NodeDeletionRefused"]);
    stage.world.clear_faults();
    stage.world.remove_machine("n0");
    stage.until(secs(70), "the truth is acted upon", |stage| stage.node("n0").is_none()).await;
}

/// The list shows strangers all the time, and the question for the suspect meets a lie once. What the strangers said first
/// is no proof that a lie could confirm.
#[tokio::test(start_paused = true)]
async fn a_lie_after_an_inventory_of_strangers_costs_no_node() {
    let stage = cluster(10).await;
    stage.world.inject(Fault::new("list_instances", Effect::Foreign)).unwrap();
    stage.world.inject(Fault::once("get_instance", Effect::NotFound).about("n0")).unwrap();
    falls_silent(&stage, "n0");
    sleep(secs(600)).await;
    assert!(stage.node("n0").is_some());
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
    stage.world.remove_machine("n0");
    stage.until(secs(70), "the truth is acted upon", |stage| stage.node("n0").is_none()).await;
}

/// Proves: LIFE-22
#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_deletes_is_no_trouble() {
    let stage = cluster(10).await;
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    sleep(secs(2)).await;
    stage.server.delete::<Node>("", "n0");
    sleep(secs(60)).await;
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
    assert!(stage.events_about("n0").is_empty());
}

/// Proves: LIFE-14
#[tokio::test(start_paused = true)]
async fn a_node_whose_machine_is_not_to_be_seen_yet_is_not_deleted() {
    let stage = cluster_with(10, Config { invisible_for: secs(45), ..strict() }, Settings::default()).await;
    stage.machine("young", "10.0.0.9");
    stage.server.create(&node("young").uninitialized().provider_id("fake://young").not_ready().build());
    sleep(secs(600)).await;
    assert!(stage.node("young").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_young_node_is_deleted_when_it_has_come_of_age_and_not_before() {
    let stage = cluster(10).await;
    let created = tokio::time::Instant::now();
    stage.server.create(&node("young").provider_id("fake://young").not_ready().build());
    stage.until(secs(130), "the node is deleted", |stage| stage.node("young").is_none()).await;
    assert!(created.elapsed() >= secs(60), "{:?}", created.elapsed());
    sleep(secs(1)).await;
    assert_eq!(stage.reasons("young"), ["NodeDeletionRefused", "DeletingNode"]);
}

/// Proves: LIFE-25
#[tokio::test(start_paused = true)]
async fn passes_and_answers_are_counted_under_upstreams_names() {
    let stage = cluster(10).await;
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    falls_silent(&stage, "n1");
    stage.until(secs(10), "the node is deleted", |stage| stage.node("n0").is_none()).await;
    let calls = |operation: &str, result: &str| {
        let name = "cloud_node_lifecycle_controller_cloud_provider_calls_total";
        stage.metric(&format!("{name}{{operation=\"{operation}\",result=\"{result}\"}}")).unwrap_or(0.0)
    };
    assert!((calls("instance_exists", "instance_not_found") - 2.0).abs() < 0.1);
    assert!(calls("instance_exists", "success") >= 1.0);
    assert!(calls("instance_shutdown", "success") >= 1.0);
    let passes = "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds";
    assert!(stage.metric(&format!("{passes}_count")).unwrap() > 50.0);
    assert!(stage.metric(&format!("{passes}_bucket{{le=\"16.384\"}}")).is_some(), "0.001 × 2^14");
    let deleted = r#"cloud_node_lifecycle_controller_deletions_total{result="success"}"#;
    assert_eq!(stage.metric(deleted), Some(1.0));
}

/// A pass takes as long as the cloud takes, whatever the number of nodes.
#[tokio::test(start_paused = true)]
async fn a_slow_cloud_delays_a_deletion_by_its_own_slowness_only() {
    let config = Config { latency: Duration::from_millis(500), ..strict() };
    let stage = cluster_with(10, config, Settings::default()).await;
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    stage.until(secs(10), "the node is deleted", |stage| stage.node("n0").is_none()).await;
}
