use std::time::Duration;

use cloud_controllers::node::Settings;
use k8s_openapi::api::core::v1::{Event, Node, Taint};
use provider_fake::objects::Machine;
use provider_fake::{Config, Effect, Fault};
use serde_json::Value;
use testkit::{Fault as ApiFault, Verb, When, node};
use tokio::time::sleep;

use crate::stage::{Stage, secs, strict};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

fn stage_with(config: Config) -> Stage {
    let mut stage = Stage::new(1, config);
    stage.start_node(Settings::default());
    stage
}

fn condition(stage: &Stage, name: &str) -> Option<(String, String, String)> {
    let conditions = stage.node(name)?.status?.conditions?;
    let found = conditions.into_iter().find(|each| each.type_ == "CloudInitialized")?;
    Some((found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default()))
}

/// Whether a stored Node carries the taint.
fn tainted(node: &Value) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == UNINITIALIZED)
}

/// Proves: NODE-6, NODE-10, NODE-15, NODE-19, NODE-21, NODE-22, NODE-23, COST-1
#[tokio::test(start_paused = true)]
async fn a_new_node_is_initialised_with_two_writes_and_one_event() {
    let stage = stage_with(strict());
    let machine = Machine::new("a").with_address("InternalIP", "10.0.0.7").located("z", "r");
    stage.world.add_machine(machine);
    stage.server.create(&node("a").uninitialized().hostname("a").build());
    let took = stage.until(secs(5), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    assert!(took < secs(1), "{took:?}");
    sleep(secs(30)).await;

    let writes = stage.server.requests().user_agent("node").writes();
    assert_eq!(writes.count(), 2, "{writes}");
    assert_eq!(writes.filter(|write| write.verb != Verb::Patch).count(), 0, "never a PUT");
    assert_eq!(stage.events_about("a").len(), 1);
    let event = stage.server.list::<Event>().remove(0);
    assert_eq!(event.source.unwrap().component.as_deref(), Some("cloud-node-controller"));
    let (kind, reason, message) = stage.events_about("a").remove(0);
    assert_eq!((&*kind, &*reason, &*message), ("Normal", "Synced", "Node synced successfully"));

    let node = stage.node("a").unwrap();
    assert_eq!(node.spec.unwrap().provider_id.as_deref(), Some("fake://a"));
    let address = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(stage.addresses("a"), [address("InternalIP", "10.0.0.7"), address("Hostname", "a")]);
    for (key, value) in [
        ("topology.kubernetes.io/zone", "z"),
        ("failure-domain.beta.kubernetes.io/zone", "z"),
        ("topology.kubernetes.io/region", "r"),
        ("failure-domain.beta.kubernetes.io/region", "r"),
        ("node.kubernetes.io/instance-type", "fake.small"),
        ("beta.kubernetes.io/instance-type", "fake.small"),
    ] {
        assert_eq!(stage.label("a", key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(condition(&stage, "a"), None, "a node that went well carries no condition of ours");
    assert_eq!(stage.world.counters().total(), 1, "one question to the cloud");
}

/// Proves: NODE-50
#[tokio::test(start_paused = true)]
async fn the_delays_are_measured_under_upstreams_names() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(5), "the event", |stage| stage.reasons("a") == ["Synced"]).await;
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
        "node_controller_initialization_duration_seconds",
    ] {
        assert_eq!(stage.metric(&format!("{name}_count")), Some(1.0), "{name}");
    }
    for bound in ["1.0", "4.0", "16.0", "64.0", "256.0", "1024.0"] {
        let line =
            format!("node_controller_cloud_provider_taint_removal_delay_seconds_bucket{{le=\"{bound}\"}}");
        assert_eq!(stage.metric(&line), Some(1.0), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_node_is_ever_without_its_taint_and_without_its_addresses() {
    let stage = stage_with(strict());
    stage.server.invariant("no taint, so addresses", |written| match written.after {
        Some(node) if written.kind == "Node" && !tainted(node) => {
            let known = node["status"]["addresses"].as_array().is_some_and(|list| !list.is_empty());
            known.then_some(()).ok_or_else(|| format!("{} is open without addresses", written.name))
        }
        _ => Ok(()),
    });
    // Every kind of trouble, at any of the two writes.
    let flaky = |fault, chance| (When::verb(Verb::Patch).kind("Node").with_probability(chance), fault);
    for (when, fault) in [
        flaky(ApiFault::InternalError, 0.2),
        flaky(ApiFault::Conflict, 0.2),
        flaky(ApiFault::LostAnswer, 0.2),
        flaky(ApiFault::Refused, 0.1),
    ] {
        stage.server.faults().always(when, fault);
    }
    for number in 0..40 {
        let name = format!("n{number}");
        stage.machine(&name, &format!("10.0.1.{number}"));
        stage.server.create(&node(&name).uninitialized().build());
    }
    let all = |stage: &Stage| (0..40).all(|number| !stage.has_taint(&format!("n{number}"), UNINITIALIZED));
    stage.until(secs(300), "all are initialised", all).await;
    stage.server.assert_invariants();
}

/// Proves: NODE-8, NODE-17
#[tokio::test(start_paused = true)]
async fn a_node_that_goes_and_comes_back_meanwhile_is_not_mistaken_for_itself() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    let slow = When::verb(Verb::Patch).kind("Node").subresource("status").times(1);
    stage.server.faults().always(slow, ApiFault::Delay(secs(2)));
    stage.server.create(&node("a").uninitialized().build());
    sleep(secs(1)).await;
    stage.server.delete::<Node>("", "a");
    let second = stage.server.create(&node("a").uninitialized().label("second", "yes").build());
    stage.until(secs(60), "the second is initialised", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    let found = stage.node("a").unwrap();
    assert_eq!(found.metadata.uid, second.metadata.uid);
    assert_eq!(stage.addresses("a").len(), 1);
    let refused = stage.server.requests().user_agent("node").filter(|request| request.code == 422);
    assert_eq!(refused.count(), 1, "the write for the first was refused");
}

/// Proves: NODE-11, NODE-20
#[tokio::test(start_paused = true)]
async fn a_node_ip_that_the_cloud_does_not_know_is_explained_and_the_taint_stays() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    stage.server.create(&node("a").uninitialized().provided_node_ip("10.9.9.9").build());
    stage.until(secs(5), "the event", |stage| !stage.events_about("a").is_empty()).await;
    sleep(secs(240)).await;
    assert!(stage.has_taint("a", UNINITIALIZED));
    let events = stage.events_about("a");
    assert_eq!(events.len(), 1, "told once, tried often: {events:?}");
    let (kind, reason, message) = &events[0];
    assert_eq!((&**kind, &**reason), ("Warning", "NodeIPNotInCloud"));
    assert_eq!(
        message,
        "provided node ip for node \"a\" is not valid: failed to get node address from cloud provider that \
         matches ip: 10.9.9.9; start the kubelet with a --node-ip that the cloud knows of this instance"
    );
    let (status, reason, shown) = condition(&stage, "a").unwrap();
    assert_eq!((&*status, &*reason, &shown), ("False", "NodeIPNotInCloud", message));
    let failures = r#"node_controller_initialization_failures_total{reason="NodeIPNotInCloud"}"#;
    assert!(stage.metric(failures).unwrap() >= 5.0);

    // The operator corrects it: the complaint is taken back, and the change of the Node alone wakes us.
    stage.server.modify("", "a", |node: &mut Node| {
        node.metadata.annotations = None;
    });
    stage.until(secs(1), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    assert_eq!(condition(&stage, "a").unwrap().0, "True");
}

/// Proves: NODE-11
#[tokio::test(start_paused = true)]
async fn each_trouble_of_the_cloud_has_its_own_reason() {
    for (effect, reason) in [
        (Effect::Unauthorized, "CredentialInvalid"),
        (Effect::Fail, "CloudUnavailable"),
        (Effect::Empty, "InventoryEmpty"),
    ] {
        let stage = stage_with(strict());
        stage.machine("a", "10.0.0.7");
        stage.world.inject(Fault::new("list_instances", effect)).unwrap();
        stage.server.create(&node("a").uninitialized().build());
        stage.until(secs(60), reason, |stage| stage.reasons("a") == [reason]).await;
        assert!(stage.has_taint("a", UNINITIALIZED));
        stage.world.clear_faults();
        stage.until(secs(61), "it recovers by itself", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
        assert_eq!(condition(&stage, "a").unwrap().0, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_becomes_visible_late_costs_no_alarm() {
    let stage = stage_with(Config { invisible_for: secs(10), ..strict() });
    stage.machine("other", "10.0.0.8");
    sleep(secs(11)).await;
    stage.machine("a", "10.0.0.7");
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(30), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    stage.until(secs(5), "the event", |stage| !stage.events_about("a").is_empty()).await;
    assert_eq!(stage.reasons("a"), ["Synced"]);
}

#[tokio::test(start_paused = true)]
async fn two_instances_of_one_name_are_told_apart_by_nobody() {
    let stage = stage_with(strict());
    for id in ["1", "2"] {
        stage.world.add_machine(Machine::new("a").with_id(id).with_address("InternalIP", "10.0.0.7"));
    }
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(5), "the event", |stage| stage.reasons("a") == ["AmbiguousInstance"]).await;
    sleep(secs(60)).await;
    assert!(stage.has_taint("a", UNINITIALIZED));
    assert_eq!(stage.node("a").unwrap().spec.unwrap().provider_id, None);
}

/// Proves: NODE-12
#[tokio::test(start_paused = true)]
async fn another_clouds_node_is_left_alone_without_a_word() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    let before = stage.server.create(&node("a").uninitialized().provider_id("aws:///z/i-1").build());
    sleep(secs(900)).await;
    assert_eq!(stage.node("a").unwrap().metadata.resource_version, before.metadata.resource_version);
    assert!(stage.events_about("a").is_empty());
    assert!(stage.server.requests().user_agent("node").writes().is_empty());
}

/// Proves: NODE-13
#[tokio::test(start_paused = true)]
async fn a_taint_that_somebody_adds_meanwhile_survives() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    let object = When::verb(Verb::Patch).kind("Node").subresource("").times(1);
    stage.server.faults().always(object, ApiFault::Delay(secs(2)));
    stage.server.create(&node("a").uninitialized().build());
    sleep(secs(1)).await;
    stage.server.modify("", "a", |node: &mut Node| {
        let taint = Taint { key: "theirs".into(), effect: "NoSchedule".into(), ..Taint::default() };
        node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    });
    stage.until(secs(10), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    assert!(stage.has_taint("a", "theirs"));
    assert_eq!(stage.reasons("a").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_costs_neither_the_node_nor_its_event() {
    for subresource in ["status", ""] {
        let stage = stage_with(strict());
        stage.machine("a", "10.0.0.7");
        let write = When::verb(Verb::Patch).kind("Node").subresource(subresource).times(1);
        stage.server.faults().always(write, ApiFault::LostAnswer);
        stage.server.create(&node("a").uninitialized().build());
        stage.until(secs(5), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
        sleep(secs(30)).await;
        assert_eq!(stage.reasons("a"), ["Synced"], "{subresource:?}");
        assert_eq!(condition(&stage, "a"), None, "nothing to complain about");
    }
}

/// As when the API server is killed at that moment: the question that follows is not answered either.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_with_the_api_server_costs_no_event() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    let write = When::verb(Verb::Patch).kind("Node").subresource("").times(1);
    stage.server.faults().always(write, ApiFault::LostAnswer);
    stage.server.faults().always(When::verb(Verb::Get).kind("Node").until(secs(60)), ApiFault::Refused);
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(5), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    sleep(secs(120)).await;
    assert_eq!(stage.reasons("a"), ["Synced"]);
    assert_eq!(condition(&stage, "a"), None, "nothing to complain about");
}

/// Proves: NODE-7
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_the_nodes_are_known_and_a_stop_is_heard_meanwhile() {
    let mut stage = Stage::new(1, strict());
    stage.server.faults().always(When::verb(Verb::List).kind("Node").until(secs(60)), ApiFault::Unavailable);
    stage.machine("a", "10.0.0.7");
    stage.server.create(&node("a").uninitialized().build());
    stage.start_node(Settings::default());
    sleep(secs(59)).await;
    assert_eq!(stage.world.counters().total(), 0);
    stage.until(secs(60), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;

    let mut early = Stage::new(1, strict());
    early.server.faults().always(When::verb(Verb::List).kind("Node"), ApiFault::Unavailable);
    early.start_node(Settings::default());
    sleep(secs(1)).await;
    early.stop.trigger();
    tokio::time::timeout(secs(1), early.ended()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_complaint_is_taken_back_when_a_person_frees_the_node() {
    let mut stage = Stage::new(1, strict());
    stage.start_node(Settings { refresh_period: secs(60), ..Settings::default() });
    stage.machine("other", "10.0.0.8");
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(60), "the complaint", |stage| condition(stage, "a").is_some()).await;
    stage.server.modify("", "a", |node: &mut Node| {
        node.spec.get_or_insert_default().taints = None;
    });
    sleep(secs(120)).await;
    assert_eq!(condition(&stage, "a").unwrap().0, "False", "the cloud still does not know it");
    stage.machine("a", "10.0.0.7");
    let content = |stage: &Stage| condition(stage, "a").is_some_and(|(status, ..)| status == "True");
    stage.until(secs(120), "it is taken back", content).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_without_end_are_met_with_patience() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    let always = When::verb(Verb::Patch).kind("Node").until(secs(30));
    stage.server.faults().always(always, ApiFault::Conflict);
    stage.server.create(&node("a").uninitialized().build());
    sleep(secs(30)).await;
    let tries = stage.server.requests().user_agent("node").verb(Verb::Patch).count();
    assert!((10..60).contains(&tries), "{tries} tries in 30 s");
    stage.until(secs(61), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_only_those_who_wait_for_it() {
    let stage = stage_with(strict());
    for name in ["a", "b"] {
        stage.machine(name, "10.0.0.7");
    }
    stage.world.inject(Fault::once("list_instances", Effect::Hang)).unwrap();
    stage.server.create(&node("a").uninitialized().build());
    sleep(secs(2)).await;
    stage.server.create(&node("b").uninitialized().build());
    stage.until(secs(5), "b is initialised", |stage| !stage.has_taint("b", UNINITIALIZED)).await;
    assert!(stage.has_taint("a", UNINITIALIZED));
    stage.until(secs(120), "a after the deadline", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_foreign_changes_cost_no_call() {
    let stage = stage_with(strict());
    stage.machine("a", "10.0.0.7");
    stage.server.create(&node("a").uninitialized().build());
    stage.until(secs(5), "the taint goes", |stage| !stage.has_taint("a", UNINITIALIZED)).await;
    sleep(secs(1)).await;
    let (calls, mark) = (stage.world.counters().total(), stage.server.elapsed());
    for beat in 0..20 {
        stage.server.modify("", "a", |node: &mut Node| {
            let beat = testkit::node("a").condition("Ready", "True", &format!("Beat{beat}")).build();
            node.status.get_or_insert_default().conditions = beat.status.unwrap().conditions;
        });
        sleep(secs(10)).await;
    }
    assert_eq!(stage.world.counters().total(), calls);
    assert!(stage.server.requests().user_agent("node").since(mark).is_empty());
}

/// Proves: COST-1, COST-13
#[tokio::test(start_paused = true)]
async fn five_hundred_nodes_take_a_handful_of_cloud_calls_and_a_thousand_writes() {
    let stage = stage_with(Config { latency: Duration::from_millis(100), ..strict() });
    stage.server.set_latency(Duration::from_millis(10));
    for number in 0..500 {
        let name = format!("n{number}");
        stage.machine(&name, &format!("10.1.{}.{}", number / 250, number % 250 + 1));
        stage.server.create(&node(&name).uninitialized().build());
    }
    let done = |stage: &Stage| (0..500).all(|number| !stage.has_taint(&format!("n{number}"), UNINITIALIZED));
    let took = stage.until(secs(60), "all are initialised", done).await;
    let calls = stage.world.counters().total();
    let writes = stage.server.requests().user_agent("node").writes().count();
    println!("500 nodes initialised in {took:?} of virtual time, {calls} cloud calls, {writes} writes");
    assert_eq!(writes, 1000);
    assert!(took < secs(10), "{took:?}");
    assert!(calls <= 20, "{calls} cloud calls");
}
