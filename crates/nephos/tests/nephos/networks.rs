//! Pod networks through the whole binary, on a real API server: node CIDRs, routes and conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use provider_fake::{Config, Operation};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::PATIENCE;
use crate::scene::Scene;

const NODES: usize = 1000;

/// How long all of them may take on a busy machine.
const LONG: Duration = Duration::from_secs(300);

fn is_reached(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.iter().any(|each| {
        each.type_ == "NetworkUnavailable"
            && each.status == "False"
            && each.reason.as_deref() == Some("RouteCreated")
    })
}

fn cidrs(node: &Node) -> Vec<String> {
    node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default()
}

/// How often each Node was patched with what `matches`, by the audit log.
fn patches(events: &[Value], matches: impl Fn(&Value) -> bool) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for event in events.iter().filter(|event| event["verb"] == "patch" && matches(&event["requestObject"])) {
        let reference = &event["objectRef"];
        if reference["resource"] == "nodes" {
            *count.entry(reference["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    count
}

/// Proves: ROUTE-32, ROUTE-36, IPAM-11, IPAM-18
#[tokio::test]
async fn a_thousand_nodes_get_cidrs_routes_and_conditions_each_once() {
    let scene = Scene::with(ControlPlane::builder().audit(true), Config::default()).await;
    let mut nephos = scene.nephos(&[
        "--allocate-node-cidrs",
        "--cluster-cidr=10.128.0.0/9,fd00:10::/48",
        "--service-cluster-ip-range=10.128.0.0/20",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let client = scene.client().await;
    let kubelets: Vec<Kubelet> = (0..NODES).map(|number| Kubelet::new(format!("n{number:04}"))).collect();
    let began = Instant::now();
    register_all(&client, &kubelets, 20).await.expect("the nodes register");
    let registered = began.elapsed();
    let nodes: Api<Node> = Api::all(client.clone());
    let all = loop {
        let all = nodes.list(&ListParams::default()).await.expect("listing nodes").items;
        let reached = all.iter().filter(|node| is_reached(node)).count();
        if reached == NODES {
            break all;
        }
        assert!(began.elapsed() < LONG, "{reached} of {NODES} nodes are reached after {LONG:?}");
        sleep(Duration::from_millis(500)).await;
    };
    println!("{NODES} nodes registered after {registered:?} and reached after {:?}", began.elapsed());
    // Whatever would be done a second time has time to be.
    sleep(Duration::from_secs(15)).await;

    let given: BTreeSet<String> = all.iter().flat_map(cidrs).collect();
    assert_eq!(given.len(), 2 * NODES, "two each, and no two the same");
    let services: ipnet::Ipv4Net = "10.128.0.0/20".parse().expect("a network");
    let taken = given.iter().filter_map(|cidr| cidr.parse::<ipnet::Ipv4Net>().ok());
    assert_eq!(taken.filter(|cidr| services.contains(cidr)).count(), 0, "the Services' own stay free");
    let routes = scene.world.contents().routes;
    let led: BTreeSet<String> = routes.iter().map(|route| route.destination.to_string()).collect();
    assert_eq!((led, routes.len()), (given, 2 * NODES));
    let counters = scene.world.counters();
    assert_eq!(counters.of(Operation::CreateRoute), 2 * NODES as u64, "each route is made once");
    assert_eq!(counters.of(Operation::DeleteRoute), 0);

    let events = scene.cluster.audit_events().expect("the audit log");
    let assigned = patches(&events, |body| body["spec"]["podCIDRs"].is_array());
    let told = patches(&events, |body| {
        let conditions = body["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|each| each["type"] == "NetworkUnavailable").count() > 0
    });
    for (what, count) in [("CIDRs", assigned), ("a condition", told)] {
        let more: Vec<_> = count.iter().filter(|(_, times)| **times != 1).take(5).collect();
        assert_eq!((count.len(), more), (NODES, Vec::new()), "each node gets {what} with one patch");
    }
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    nephos.terminate();
    assert_eq!(nephos.exit_code(Duration::from_secs(20)).await, Some(0));
    scene.end().await;
}

/// Proves: ROUTE-3, ROUTE-6, IPAM-3
#[tokio::test]
async fn without_pod_networks_the_process_goes_on_and_says_what_it_does_without() {
    let scene = Scene::set().await;
    let mut nephos = scene.nephos(&[]);
    nephos.wait_for("--allocate-node-cidrs is false", PATIENCE).await;
    nephos.wait_for("--cluster-cidr is not set", PATIENCE).await;
    let client = scene.client().await;
    register_all(&client, &[Kubelet::new("a")], 1).await.expect("the node registers");
    let nodes: Api<Node> = Api::all(client);
    crate::scene::eventually("the node is initialised all the same", async || {
        let node = nodes.get("a").await.expect("reading the node");
        node.spec.and_then(|spec| spec.provider_id)
    })
    .await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(Duration::from_secs(20)).await, Some(0));
    scene.end().await;
}
