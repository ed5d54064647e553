//! Random histories of Nodes, faults and crashes: no two Nodes that exist ever share an address. `SCHEDULES=2000` tries
//! more of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud_controllers::node_ipam::Metrics;
use controller_kit::random::Randomness;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use testkit::{Fault, Verb, When, node};
use tokio::time::sleep;

use crate::allocation::{cidrs, start, typed};
use crate::stage::{Stage, secs, strict};

const NAMES: usize = 20;
const SCHEDULES: u64 = 60;

fn pick<T: Clone>(random: &Randomness, among: &[T]) -> T {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small numbers"
    )]
    let index = (random.unit() * among.len() as f64) as usize;
    among[index.min(among.len() - 1)].clone()
}

fn step(stage: &Stage, random: &Randomness) {
    let name = format!("n{}", pick(random, &(0..NAMES).collect::<Vec<_>>()));
    match pick(random, &[0, 0, 0, 0, 1, 1, 2, 3, 4, 5]) {
        0 if stage.node(&name).is_none() => {
            stage.server.create(&node(&name).build());
        }
        1 if stage.node(&name).is_some() => stage.server.delete::<Node>("", &name),
        2 => {
            let faults = [
                Fault::LostAnswer,
                Fault::InternalError,
                Fault::Delay(secs(3)),
                Fault::Timeout(secs(2)),
                Fault::HangAfterApplying,
                Fault::Conflict,
            ];
            let when =
                When::verb(Verb::Patch).kind("Node").user_agent("ipam").times(pick(random, &[1, 2, 5]));
            stage.server.faults().always(when, pick(random, &faults));
        }
        3 => {
            stage.server.faults().break_watches();
        }
        4 => {
            stage.server.faults().down_for(pick(random, &[secs(1), secs(20)]));
        }
        5 => {
            stage.server.faults().travel_back(pick(random, &[2, 10]), secs(5));
        }
        _ => {}
    }
}

/// Watches every write: who has which CIDRs.
fn watch(stage: &Stage) {
    let held: Arc<Mutex<BTreeMap<String, Vec<IpNet>>>> = Arc::default();
    stage.server.invariant("no two nodes share an address", move |written| {
        if written.kind != "Node" {
            return Ok(());
        }
        let mut held = held.lock().unwrap();
        held.remove(written.name);
        let list = written.after.map(|node| node["spec"]["podCIDRs"].clone()).unwrap_or_default();
        let mine: Vec<IpNet> = serde_json::from_value(list).unwrap_or_default();
        for (other, theirs) in &*held {
            for (one, two) in mine.iter().flat_map(|one| theirs.iter().map(move |two| (one, two))) {
                if one.contains(two) || two.contains(one) {
                    return Err(format!("{} and {other} share {one}", written.name));
                }
            }
        }
        held.insert(written.name.to_owned(), mine);
        Ok(())
    });
}

async fn schedule(seed: u64) -> usize {
    let stage = Stage::new(seed, strict());
    watch(&stage);
    let random = Randomness::seeded(seed);
    // Hardly more blocks than names: reuse is the rule.
    let flags = typed(if seed.is_multiple_of(2) { "10.244.0.0/19" } else { "10.244.0.0/19,fd00::/59" });
    let mut running = start(&stage, &flags, Metrics::unregistered());
    let mut restarts = 0;
    for _ in 0..80 {
        step(&stage, &random);
        sleep(pick(&random, &[Duration::from_millis(5), Duration::from_millis(300), secs(2)])).await;
        if random.unit() < 0.1 {
            // A crash, between any two steps of it. Its last write may still be under way, as after any crash; the
            // successor starts when the lease would have run out.
            running.0.abort();
            sleep(secs(15)).await;
            running = start(&stage, &flags, Metrics::unregistered());
            restarts += 1;
        }
    }
    stage.server.faults().clear();
    let all = |stage: &Stage| {
        stage
            .server
            .list::<Node>()
            .iter()
            .all(|node| !cidrs(stage, node.metadata.name.as_deref().unwrap()).is_empty())
    };
    stage.until(secs(200), "all nodes have CIDRs", all).await;
    stage.server.assert_invariants();
    restarts
}

#[test]
fn no_history_of_faults_and_crashes_makes_two_nodes_share_an_address() {
    let schedules = std::env::var("SCHEDULES").map_or(SCHEDULES, |number| number.parse().unwrap());
    let mut restarts = 0;
    for seed in 0..schedules {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        restarts += runtime.block_on(schedule(seed));
    }
    assert!(restarts > 100, "the histories have crashes in them: {restarts}");
}
