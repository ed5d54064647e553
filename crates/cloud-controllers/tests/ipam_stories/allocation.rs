use std::collections::BTreeSet;

use cloud_controllers::around::gate::Mode;
use cloud_controllers::around::{DecisionLog, LeaseGate, Metrics as CallMetrics};
use cloud_controllers::node_ipam::{Controller, Metrics, Parts, Ranges, Settings, Typed};
use controller_kit::leader::Leadership;
use controller_kit::lifecycle::Shutdown;
use controller_kit::{queue, worker};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use testkit::{Fault, Verb, When, node};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::stage::{Stage, secs, strict};

pub(crate) fn typed(cluster_cidr: &str) -> Typed {
    Typed { allocate: true, cluster_cidr: cluster_cidr.to_owned(), ..Typed::default() }
}

/// Starts node IPAM on a stage; aborting the task is a crash.
pub(crate) fn start(stage: &Stage, typed: &Typed, metrics: Metrics) -> (JoinHandle<()>, Shutdown) {
    start_as(stage, typed, metrics, Mode::Act)
}

fn start_as(stage: &Stage, typed: &Typed, metrics: Metrics, mode: Mode) -> (JoinHandle<()>, Shutdown) {
    let (calls, leadership) = (CallMetrics::unregistered(), Leadership::unconditional());
    let parts = Parts {
        client: stage.server.client_as("ipam"),
        nodes: stage.nodes.clone(),
        events: stage.events.clone(),
        gate: LeaseGate::new("fake", leadership, mode, DecisionLog::new(stage.clock.clone()), &calls),
        metrics,
        queue_metrics: queue::Metrics::unregistered(),
        worker_metrics: worker::Metrics::unregistered(),
    };
    let controller = Controller::new(parts, Ranges::of(typed).unwrap(), Settings::default());
    let stop = stage.stop.child();
    let stopping = stop.clone();
    (tokio::spawn(async move { controller.run(&stopping, |_| ()).await }), stop)
}

fn stage_with(typed: &Typed) -> Stage {
    let mut stage = Stage::new(1, strict());
    let metrics = Metrics::register(&mut stage.registry);
    start(&stage, typed, metrics);
    stage
}

pub(crate) fn cidrs(stage: &Stage, name: &str) -> Vec<String> {
    let spec = stage.node(name).and_then(|node| node.spec).unwrap_or_default();
    spec.pod_cidrs.unwrap_or_default()
}

/// Proves: IPAM-15, IPAM-18, IPAM-20
#[tokio::test(start_paused = true)]
async fn each_new_node_gets_its_cidrs_with_one_patch_and_silence_follows() {
    let stage = stage_with(&typed("10.244.0.0/16,fd00:10::/48"));
    for name in ["a", "b"] {
        stage.server.create(&node(name).build());
        stage.until(secs(1), "the CIDRs", |stage| !cidrs(stage, name).is_empty()).await;
    }
    assert_eq!(cidrs(&stage, "a"), ["10.244.0.0/24", "fd00:10::/64"]);
    assert_eq!(cidrs(&stage, "b"), ["10.244.1.0/24", "fd00:10:0:1::/64"]);
    assert_eq!(stage.node("a").unwrap().spec.unwrap().pod_cidr.as_deref(), Some("10.244.0.0/24"));
    sleep(secs(3600)).await;
    let writes = stage.server.requests().user_agent("ipam").writes();
    assert_eq!(writes.count(), 2, "{writes}");
    let patch = writes.iter().next().unwrap();
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    let spec = json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:10::/64"]});
    assert_eq!(patch.body["spec"], spec);
    assert!(stage.events_about("a").is_empty(), "what goes well is not told");
}

/// Proves: IPAM-14, IPAM-19
#[tokio::test(start_paused = true)]
async fn a_deleted_node_gives_its_block_back_and_whoever_waited_gets_it_at_once() {
    let stage = stage_with(&typed("10.244.0.0/23"));
    for name in ["a", "b", "c"] {
        stage.server.create(&node(name).build());
        sleep(secs(1)).await;
    }
    assert!(cidrs(&stage, "c").is_empty());
    stage.until(secs(5), "the event", |stage| stage.reasons("c") == ["CIDRNotAvailable"]).await;
    sleep(secs(240)).await;
    assert_eq!(stage.reasons("c").len(), 1, "told once, tried often");
    stage.server.delete::<Node>("", "a");
    stage.until(secs(1), "the block moves on", |stage| cidrs(stage, "c") == ["10.244.0.0/24"]).await;
}

/// Proves: IPAM-16, IPAM-25
#[tokio::test(start_paused = true)]
async fn a_full_family_leaves_the_other_alone_for_hours() {
    let mut flags = typed("10.244.0.0/16,fd00:10::/62");
    flags.mask_ipv6 = 64;
    let stage = stage_with(&flags);
    for number in 0..6 {
        stage.server.create(&node(&format!("n{number}")).build());
    }
    sleep(secs(7200)).await;
    let served = (0..6).filter(|number| !cidrs(&stage, &format!("n{number}")).is_empty()).count();
    assert_eq!(served, 4);
    let metric = |name: &str, network: &str| {
        stage.metric(&format!("node_ipam_controller_{name}{{clusterCIDR=\"{network}\"}}"))
    };
    for (network, max, usage) in [("10.244.0.0/16", 256.0, 4.0 / 256.0), ("fd00:10::/62", 4.0, 1.0)] {
        assert_eq!(metric("cidrset_cidrs_allocations_total", network), Some(4.0));
        assert_eq!(metric("cirdset_max_cidrs", network), Some(max));
        assert_eq!(metric("cidrset_usage_cidrs", network), Some(usage));
        assert_eq!(metric("cidrset_allocation_tries_per_request_count", network), Some(4.0));
    }
    stage.server.delete::<Node>("", "n0");
    stage
        .until(secs(1), "the next one", |stage| {
            (0..6).filter(|number| !cidrs(stage, &format!("n{number}")).is_empty()).count() == 4
        })
        .await;
    assert_eq!(metric("cidrset_cidrs_releases_total", "fd00:10::/62"), Some(1.0));
}

/// Proves: IPAM-10, IPAM-13
#[tokio::test(start_paused = true)]
async fn what_nodes_have_is_respected_and_what_is_odd_about_it_is_told_instead_of_fatal() {
    let stage = Stage::new(1, strict());
    stage.server.create(&node("first").pod_cidr("10.244.0.0/24").build());
    stage.server.create(&node("twin").pod_cidr("10.244.0.0/24").build());
    stage.server.create(&node("stranger").pod_cidr("192.168.7.0/24").build());
    stage.server.create(&node("three").pod_cidr("10.244.2.0/24").pod_cidr("fd00::/64").build());
    // The first tries to read them fail, for longer than a moment.
    stage.server.faults().always(When::reads().user_agent("ipam").until(secs(30)), Fault::InternalError);
    start(&stage, &typed("10.244.0.0/16"), Metrics::unregistered());
    stage.server.create(&node("new").build());
    sleep(secs(29)).await;
    assert!(cidrs(&stage, "new").is_empty(), "nothing is handed out before it is known what is taken");
    stage.until(secs(10), "the CIDR", |stage| cidrs(stage, "new") == ["10.244.1.0/24"]).await;
    stage.server.create(&node("newer").build());
    stage.until(secs(10), "the CIDR", |stage| cidrs(stage, "newer") == ["10.244.3.0/24"]).await;
    stage.until(secs(5), "the events", |stage| stage.reasons("twin").len() == 1).await;
    let (_, reason, message) = stage.events_about("twin").remove(0);
    assert_eq!(reason, "PodCIDRsOdd");
    assert_eq!(message, "The pod CIDRs of node twin are also used by first");
    assert_eq!(stage.reasons("stranger"), ["PodCIDRsOdd"]);

    // The twin's end does not free what the first still has.
    stage.server.delete::<Node>("", "twin");
    for number in 0..300 {
        stage.server.create(&node(&format!("n{number}")).build());
    }
    sleep(secs(300)).await;
    let given: Vec<String> = (0..300).flat_map(|number| cidrs(&stage, &format!("n{number}"))).collect();
    assert_eq!(given.len(), 252, "all but those of first, new, three and newer");
    assert!(!given.contains(&"10.244.0.0/24".to_owned()));
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 252);
}

/// Proves: IPAM-17
#[tokio::test(start_paused = true)]
async fn somebody_elses_assignment_is_taken_over_and_ours_given_back() {
    let stage = Stage::new(1, strict());
    let slow = When::verb(Verb::Patch).kind("Node").user_agent("ipam").times(1);
    stage.server.faults().always(slow, Fault::Delay(secs(2)));
    start(&stage, &typed("10.244.0.0/16"), Metrics::unregistered());
    stage.server.create(&node("a").build());
    sleep(secs(1)).await;
    stage.server.modify("", "a", |node: &mut Node| {
        let spec = node.spec.get_or_insert_default();
        spec.pod_cidr = Some("10.244.9.0/24".into());
        spec.pod_cidrs = Some(vec!["10.244.9.0/24".into()]);
    });
    sleep(secs(60)).await;
    assert_eq!(cidrs(&stage, "a"), ["10.244.9.0/24"]);
    assert!(stage.events_about("a").is_empty(), "{:?}", stage.events_about("a"));
    for number in 0..256 {
        stage.server.create(&node(&format!("n{number:03}")).build());
    }
    sleep(secs(120)).await;
    let given: BTreeSet<String> = (0..256).flat_map(|each| cidrs(&stage, &format!("n{each:03}"))).collect();
    assert_eq!(given.len(), 255);
    assert!(given.contains("10.244.0.0/24") && !given.contains("10.244.9.0/24"));
}

/// Proves: IPAM-18
#[tokio::test(start_paused = true)]
async fn a_write_whose_end_is_not_known_is_repeated_with_the_same_block() {
    for fault in [Fault::LostAnswer, Fault::Timeout(secs(1)), Fault::HangAfterApplying, Fault::Hang] {
        let stage = Stage::new(1, strict());
        let patches = When::verb(Verb::Patch).kind("Node").user_agent("ipam").times(3);
        stage.server.faults().always(patches, fault.clone());
        start(&stage, &typed("10.244.0.0/16"), Metrics::unregistered());
        stage.server.create(&node("a").build());
        sleep(secs(1)).await;
        stage.server.create(&node("b").build());
        stage.until(secs(180), "both", |stage| ["a", "b"].iter().all(|n| !cidrs(stage, n).is_empty())).await;
        sleep(secs(180)).await;
        assert_eq!(cidrs(&stage, "a"), ["10.244.0.0/24"], "{fault:?}");
        assert_eq!(cidrs(&stage, "b"), ["10.244.1.0/24"], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_for_good_is_told() {
    let stage = stage_with(&typed("10.244.0.0/16"));
    stage.server.faults().always(When::verb(Verb::Patch).kind("Node").user_agent("ipam"), Fault::Forbidden);
    stage.server.create(&node("a").build());
    stage.until(secs(5), "the event", |stage| stage.reasons("a") == ["CIDRAssignmentFailed"]).await;
    stage.server.faults().clear();
    stage.until(secs(61), "it recovers", |stage| cidrs(stage, "a") == ["10.244.0.0/24"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_on_its_way_out_gets_nothing_and_keeps_what_it_has() {
    let stage = stage_with(&typed("10.244.0.0/23"));
    for name in ["a", "b"] {
        stage.server.create(&node(name).finalizer("test/hold").build());
    }
    sleep(secs(1)).await;
    stage.server.delete::<Node>("", "a");
    stage.server.create(&node("c").build());
    sleep(secs(60)).await;
    assert!(cidrs(&stage, "c").is_empty(), "a is not gone yet");
    let api: kube::Api<Node> = kube::Api::all(stage.server.client());
    let release = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &kube::api::PatchParams::default(), &release).await.unwrap();
    stage.until(secs(1), "a's block", |stage| !cidrs(stage, "c").is_empty()).await;
}

/// A new leader whose cache is far behind does not hand out what the former one did.
///
/// Proves: IPAM-10
#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_behind_hands_out_nothing_twice() {
    let stage = Stage::new(1, strict());
    for name in ["a", "b", "c"] {
        stage.server.create(&node(name).build());
    }
    sleep(secs(1)).await;
    // From now on the cache learns nothing, and the former leader's last writes arrive.
    stage.server.faults().travel_back(0, secs(600));
    for (name, cidr) in [("b", "10.244.0.0/24"), ("c", "10.244.1.0/24")] {
        stage.server.modify("", name, |node: &mut Node| {
            let spec = node.spec.get_or_insert_default();
            (spec.pod_cidr, spec.pod_cidrs) = (Some(cidr.to_owned()), Some(vec![cidr.to_owned()]));
        });
    }
    start(&stage, &typed("10.244.0.0/16"), Metrics::unregistered());
    stage.until(secs(30), "the CIDR", |stage| cidrs(stage, "a") == ["10.244.2.0/24"]).await;
    let known = stage.nodes.get(&controller_kit::cache::Key::cluster("b")).unwrap();
    assert_eq!(
        known.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()),
        None,
        "the cache is still behind"
    );
    assert_eq!(cidrs(&stage, "b"), ["10.244.0.0/24"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_may_not_write_writes_nothing_and_complains_to_nobody() {
    let stage = Stage::new(1, strict());
    start_as(&stage, &typed("10.244.0.0/16"), Metrics::unregistered(), Mode::Observe);
    stage.server.create(&node("a").build());
    sleep(secs(300)).await;
    assert!(stage.server.requests().user_agent("ipam").writes().is_empty());
    assert!(stage.events_about("a").is_empty());
}

/// Proves: IPAM-1, IPAM-9
#[test]
fn it_is_called_as_upstreams_and_shares_the_one_watch_of_nodes() {
    use cloud_controllers::node_ipam::{ALIAS, NAME};
    assert_eq!((NAME, ALIAS), ("node-ipam-controller", "nodeipam"));
}
