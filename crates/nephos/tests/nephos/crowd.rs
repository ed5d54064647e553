//! Many nodes at once through the whole binary at default flags, counted in the API server's audit log and in the cloud's
//! own ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control_plane::kubelet::{Network, register_all};
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::{Event, Node};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use provider_fake::Config;
use provider_fake::api::Operation;
use provider_fake::objects::Machine;
use serde_json::{Value, json};

use crate::process::Nephos;
use crate::scene::{Scene, eventually};
use crate::{LEADS, PATIENCE};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// What the manager says of each round, when it is asked to say much.
const COMPARED: &str = "Compared the nodes with the cloud";

/// A cloud that has these machines and lists them in pages of five hundred.
async fn scene(machines: usize) -> Scene {
    let cloud = Config { adopt: false, page_size: 500, ..Config::default() };
    let scene = Scene::with(ControlPlane::builder().audit(true), cloud).await;
    for number in 0..machines {
        let (name, ip) = (name(number), format!("10.8.{}.{}", number / 250, number % 250 + 1));
        let machine = Machine::new(name).with_address("InternalIP", &ip).located("zone-a", "region-1");
        scene.world.add_machine(machine);
    }
    scene
}

fn name(number: usize) -> String {
    format!("worker-{number:04}")
}

fn kubelets(count: usize) -> Vec<Kubelet> {
    (0..count).map(|number| Kubelet::new(name(number))).collect()
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == UNINITIALIZED)
}

async fn initialised(nodes: &Api<Node>, count: usize) {
    eventually("all nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.ok()?;
        (listed.items.iter().filter(|node| !is_tainted(node)).count() == count).then_some(())
    })
    .await;
}

/// The manager's writes of Nodes that the API server carried out, by the Node's name.
fn writes(scene: &Scene) -> BTreeMap<String, Vec<Value>> {
    let mut writes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in scene.cluster.audit_events().expect("an audit log") {
        let ours =
            event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("cloud-controller-manager"));
        let verb = event["verb"].as_str().unwrap_or_default();
        let reads = matches!(verb, "get" | "list" | "watch");
        let done = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        if ours && !reads && done && event["objectRef"]["resource"] == "nodes" {
            let name = event["objectRef"]["name"].as_str().unwrap_or_default().to_owned();
            writes.entry(name).or_default().push(event);
        }
    }
    writes
}

fn look_ups(scene: &Scene) -> u64 {
    let counters = scene.world.counters();
    counters.of(Operation::ListInstances) + counters.of(Operation::GetInstance)
}

/// How a thousand nodes joined.
#[derive(Debug)]
struct Joined {
    created: Duration,
    free: Duration,
    most_writes: usize,
    look_ups: u64,
}

/// From when the API server was asked for the first of these until it had answered the last.
fn lasted<'a>(first: impl Iterator<Item = &'a Value>, last: impl Iterator<Item = &'a Value>) -> Duration {
    let time = |event: &Value, key: &str| {
        event[key].as_str().and_then(|text| text.parse::<Timestamp>().ok()).expect("a time in the audit log")
    };
    let began = first.map(|event| time(event, "requestReceivedTimestamp")).min().expect("a first request");
    let ended = last.map(|event| time(event, "stageTimestamp")).max().expect("a last request");
    ended.duration_since(began).try_into().expect("it began before it ended")
}

async fn a_thousand_nodes_join(program: &Path) -> Joined {
    const NODES: usize = 1000;
    let scene = scene(NODES).await;
    let mut nephos = Nephos::start_program(program, &scene.arguments(&[]));
    nephos.wait_for(LEADS, PATIENCE).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(NODES), 20).await.expect("the nodes register");
    initialised(&nodes, NODES).await;
    let audit = scene.cluster.audit_events().expect("an audit log");
    let creations = audit.iter().filter(|event| event["verb"] == "create");
    let creations = creations.filter(|event| event["objectRef"]["resource"] == "nodes");
    let writes = writes(&scene);
    assert_eq!(writes.len(), NODES);
    let events = writes.values().flatten();
    assert!(events.clone().all(|event| event["verb"] == "patch"), "never an update of a whole object");
    let joined = Joined {
        created: lasted(creations.clone(), creations.clone()),
        free: lasted(creations, writes.values().flatten()),
        most_writes: writes.values().map(Vec::len).max().unwrap_or_default(),
        look_ups: look_ups(&scene),
    };
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
    joined
}

/// Proves: COST-1, COST-13
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_nodes_cost_two_writes_each_and_a_handful_of_cloud_calls() {
    let joined = a_thousand_nodes_join(Path::new(env!("CARGO_BIN_EXE_nephos"))).await;
    println!("{joined:.2?}");
    assert!(joined.most_writes <= 2, "{} writes of one node", joined.most_writes);
    assert!(joined.look_ups <= 20, "{} look-up calls", joined.look_ups);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make bench"]
async fn bench_a_thousand_nodes_are_free_soon_after_the_last_was_created() {
    let program = std::env::var_os("NEPHOS_DIST").map(PathBuf::from);
    let program = program.expect("NEPHOS_DIST names the binary of the profile dist: make bench sets it");
    let joined = a_thousand_nodes_join(&program).await;
    println!("{joined:.2?}");
    let ratio = joined.free.as_secs_f64() / joined.created.as_secs_f64();
    assert!(ratio <= 1.2, "{ratio:.2} times the time that creating them takes");
}

/// Proves: NODE-33
#[tokio::test(flavor = "multi_thread")]
async fn a_dual_stack_node_is_not_written_in_twenty_rounds_of_comparing() {
    let scene = scene(0).await;
    let machine =
        Machine::new("dual").with_address("InternalIP", "10.8.0.1").with_address("InternalIP", "fd08::1");
    scene.world.add_machine(machine);
    let mut nephos = scene.nephos(&["--node-status-update-frequency=500ms", "--v=4"]);
    nephos.wait_for(LEADS, PATIENCE).await;
    let client = scene.client().await;
    let both = Network {
        default_route: vec!["10.8.0.1".parse().expect("an IP"), "fd08::1".parse().expect("an IP")],
        ..Network::default()
    };
    let kubelet = Kubelet::new("dual").network(both);
    register_all(&client, std::slice::from_ref(&kubelet), 1).await.expect("the node registers");
    initialised(&Api::all(client), 1).await;
    let before = writes(&scene)["dual"].len();
    let compared = nephos.count(COMPARED);
    eventually("twenty rounds", async || (nephos.count(COMPARED) >= compared + 20).then_some(())).await;
    assert_eq!(writes(&scene)["dual"].len(), before, "nothing differs, nothing is written");
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// What a Node must look like in the end, from what its kubelet registered: nothing but what initialising adds.
fn expected(registered: &Node, name: &str, ip: &str) -> Value {
    let mut node = serde_json::to_value(registered).expect("a Node");
    node["spec"]["providerID"] = json!(format!("fake://{name}"));
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let taints: Vec<Value> = taints.into_iter().filter(|taint| taint["key"] != UNINITIALIZED).collect();
    node["spec"]["taints"] = json!(taints);
    for (key, value) in [
        ("topology.kubernetes.io/zone", "zone-a"),
        ("failure-domain.beta.kubernetes.io/zone", "zone-a"),
        ("topology.kubernetes.io/region", "region-1"),
        ("failure-domain.beta.kubernetes.io/region", "region-1"),
        ("node.kubernetes.io/instance-type", "fake.small"),
        ("beta.kubernetes.io/instance-type", "fake.small"),
    ] {
        node["metadata"]["labels"][key] = json!(value);
    }
    let hostname = node["status"]["addresses"].as_array().into_iter().flatten();
    let hostname: Vec<Value> = hostname.filter(|each| each["type"] == "Hostname").cloned().collect();
    node["status"]["addresses"] =
        json!([&[json!({ "type": "InternalIP", "address": ip })], &hostname[..]].concat());
    without_versions(node)
}

/// A Node without what every write changes, and without the difference between nothing and an empty list.
fn without_versions(mut node: Value) -> Value {
    for field in ["resourceVersion", "managedFields", "generation"] {
        node["metadata"].as_object_mut().expect("metadata").remove(field);
    }
    let taints = &node["spec"]["taints"];
    if taints.is_null() || taints.as_array().is_some_and(Vec::is_empty) {
        node["spec"].as_object_mut().expect("a spec").remove("taints");
    }
    node
}

/// Proves: NODE-14
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_killed_amid_five_hundred_nodes_costs_none_of_them() {
    const NODES: usize = 500;
    let scene = scene(NODES).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(NODES), 20).await.expect("the nodes register");
    let registered = nodes.list(&ListParams::default()).await.expect("listing nodes").items;
    // Few at a time, so that the middle is long enough to hit.
    let mut nephos = scene.nephos(&["--concurrent-node-syncs=2"]);
    eventually("some nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.ok()?;
        (listed.items.iter().filter(|node| !is_tainted(node)).count() > 50).then_some(())
    })
    .await;
    scene.cluster.api_server().kill().await.expect("the API server is killed");
    scene.cluster.api_server().start().await.expect("the API server starts again");
    let before = nodes.list(&ListParams::default()).await.expect("listing nodes");
    let waiting = before.items.iter().filter(|node| is_tainted(node)).count();
    assert!(waiting > 50, "it was killed in the middle: {waiting} are still waiting");
    initialised(&nodes, NODES).await;

    let ended = nodes.list(&ListParams::default()).await.expect("listing nodes").items;
    for (number, (registered, ended)) in registered.iter().zip(&ended).enumerate() {
        let ip = format!("10.8.{}.{}", number / 250, number % 250 + 1);
        let ended = without_versions(serde_json::to_value(ended).expect("a Node"));
        assert_eq!(ended, expected(registered, &name(number), &ip), "{}", name(number));
    }
    let synced = eventually("every node has its event", async || {
        let events: Api<Event> = Api::default_namespaced(client.clone());
        let listed = events.list(&ListParams::default()).await.ok()?;
        let synced = listed.items.into_iter().filter(|event| event.reason.as_deref() == Some("Synced"));
        let synced: Vec<Event> = synced.collect();
        (synced.len() >= NODES).then_some(synced)
    })
    .await;
    let about: BTreeSet<Option<String>> =
        synced.iter().map(|event| event.involved_object.name.clone()).collect();
    assert_eq!((about.len(), synced.len()), (NODES, NODES), "one event a node, none twice");
    assert!(synced.iter().all(|event| event.count == Some(1)), "none twice");
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}
