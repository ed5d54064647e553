//! One fault at a time, for ten minutes, on a cluster in the middle of its life: old nodes of which some fall silent,
//! machines of which one is truly gone, and new nodes that register meanwhile. Each with several seeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use controller_kit::clock::{SharedClock, WallClock};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::Machine;
use provider_fake::{Config, Effect, Fault};
use rstest::rstest;
use testkit::{Fault as ApiFault, Verb, When};
use tokio::time::sleep;

use crate::fate::{self, kubelet};
use crate::stage::{Stage, secs, strict};
use crate::{has_address, is_tainted, watch_the_taint};

const OLD: usize = 20;
const NEW: usize = 5;
const LASTING: Duration = Duration::from_secs(600);
const SEEDS: u64 = 5;

/// A clock that somebody sets.
struct Jumping {
    inner: SharedClock,
    seconds: AtomicI64,
}

impl WallClock for Jumping {
    fn now(&self) -> Timestamp {
        self.inner.now() + SignedDuration::from_secs(self.seconds.load(Ordering::Relaxed))
    }
}

fn cloud(stage: &Stage, fault: Fault) {
    stage.world.inject(fault).unwrap();
}

fn server(stage: &Stage, when: When, fault: ApiFault) {
    let until = stage.server.elapsed() + LASTING;
    stage.server.faults().always(when.until(until), fault);
}

/// Some kubelets fall silent, the machine of one of them is gone, and new ones register.
fn life_goes_on(stage: &Stage) {
    stage.world.remove_machine("n0");
    for name in ["n0", "n1", "n2"] {
        kubelet(stage, name, "Unknown");
    }
    for number in 0..NEW {
        let name = format!("x{number}");
        // What a cloud stops telling is not there: no type, no zone.
        let mut machine = Machine::new(&name).with_address("InternalIP", "10.0.1.1").located("", "");
        machine.instance_type = String::new();
        stage.world.add_machine(machine);
        stage.server.create(&testkit::node(&name).uninitialized().not_ready().build());
    }
}

fn free(stage: &Stage, name: &str) -> bool {
    let node = stage.node(name).map(|node| serde_json::to_value(node).unwrap());
    node.is_some_and(|node| !is_tainted(&node) && has_address(&node))
}

/// Runs the story with one fault; whatever the fault is, no living node is deleted, and once it has stopped everything
/// comes right within a few minutes.
async fn story(seed: u64, trouble: fn(&Stage, &Jumping)) {
    let mut stage = Stage::new(seed, Config { page_size: 10, seed, ..strict() });
    let clock = Arc::new(Jumping { inner: stage.clock.clone(), seconds: AtomicI64::new(0) });
    stage.clock = Arc::clone(&clock) as SharedClock;
    watch_the_taint(&stage);
    for number in 0..OLD {
        let name = format!("n{number}");
        stage.world.add_machine(Machine::new(&name).with_address("InternalIP", "10.0.0.1"));
        let node = testkit::node(&name).provider_id(&format!("fake://{name}")).ready();
        stage.server.create(&node.build());
    }
    fate::start(&mut stage);
    sleep(secs(300)).await;
    trouble(&stage, &clock);
    life_goes_on(&stage);
    sleep(LASTING).await;
    stage.world.clear_faults();
    stage.server.faults().clear();
    clock.seconds.store(0, Ordering::Relaxed);
    let well = |stage: &Stage| {
        (0..NEW).all(|number| free(stage, &format!("x{number}"))) && stage.node("n0").is_none()
    };
    stage.until(secs(400), "all is well again", well).await;
    for number in 1..OLD {
        assert!(stage.node(&format!("n{number}")).is_some(), "n{number} is deleted alive");
    }
    let tried = stage.server.requests().user_agent("lifecycle").verb(Verb::Delete);
    assert!(tried.iter().all(|request| request.name == "n0"), "{tried}");
    stage.server.assert_invariants();
}

#[rstest]
#[case::f01_the_credential_has_expired(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("reads", Effect::Unauthorized)))]
#[case::f01_the_credential_may_not_list(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("list_instances", Effect::Forbidden)))]
#[case::f02_the_credential_is_another_projects(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("reads", Effect::Foreign)))]
#[case::f02_the_inventory_is_empty(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("reads", Effect::Empty)))]
#[case::f03_the_second_page_fails(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("list_instances", Effect::Fail).on_page(2)))]
#[case::f03_a_page_repeats(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("list_instances", Effect::RepeatPage).on_page(2)))]
#[case::f06_a_storm_of_throttling(|stage: &Stage, _: &Jumping| {
    let mut fault = Fault::new("reads", Effect::Throttle).with_probability(0.8);
    fault.after = Some(secs(5));
    cloud(stage, fault);
})]
#[case::f07_the_cloud_is_broken(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("reads", Effect::Fail)))]
#[case::f07_the_cloud_is_half_broken(|stage: &Stage, _: &Jumping| {
    cloud(stage, Fault::new("reads", Effect::Fail).with_probability(0.5));
})]
#[case::f08_calls_hang(|stage: &Stage, _: &Jumping| cloud(stage, Fault::new("reads", Effect::Hang).with_probability(0.5)))]
#[case::f13_the_clock_jumps_an_hour_ahead(|_: &Stage, clock: &Jumping| clock.seconds.store(3600, Ordering::Relaxed))]
#[case::f13_the_clock_jumps_an_hour_back(|_: &Stage, clock: &Jumping| clock.seconds.store(-3600, Ordering::Relaxed))]
#[case::f14_watches_break(|stage: &Stage, _: &Jumping| server(stage, When::watches(), ApiFault::BreakWatch(secs(3))))]
#[case::f14_watches_expire(|stage: &Stage, _: &Jumping| server(stage, When::watches(), ApiFault::ExpireWatch(secs(3))))]
#[case::f15_a_stale_api_server(|stage: &Stage, _: &Jumping| {
    stage.server.faults().travel_back(8, secs(60)).break_watches();
})]
#[case::f16_every_write_conflicts(|stage: &Stage, _: &Jumping| server(stage, When::writes().kind("Node"), ApiFault::Conflict))]
#[case::f17_the_api_server_is_down(|stage: &Stage, _: &Jumping| {
    stage.server.faults().down_for(secs(300));
})]
#[case::f18_the_api_server_is_slow(|stage: &Stage, _: &Jumping| server(stage, When::any(), ApiFault::Delay(secs(2))))]
#[case::f36_writing_nodes_is_forbidden(|stage: &Stage, _: &Jumping| server(stage, When::writes().kind("Node"), ApiFault::Forbidden))]
fn a_fault_of_ten_minutes_costs_no_living_node_and_loses_no_new_one(#[case] trouble: fn(&Stage, &Jumping)) {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(story(seed, trouble));
    }
}

/// All nodes silent at once: with a healthy cloud nothing happens, and if it denies a part of them that is not believed.
#[rstest]
#[case::f19_and_the_cloud_is_healthy(0)]
#[case::f20_and_the_cloud_denies_two_in_five(8)]
fn a_silent_cluster_loses_no_node(#[case] denied: usize) {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut stage = Stage::new(seed, Config { page_size: 10, seed, ..strict() });
            for number in 0..OLD {
                let name = format!("n{number}");
                stage.world.add_machine(Machine::new(&name).with_address("InternalIP", "10.0.0.1"));
                stage
                    .server
                    .create(&testkit::node(&name).provider_id(&format!("fake://{name}")).ready().build());
            }
            fate::start(&mut stage);
            sleep(secs(300)).await;
            for number in 0..OLD {
                if number < denied {
                    stage.world.remove_machine(&format!("n{number}"));
                }
                kubelet(&stage, &format!("n{number}"), "Unknown");
            }
            sleep(LASTING).await;
            assert_eq!(stage.server.list::<Node>().len(), OLD, "{}", stage.server.trace());
            if denied > 0 {
                assert!(stage.reasons("n0").contains(&"NodeDeletionRefused".to_owned()));
            }
        });
    }
}
