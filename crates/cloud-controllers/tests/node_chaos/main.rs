//! Random schedules of faults against both node controllers at once, in virtual time: machines come and go, the cloud
//! fails and lies, the API server stumbles, the process crashes.
//!
//! Whatever happens: no DELETE is even tried for a Node whose machine exists, the budget holds, no Node loses its taint
//! before it has an address; and once the faults have stopped, every Node that has a machine is initialised.
//!
//! A seed is a schedule: `FIRST=1092 SCHEDULES=1 cargo test --test node_chaos` shows one again.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![allow(clippy::print_stdout, reason = "what was tried is worth reading")]

mod fate;
mod matrix;
#[path = "../node_stories/stage.rs"]
mod stage;

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_controllers::node_lifecycle::Settings;
use k8s_openapi::api::core::v1::Node;
use provider_fake::Config;
use serde_json::Value;
use testkit::Verb;
use tokio::time::sleep;

use crate::fate::{Fate, NODES};
use crate::stage::{Stage, secs, strict};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const STEPS: usize = 40;

/// What a number of schedules came to.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    deleted: usize,
    initialised: usize,
    crashes: usize,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            deleted: self.deleted + other.deleted,
            initialised: self.initialised + other.initialised,
            crashes: self.crashes + other.crashes,
        }
    }
}

fn is_tainted(node: &Value) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == UNINITIALIZED)
}

fn has_address(node: &Value) -> bool {
    node["status"]["addresses"].as_array().into_iter().flatten().any(|each| each["type"] == "InternalIP")
}

fn watch_the_taint(stage: &Stage) {
    stage.server.invariant("the taint goes with or after the addresses", |written| {
        let (Some(before), Some(after)) = (written.before, written.after) else { return Ok(()) };
        let freed = written.kind == "Node" && is_tainted(before) && !is_tainted(after);
        if freed && !has_address(after) { Err("free without an address".into()) } else { Ok(()) }
    });
}

/// Runs one schedule; panics with the whole story if a promise is broken.
async fn schedule(seed: u64) -> Tally {
    let page_size = if seed.is_multiple_of(2) { 100 } else { 5 };
    let mut stage = Stage::new(seed, Config { page_size, seed, ..strict() });
    watch_the_taint(&stage);
    let mut fate = Fate::new(seed, &stage);
    fate::start(&mut stage);
    for _ in 0..STEPS {
        fate.step(&mut stage);
        let pause = fate.pick(&[Duration::from_millis(300), secs(2), secs(6), secs(70)]);
        sleep(pause).await;
    }
    let deleted = assert_deletions(seed, &stage, &fate);
    fate.relent(&stage);
    sleep(secs(400)).await;
    stage.server.assert_invariants();
    let initialised = assert_initialised(seed, &stage, &fate);
    Tally { deleted, initialised, crashes: fate.crashes }
}

/// Every DELETE was for a Node whose machine was gone, and never more of them in a window than the budget has, counted
/// for each life of the process.
fn assert_deletions(seed: u64, stage: &Stage, fate: &Fate) -> usize {
    let tried = stage.server.requests().user_agent("lifecycle").verb(Verb::Delete);
    let mut deleted: Vec<(Duration, String)> = Vec::new();
    for request in &tried {
        let uid = request.body["preconditions"]["uid"].as_str().unwrap_or_default().to_owned();
        assert!(
            fate.was_gone(&uid, request.at),
            "seed {seed}: {} was to be deleted alive\n{}\n{}",
            request.name,
            stage.server.trace(),
            asked_before(stage, request.at)
        );
        // A lost answer leaves no code.
        if matches!(request.code, 0 | 200) {
            deleted.push((request.at, uid));
        }
    }
    let budget = Settings::default().budget;
    for (from, _) in &deleted {
        let until = fate.next_crash(*from).min(*from + budget.window);
        let window = deleted.iter().filter(|(at, _)| at >= from && *at < until);
        let uids: BTreeSet<&String> = window.map(|(_, uid)| uid).collect();
        assert!(
            uids.len() <= budget.of(NODES + fate::NEWCOMERS),
            "seed {seed}: {} in one window",
            uids.len()
        );
    }
    deleted.len()
}

/// Every Node whose machine exists is free, has its provider ID and its address.
fn assert_initialised(seed: u64, stage: &Stage, fate: &Fate) -> usize {
    let nodes = stage.server.list::<Node>();
    let living = nodes.iter().filter(|node| fate.lives(node.metadata.uid.as_deref().unwrap()));
    let mut initialised = 0;
    for node in living {
        let (name, value) = (node.metadata.name.as_deref().unwrap(), serde_json::to_value(node).unwrap());
        let whole = !is_tainted(&value) && (fate::is_old(name) || has_address(&value));
        assert!(
            whole && value["spec"]["providerID"].is_string(),
            "seed {seed}: {name} was lost\n{value:#}\n{}\n{}",
            stage.server.trace(),
            asked_before(stage, stage.server.elapsed())
        );
        initialised += usize::from(!fate::is_old(name));
    }
    initialised
}

/// What the cloud was asked shortly before a moment, for the message of a failure.
fn asked_before(stage: &Stage, at: Duration) -> String {
    let calls = stage.world.calls();
    let lately = calls.iter().filter(|call| call.at <= at && call.at + secs(500) > at);
    lately.map(|call| format!("{call:?}")).collect::<Vec<_>>().join("\n")
}

/// Runs schedules on two threads: each has its own runtime and its own time.
fn run(schedules: u64) -> Tally {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let (first, schedules) = (number("FIRST", 0), number("SCHEDULES", schedules));
    let half = |offset: u64| {
        let mut tally = Tally::default();
        for seed in (first..first + schedules).skip(usize::try_from(offset).unwrap()).step_by(2) {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            tally = tally.plus(runtime.unwrap().block_on(schedule(seed)));
        }
        tally
    };
    let tally = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0).plus(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    println!("{schedules} schedules: {tally:?}");
    tally
}

/// Proves: TEST-1
#[test]
fn no_schedule_of_faults_costs_a_living_node_or_loses_a_new_one() {
    let tally = run(1000);
    if std::env::var("SCHEDULES").is_err() {
        assert!(
            tally.deleted > 300 && tally.initialised > 1000 && tally.crashes > 300,
            "the schedules reach everything: {tally:?}"
        );
    }
}

#[test]
#[ignore = "make soak"]
fn soak_a_hundred_thousand_schedules_of_faults() {
    run(100_000);
}
