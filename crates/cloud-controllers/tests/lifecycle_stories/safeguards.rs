use cloud_controllers::node_lifecycle::{ALLOW_DELETION, INSTANCE_GONE, Policy, REFUSED_REASON, Settings};
use k8s_openapi::api::core::v1::Node;
use provider_fake::{Effect, Fault};
use testkit::{Verb, node};
use tokio::time::sleep;

use crate::deletion::{add, cluster, cluster_with, falls_silent, recovers};
use crate::stage::{Stage, secs, strict};

fn refusals(stage: &Stage, reason: &str) -> f64 {
    let line = format!("cloud_node_lifecycle_controller_deletion_refusals_total{{reason=\"{reason}\"}}");
    stage.metric(&line).unwrap_or(0.0)
}

fn left(stage: &Stage) -> usize {
    stage.server.list::<Node>().len()
}

/// The credential is another project's, and the network is down: upstream deletes the whole cluster in five seconds.
///
/// Proves: LIFE-13
#[tokio::test(start_paused = true)]
async fn a_foreign_credential_deletes_nothing() {
    let stage = cluster(20).await;
    stage.world.inject(Fault::new("reads", Effect::Foreign)).unwrap();
    for number in 0..20 {
        falls_silent(&stage, &format!("n{number}"));
    }
    sleep(secs(1800)).await;
    assert_eq!(left(&stage), 20);
    assert!(refusals(&stage, "no_witness") > 0.0);
    assert_eq!(stage.metric("cloud_node_lifecycle_controller_breaker_open"), Some(1.0));
    assert_eq!(stage.metric("cloud_node_lifecycle_controller_deletions_blocked"), Some(20.0));
    for number in 0..20 {
        let events = stage.events_about(&format!("n{number}"));
        assert_eq!(events.len(), 1, "told once: {events:?}");
        assert_eq!((&*events[0].0, &*events[0].1), ("Warning", REFUSED_REASON));
        assert!(events[0].2.contains("check region, project and credential"), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_node_that_the_cloud_denies_gives_a_foreign_inventory_away() {
    let stage = cluster(20).await;
    stage.world.inject(Fault::new("reads", Effect::Foreign)).unwrap();
    falls_silent(&stage, "n0");
    sleep(secs(600)).await;
    assert_eq!(left(&stage), 20);
    assert!(refusals(&stage, "foreign_inventory") > 0.0);
    // The credential is put right; n0's machine is really gone, and after the cool-down so is its Node.
    stage.world.clear_faults();
    stage.world.remove_machine("n0");
    stage.until(secs(300), "n0 is deleted", |stage| stage.node("n0").is_none()).await;
    assert_eq!(left(&stage), 19);
}

#[tokio::test(start_paused = true)]
async fn when_too_many_vanish_at_once_none_is_deleted_until_a_person_says_so() {
    let stage = cluster(20).await;
    for number in 0..20 {
        falls_silent(&stage, &format!("n{number}"));
    }
    for number in 0..8 {
        stage.world.remove_machine(&format!("n{number}"));
    }
    sleep(secs(900)).await;
    assert_eq!(left(&stage), 20);
    assert!(refusals(&stage, "too_many") > 0.0);
    let told = stage.events_about("n0");
    assert!(
        told[0].2.contains("8 of 20 nodes vanished at once, and not more than 7 are believed"),
        "{told:?}"
    );
    for name in ["n0", "n1", "n2"] {
        stage.server.modify("", name, |node: &mut Node| {
            node.metadata.annotations.get_or_insert_default().insert(ALLOW_DELETION.into(), "true".into());
        });
    }
    let gone = |stage: &Stage| ["n0", "n1", "n2"].iter().all(|name| stage.node(name).is_none());
    stage.until(secs(120), "those that were named are deleted", gone).await;
    sleep(secs(600)).await;
    assert_eq!(left(&stage), 17);
}

#[tokio::test(start_paused = true)]
async fn deletions_keep_within_the_budget_of_their_window() {
    let stage = cluster(20).await;
    for number in 0..6 {
        stage.world.remove_machine(&format!("n{number}"));
        falls_silent(&stage, &format!("n{number}"));
    }
    sleep(secs(30)).await;
    assert_eq!(left(&stage), 16, "a fifth of twenty");
    assert!(refusals(&stage, "budget") > 0.0);
    sleep(secs(240)).await;
    assert_eq!(left(&stage), 16);
    stage.until(secs(120), "the window is over", |stage| left(stage) == 14).await;
}

/// Proves: LIFE-7
#[tokio::test(start_paused = true)]
async fn all_nodes_silent_and_all_machines_there_is_no_reason_to_delete_any() {
    let stage = cluster(20).await;
    for number in 0..20 {
        falls_silent(&stage, &format!("n{number}"));
    }
    sleep(secs(3600)).await;
    assert_eq!(left(&stage), 20);
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
    for number in 0..20 {
        recovers(&stage, &format!("n{number}"));
    }
    sleep(secs(60)).await;
    assert!(stage.server.requests().user_agent("lifecycle").is_empty());
}

#[tokio::test(start_paused = true)]
async fn foreign_nameless_and_malformed_nodes_are_never_touched() {
    let stage = cluster(10).await;
    stage.server.create(&node("aws").provider_id("aws:///z/i-1").unknown().build());
    stage.server.create(&node("bare").unknown().build());
    stage.server.create(&node("odd").provider_id("fake://").unknown().build());
    stage.server.create(&node("odder").provider_id("i-0123").unknown().build());
    sleep(secs(3600)).await;
    assert_eq!(left(&stage), 14);
    assert!(stage.server.requests().user_agent("lifecycle").writes().is_empty());
    assert!(stage.events_about("aws").is_empty());
    assert!(refusals(&stage, "no_provider_id") > 0.0, "the bare one is counted and explained");
    assert_eq!(stage.reasons("bare"), [REFUSED_REASON, REFUSED_REASON], "too young, then never ours");
}

#[tokio::test(start_paused = true)]
async fn the_policies_that_do_not_delete_say_so() {
    for (policy, tainted) in [(Policy::Taint, true), (Policy::Report, false)] {
        let stage = cluster_with(10, strict(), Settings { policy, ..Settings::default() }).await;
        stage.world.remove_machine("n0");
        falls_silent(&stage, "n0");
        sleep(secs(600)).await;
        assert_eq!(stage.has_taint("n0", INSTANCE_GONE), tainted);
        assert_eq!(stage.reasons("n0"), ["InstanceGone"]);
        assert!(stage.server.requests().verb(Verb::Delete).is_empty());
        add_back(&stage);
        recovers(&stage, "n0");
        sleep(secs(10)).await;
        assert!(!stage.has_taint("n0", INSTANCE_GONE));
    }
}

fn add_back(stage: &Stage) {
    stage.machine("n0", "10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn the_only_node_of_a_cluster_is_deleted_when_another_shows_that_the_cloud_is_ours() {
    let stage = cluster(1).await;
    stage.world.remove_machine("n0");
    stage.machine("stranger", "10.9.9.9");
    falls_silent(&stage, "n0");
    sleep(secs(600)).await;
    assert!(stage.node("n0").is_some(), "nothing shows that this is our project");
    add(&stage, "successor");
    stage.until(secs(180), "n0 is deleted", |stage| stage.node("n0").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_deletes_nothing_and_is_taken_up_again() {
    let stage = cluster(10).await;
    stage.world.remove_machine("n0");
    falls_silent(&stage, "n0");
    sleep(secs(1)).await;
    stage.server.faults().down_for(secs(300));
    stage.until(secs(420), "n0 is deleted afterwards", |stage| stage.node("n0").is_none()).await;
    assert_eq!(left(&stage), 9);
}

#[tokio::test(start_paused = true)]
async fn an_override_in_the_settings_outweighs_the_breaker() {
    let settings = Settings { override_by: Some("jane: zone b burnt down".into()), ..Settings::default() };
    let stage = cluster_with(20, strict(), settings).await;
    for number in 0..12 {
        stage.world.remove_machine(&format!("n{number}"));
        falls_silent(&stage, &format!("n{number}"));
    }
    stage.until(secs(30), "all twelve are deleted", |stage| left(stage) == 8).await;
}
