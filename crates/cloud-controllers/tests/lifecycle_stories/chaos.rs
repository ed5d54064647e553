//! Random schedules of faults: whatever happens, no DELETE is even tried for a Node whose machine exists, and the budget
//! holds. `SCHEDULES=5000` tries more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use cloud_controllers::node_lifecycle::Settings;
use controller_kit::random::Randomness;
use k8s_openapi::api::core::v1::Node;
use provider_fake::{Config, Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When, node};
use tokio::time::sleep;

use crate::deletion::{add, falls_silent, recovers, start};
use crate::stage::{Stage, secs, strict};

const NODES: usize = 12;
const SCHEDULES: u64 = 150;

/// When the machine of a name was taken away.
type Removed = Mutex<BTreeMap<String, Duration>>;

fn pick<T: Copy>(random: &Randomness, among: &[T]) -> T {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small numbers"
    )]
    let index = (random.unit() * among.len() as f64) as usize;
    among[index.min(among.len() - 1)]
}

/// One step of fate.
fn step(stage: &Stage, random: &Randomness, removed: &Removed) {
    let numbers: Vec<usize> = (0..NODES).collect();
    let name = format!("n{}", pick(random, &numbers));
    let exists = stage.node(&name).is_some();
    match pick(random, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
        0 | 1 if exists => falls_silent(stage, &name),
        2 if exists => recovers(stage, &name),
        3 => {
            stage.world.remove_machine(&name);
            removed.lock().unwrap().entry(name.clone()).or_insert_with(|| stage.server.elapsed());
            if exists {
                falls_silent(stage, &name);
            }
        }
        4 => {
            let lies = [Effect::Foreign, Effect::Empty, Effect::NotFound, Effect::Fail, Effect::Unauthorized];
            // One page of a list that is another project's, in the middle of ours, is no credential's fault.
            let whole = stage.world.config().page_size > NODES;
            let effect = pick(random, if whole { &lies[..] } else { &lies[2..] });
            let operation = pick(random, &["reads", "list_instances", "get_instance"]);
            stage.world.inject(Fault::new(operation, effect).times(pick(random, &[1, 2, 5, 50]))).unwrap();
        }
        5 => stage.world.clear_faults(),
        6 if exists => {
            // Deleted and registered again under its name.
            stage.server.delete::<Node>("", &name);
            let again = node(&name).provider_id(&format!("fake://{name}")).unknown().build();
            stage.server.create(&again);
        }
        7 => {
            stage.server.faults().down_for(pick(random, &[secs(2), secs(30), secs(200)]));
        }
        8 => {
            stage.server.faults().break_watches();
        }
        9 => {
            let fault = pick(random, &[0, 1, 2]);
            let fault = [ApiFault::LostAnswer, ApiFault::Delay(secs(3)), ApiFault::Conflict][fault].clone();
            stage.server.faults().once(When::verb(Verb::Delete).kind("Node"), fault);
        }
        _ => {}
    }
}

async fn schedule(seed: u64) -> usize {
    let mut stage = Stage::new(
        seed,
        Config { page_size: if seed.is_multiple_of(2) { 100 } else { 5 }, seed, ..strict() },
    );
    let random = Randomness::seeded(seed);
    let removed = Removed::default();
    for number in 0..NODES {
        add(&stage, &format!("n{number}"));
    }
    start(&mut stage, Settings::default());
    for _ in 0..60 {
        step(&stage, &random, &removed);
        sleep(pick(&random, &[Duration::from_millis(300), secs(2), secs(6), secs(70)])).await;
    }
    let tried = stage.server.requests().user_agent("lifecycle").verb(Verb::Delete);
    for request in &tried {
        let gone = removed.lock().unwrap().get(&request.name).is_some_and(|at| *at <= request.at);
        assert!(gone, "seed {seed}: {} was to be deleted alive\n{}", request.name, stage.server.trace());
    }
    let budget = Settings::default().budget;
    // A lost answer leaves no code.
    let deleted: Vec<(Duration, String)> = tried
        .iter()
        .filter(|request| matches!(request.code, 0 | 200))
        .map(|request| (request.at, request.body["preconditions"]["uid"].to_string()))
        .collect();
    for (from, _) in &deleted {
        let window = deleted.iter().filter(|(at, _)| at >= from && *at < *from + budget.window);
        let uids: BTreeSet<&String> = window.map(|(_, uid)| uid).collect();
        assert!(uids.len() <= budget.of(NODES), "seed {seed}: {} in one window", uids.len());
    }
    deleted.len()
}

#[test]
fn no_schedule_of_faults_costs_a_living_node() {
    let schedules = std::env::var("SCHEDULES").map_or(SCHEDULES, |number| number.parse().unwrap());
    let mut deleted = 0;
    for seed in 0..schedules {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        deleted += runtime.block_on(schedule(seed));
    }
    println!("{schedules} schedules, {deleted} nodes deleted, none of them alive");
    assert!(deleted > 50, "the schedules reach deletions: {deleted}");
}
