//! Crashes before and after each write, lost answers, and a leader that is frozen in the middle.

use cloud_controllers::around::gate::Mode;
use cloud_controllers::route::Metrics;
use k8s_openapi::api::core::v1::Node;
use provider_fake::{Config, Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When, node};
use tokio::time::sleep;

use crate::frozen::frozen_leader;
use crate::scene::{CLUSTER, changes, config, is_reached, numbered, planted, routes, stage, start, start_as};
use crate::stage::{Stage, secs};

/// Something to create, to remove, to replace, and something foreign.
fn plant(stage: &Stage) {
    for number in 1..4 {
        stage.server.create(&numbered(number));
    }
    let dual =
        node("d").internal_ip("10.0.0.9").pod_cidr("10.244.9.0/24").pod_cidr("fd00:10:0:9::/64").build();
    stage.server.create(&dual);
    stage
        .world
        .plant_route(planted("kubernetes-gone", "gone", "10.244.7.0/24", Some(CLUSTER)), Some(CLUSTER));
    stage.world.plant_route(planted("kubernetes-wrong", "n1", "10.244.2.0/24", Some(CLUSTER)), Some(CLUSTER));
    stage.world.plant_route(planted("kubernetes-x", "other", "10.244.3.0/24", Some("uid-2")), Some("uid-2"));
}

fn is_right(stage: &Stage) -> bool {
    let expected = [
        "10.244.1.0/24 n1",
        "10.244.2.0/24 n2",
        "10.244.3.0/24 n3",
        "10.244.3.0/24 other",
        "10.244.9.0/24 d",
        "fd00:10:0:9::/64 d",
    ];
    routes(stage) == expected && ["n1", "n2", "n3", "d"].iter().all(|name| is_reached(stage, name))
}

async fn converges(stage: &Stage, what: &str) {
    stage.until(secs(200), what, is_right).await;
    sleep(secs(700)).await;
    assert!(is_right(stage), "{what}: it stays right: {:?}", routes(stage));
    assert_eq!(stage.world.violations(), [""; 0], "{what}");
}

/// Two removals and five creations, each before and after; then the conditions.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_to_the_cloud_leaves_one_route_per_node_and_cidr() {
    for effect in [Effect::Hang, Effect::HangAfter] {
        for boundary in 0..7 {
            let stage = stage();
            plant(&stage);
            stage.world.inject(Fault::new("writes", effect).skip(boundary).times(1)).unwrap();
            let running = start(&stage);
            let counters = || stage.world.counters().writes;
            stage.until(secs(60), "the write", |_| counters() > boundary).await;
            drop(running);
            assert!(!is_right(&stage), "{effect:?} {boundary}: something is left to do");
            let _successor = start(&stage);
            converges(&stage, &format!("after {effect:?} at {boundary}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_condition_leaves_every_condition_right() {
    for fault in [ApiFault::Hang, ApiFault::HangAfterApplying] {
        for boundary in 0..4 {
            let stage = stage();
            plant(&stage);
            let name = ["n1", "n2", "n3", "d"][boundary];
            let patch = When::verb(Verb::Patch).kind("Node").name(name).user_agent("route").times(1);
            stage.server.faults().always(patch, fault.clone());
            let running = start(&stage);
            let tried =
                || stage.server.requests().user_agent("route").verb(Verb::Patch).name(name).count() > 0;
            stage.until(secs(60), "the write", |_| tried()).await;
            drop(running);
            let _successor = start(&stage);
            converges(&stage, &format!("after {fault:?} at {name}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_make_no_second_route() {
    for (skip, times) in [(0, 1), (1, 1), (3, 2), (0, 20)] {
        let stage = stage();
        plant(&stage);
        stage.world.inject(Fault::new("writes", Effect::LoseAnswer).skip(skip).times(times)).unwrap();
        let _running = start(&stage);
        converges(&stage, &format!("answers {skip} to {} lost", skip + times)).await;
    }
}

/// Clouds whose lists show new routes late and old ones for longer than they exist.
#[tokio::test(start_paused = true)]
async fn a_list_that_lags_behind_makes_no_second_route() {
    let lag = Config { invisible_for: secs(20), visible_after_delete: secs(20), ..config() };
    let stage = Stage::new(1, lag);
    plant(&stage);
    let running = start(&stage);
    sleep(secs(1)).await;
    drop(running);
    let _successor = start(&stage);
    converges(&stage, "a list that lags behind").await;
}

#[tokio::test(start_paused = true)]
async fn random_trouble_ends_in_the_right_table() {
    for seed in 0..40_u32 {
        let stage = Stage::new(seed.into(), Config { seed: seed.into(), ..config() });
        plant(&stage);
        for effect in [Effect::Fail, Effect::LoseAnswer, Effect::HangAfter, Effect::Conflict] {
            let fault = Fault::new("*", effect).with_probability(0.08).within(secs(0), secs(300));
            stage.world.inject(fault).unwrap();
        }
        let patches = When::verb(Verb::Patch).kind("Node").with_probability(0.2).until(secs(300));
        stage.server.faults().always(patches, ApiFault::LostAnswer);
        let mut running = start(&stage);
        for round in 0..10_u32 {
            sleep(secs(u64::from(1 + (seed * 7 + round * 3) % 23))).await;
            match (seed + round) % 4 {
                0 => {
                    stage.server.create(&numbered(20 + round as usize));
                }
                1 if stage.node(&format!("n{}", 20 + round - 1)).is_some() => {
                    stage.server.delete::<Node>("", &format!("n{}", 20 + round - 1));
                }
                2 => {
                    drop(running);
                    running = start(&stage);
                }
                _ => {
                    stage.server.faults().break_watches();
                }
            }
        }
        for round in 0..10 {
            if stage.node(&format!("n{}", 20 + round)).is_some() {
                stage.server.delete::<Node>("", &format!("n{}", 20 + round));
            }
        }
        stage.until(secs(1000), &format!("seed {seed}"), is_right).await;
        assert_eq!(stage.world.violations(), [""; 0], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_its_lease_changes_nothing_more_and_its_successor_doubles_nothing() {
    let stage = stage();
    let leadership = frozen_leader(&stage.server, &stage.clock).await;
    let _former = start_as(&stage, leadership.clone(), Mode::Act, Metrics::unregistered());
    stage.server.create(&numbered(1));
    stage.until(secs(5), "it leads", |stage| is_reached(stage, "n1")).await;
    sleep(secs(15)).await;
    assert!(!leadership.may_write());
    let before = changes(&stage);
    stage.server.create(&numbered(2));
    stage.server.delete::<Node>("", "n1");
    sleep(secs(120)).await;
    assert_eq!(changes(&stage), before, "fenced");
    assert_eq!(crate::scene::condition(&stage, "n2"), None, "and silent");
    assert!(stage.events_about("n2").is_empty());
    let _successor = start(&stage);
    stage.until(secs(10), "the successor", |stage| routes(stage) == ["10.244.2.0/24 n2"]).await;
    sleep(secs(600)).await;
    assert_eq!(changes(&stage), (2, 1));
    assert_eq!(stage.world.violations(), [""; 0]);
}
