use cloud_controllers::node::labels::Policy;
use cloud_controllers::node::{LABELS_CHANGED, Settings};
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::Machine;
use provider_fake::{Effect, Fault};
use testkit::{Verb, node};
use tokio::time::sleep;

use crate::stage::{Stage, secs, strict};

const ZONE: &str = "topology.kubernetes.io/zone";
const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";

/// A dual-stack instance and its Node, long initialised.
fn stage_with(policy: Policy) -> Stage {
    let mut stage = Stage::new(1, strict());
    let machine =
        Machine::new("a").with_address("InternalIP", "10.0.0.7").with_address("InternalIP", "fd01::7");
    stage.world.add_machine(machine.located("z1", "r"));
    stage.server.create(
        &node("a")
            .provider_id("fake://a")
            .internal_ip("10.0.0.7")
            .internal_ip("fd01::7")
            .hostname("a")
            .label(ZONE, "z1")
            .label(ZONE_BETA, "z1")
            .ready()
            .build(),
    );
    stage.start_node(Settings { labels: policy, ..Settings::default() });
    stage
}

/// Proves: NODE-5, NODE-45, COST-3
#[tokio::test(start_paused = true)]
async fn an_idle_dual_stack_cluster_is_asked_for_in_bulk_and_never_written() {
    let stage = stage_with(Policy::SetOnce);
    for number in 0..50 {
        let name = format!("n{number}");
        stage.machine(&name, "10.0.1.1");
        stage
            .server
            .create(&node(&name).provider_id(&format!("fake://{name}")).internal_ip("10.0.1.1").build());
    }
    sleep(secs(1)).await;
    stage.world.reset_counters();
    sleep(secs(3600)).await;
    let writes = stage.server.requests().user_agent("node").writes();
    assert!(writes.is_empty(), "{writes}");
    assert_eq!(
        stage.world.counters().total(),
        12,
        "one page of a list in each of twelve passes for 51 nodes"
    );
}

/// Proves: WIRE-2
#[tokio::test(start_paused = true)]
async fn a_changed_address_is_written_once_at_the_next_pass() {
    let stage = stage_with(Policy::SetOnce);
    sleep(secs(10)).await;
    stage.world.change_machine("a", |machine| machine.addresses[1].1 = "fd01::8".into());
    stage.until(secs(301), "the new address", |stage| stage.addresses("a")[1].1 == "fd01::8").await;
    sleep(secs(900)).await;
    let writes = stage.server.requests().user_agent("node").writes();
    assert_eq!(writes.count(), 1);
    let write = writes.last().unwrap();
    assert_eq!((write.verb, &*write.subresource), (Verb::Patch, "status"));
    let kinds: Vec<String> = stage.addresses("a").into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["InternalIP", "InternalIP", "Hostname"]);
}

#[tokio::test(start_paused = true)]
async fn a_moved_instance_keeps_its_labels_or_takes_them_along_as_the_policy_says() {
    for (policy, zone) in [(Policy::SetOnce, "z1"), (Policy::Reconcile, "z2")] {
        let stage = stage_with(policy);
        sleep(secs(10)).await;
        stage.world.change_machine("a", |machine| machine.zone = "z2".into());
        sleep(secs(900)).await;
        assert_eq!(stage.label("a", ZONE).as_deref(), Some(zone));
        assert_eq!(stage.label("a", ZONE_BETA).as_deref(), Some(zone));
        let told = stage.events_about("a").into_iter().filter(|(_, reason, _)| reason == LABELS_CHANGED);
        let told: Vec<String> = told.map(|(_, _, message)| message).collect();
        match policy {
            Policy::SetOnce => assert!(told.is_empty()),
            Policy::Reconcile => {
                assert_eq!(told.len(), 1, "applied once: {told:?}");
                assert!(told[0].contains("topology.kubernetes.io/zone from z1 to z2"), "{told:?}");
            }
        }
    }
}

/// Proves: NODE-9, NODE-40, NODE-41, WIRE-3
#[tokio::test(start_paused = true)]
async fn an_edited_label_is_put_right_by_its_event_and_the_policy_says_which_is_right() {
    for (policy, edited, other) in [(Policy::SetOnce, ZONE_BETA, ZONE), (Policy::Reconcile, ZONE, ZONE_BETA)]
    {
        let stage = stage_with(policy);
        sleep(secs(10)).await;
        let mark = stage.server.elapsed();
        stage.server.modify("", "a", |node: &mut Node| {
            node.metadata.labels.get_or_insert_default().insert(edited.into(), "hand".into());
        });
        stage
            .until(secs(1), "the other follows", |stage| stage.label("a", other).as_deref() == Some("hand"))
            .await;
        let writes = stage.server.requests().user_agent("node").since(mark).writes();
        assert_eq!(writes.count(), 1);
        let (meta, body) = (stage.node("a").unwrap().metadata, &writes.last().unwrap().body);
        let expected = serde_json::json!({"metadata": {"labels": {other: "hand"}, "uid": meta.uid}});
        assert_eq!(*body, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_errs_or_forgets_leaves_nodes_as_they_are() {
    for effect in [Effect::Fail, Effect::Empty, Effect::Foreign, Effect::Unauthorized] {
        let stage = stage_with(Policy::Reconcile);
        sleep(secs(10)).await;
        let mark = stage.server.elapsed();
        stage.world.inject(Fault::new("list_instances", effect)).unwrap();
        sleep(secs(900)).await;
        let writes = stage.server.requests().user_agent("node").since(mark).writes();
        assert!(writes.is_empty(), "{effect:?}: {writes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joined_without_the_taint_still_learns_its_provider_id_and_addresses() {
    let stage = stage_with(Policy::SetOnce);
    stage.machine("late", "10.0.0.9");
    stage.server.create(&node("late").hostname("late").ready().build());
    stage
        .until(secs(301), "the provider ID", |stage| {
            stage.node("late").unwrap().spec.unwrap_or_default().provider_id.as_deref() == Some("fake://late")
        })
        .await;
    assert_eq!(stage.addresses("late").len(), 2);
}
