use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Identity, Spec};
use cloud_provider::{
    Capability, ClusterId, ClusterIdentity, Clusters, Context, Decision, Existence, Freshness, NodeRef,
    Route, VolumeRequest,
};
use controller_kit::clock::TokioClock as WallClock;
use controller_kit::leader::Leadership;
use controller_kit::metrics::encode;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Service};
use prometheus_client::registry::Registry;
use provider_fake::clock::TokioClock;
use provider_fake::config::RateLimit;
use provider_fake::{Config, Effect, Fault, World};
use serde_json::json;
use testkit::EPOCH;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::super::budget;
use super::super::gate::{DecisionLog, LeaseGate, Mode};
use super::super::loader::Age;
use super::*;

/// A fake cloud, surrounded, with a gate that is open.
struct Scene {
    world: World,
    surrounded: Surrounded,
    gate: LeaseGate,
    registry: Registry,
}

fn cluster() -> ClusterIdentity {
    ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid("cluster-1".into()))
}

fn scene(config: Config) -> Scene {
    let mut context = Context::inert().with_cluster(cluster());
    context.clock = Arc::new(TokioClock::start());
    let world = World::new(config, Arc::clone(&context.clock));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let budget = Budget::new("fake", budget::Settings::default(), &metrics);
    let surrounded = surround(world.cloud(&context), budget, Deadlines::default(), &metrics);
    let log = DecisionLog::new(Arc::new(WallClock::starting_at(EPOCH)));
    let gate = LeaseGate::new("fake", Leadership::unconditional(), Mode::Act, log, &metrics);
    Scene { world, surrounded, gate, registry }
}

fn node_ref(name: &str) -> NodeRef {
    NodeRef { name: name.into(), provider_id: Some(format!("fake://{name}")), ..NodeRef::default() }
}

fn spec() -> Spec {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f" },
        "spec": { "ports": [{ "port": 80, "nodePort": 30080 }] },
    }))
    .unwrap();
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "a" }, "spec": { "providerID": "fake://a" },
    }))
    .unwrap();
    Spec::new(Arc::new(service), vec![Arc::new(node)], &cluster()).unwrap()
}

fn route(i: u32) -> Route {
    let destination = format!("10.{}.{}.0/24", i / 256, i % 256).parse().unwrap();
    Route::new(destination).to_node("a", Vec::new())
}

impl Scene {
    /// Makes a route, coming back as often as the answer asks for; says how long it took.
    async fn create_route(&self, i: u32) -> Duration {
        let (started, changes) = (Instant::now(), self.gate.changes());
        let routes = self.surrounded.cloud(Urgency::Create).routes.unwrap();
        loop {
            let made = routes.create(&cluster(), &format!("uid-{i}"), &route(i), &changes).await;
            match made.map_err(|error| error.decision().clone()) {
                Ok(()) => return started.elapsed(),
                Err(Decision::Throttled { after }) => sleep(after.unwrap_or(Duration::from_secs(1))).await,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_surrounded_cloud_can_do_what_the_cloud_can_and_no_more() {
    let Scene { surrounded, .. } = scene(Config::default());
    let small = Cloud::new("small").with_clusters(Arc::new(Broken));
    let small = Surrounded { cloud: small, calls: surrounded.calls.clone() };
    for surrounded in [surrounded, small] {
        let (raw, seen) = (&surrounded.cloud, surrounded.cloud(Urgency::Drift));
        assert_eq!((&raw.name, &raw.cluster_id), (&seen.name, &seen.cluster_id));
        for capability in Capability::ALL {
            assert_eq!(raw.can(capability), seen.can(capability), "{capability:?}");
        }
        assert_eq!(surrounded.loader(loader::Settings::default()).is_some(), raw.instances.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn every_method_reaches_the_cloud_and_is_counted_under_its_own_name() {
    let scene = scene(Config::default());
    let (cloud, changes, cluster) =
        (scene.surrounded.cloud(Urgency::Create), scene.gate.changes(), cluster());
    let (spec, node) = (spec(), node_ref("a"));

    let instances = cloud.instances.unwrap();
    let found = instances.lookup(std::slice::from_ref(&node), Freshness::Now).await.unwrap();
    assert!(matches!(found[0], Existence::Found(_)));

    let (raw, balancers) =
        (scene.surrounded.cloud.load_balancers.as_ref().unwrap(), cloud.load_balancers.unwrap());
    let identity = Identity::of(&spec.service, &cluster);
    assert_eq!(format!("{:?}", balancers.describe()), format!("{:?}", raw.describe()));
    assert_eq!(balancers.name(&identity), raw.name(&identity));
    assert_eq!(balancers.get(&spec).await.unwrap(), None);
    balancers.ensure(&spec, &changes).await.unwrap();
    balancers.update_backends(&spec, &changes).await.unwrap();
    assert_eq!(balancers.list_owned(&cluster).await.unwrap().len(), 1);
    balancers.delete(&identity, None, &changes).await.unwrap();

    let routes = cloud.routes.unwrap();
    routes.create(&cluster, "uid", &route(1), &changes).await.unwrap();
    let listed = routes.list(&cluster).await.unwrap();
    assert_eq!(listed[0].destination, route(1).destination);
    routes.delete(&cluster, &listed[0], &changes).await.unwrap();

    let volumes = cloud.volumes.unwrap();
    let request = VolumeRequest { name: "pvc-1".into(), bytes: 1 << 30, ..VolumeRequest::default() };
    let id = volumes.create(&request, &changes).await.unwrap().id;
    volumes.attach(&id, &node, &changes).await.unwrap();
    volumes.detach(&id, &node, &changes).await.unwrap();
    assert_eq!(volumes.resize(&id, 2 << 30, &changes).await.unwrap(), 2 << 30);
    assert_eq!(volumes.get(&id).await.unwrap().bytes, 2 << 30);
    assert_eq!(volumes.list().await.unwrap().len(), 1);
    assert_eq!(volumes.labels_for(&PersistentVolume::default()).await.unwrap(), None);
    volumes.delete(&id, &changes).await.unwrap();

    let clusters = cloud.clusters.unwrap();
    clusters.list().await.unwrap();
    assert_eq!(clusters.control_plane_address("x").await.unwrap_err().decision(), &Decision::NotFound);

    let text = encode(&scene.registry).unwrap();
    let counted = |line: &str| {
        let labels = line.strip_prefix(r#"nephos_cloud_calls_total{provider="fake",operation=""#)?;
        Some(labels.replace(r#"",result=""#, " ").replace(r#""} "#, " "))
    };
    let counted: BTreeSet<String> = text.lines().filter_map(counted).collect();
    let reads =
        ["get_load_balancer", "get_volume", "label_volume", "list_clusters", "list_owned", "list_routes"];
    let writes = [
        "attach_volume",
        "create_route",
        "create_volume",
        "delete_load_balancer",
        "delete_route",
        "delete_volume",
        "detach_volume",
        "ensure_load_balancer",
        "list_volumes",
        "lookup_instances",
        "resize_volume",
        "update_backends",
    ];
    let expected = reads.into_iter().chain(writes).map(|name| format!("{name} ok 1"));
    assert_eq!(counted, expected.chain(["get_control_plane_address not_found 1".to_owned()]).collect());
    assert_eq!(scene.world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_never_comes_ends_and_is_found_by_the_next_one() {
    let scene = scene(Config::default());
    scene.world.inject(Fault::once("create_route", Effect::HangAfter)).unwrap();
    let routes = scene.surrounded.cloud(Urgency::Create).routes.unwrap();
    let changes = scene.gate.changes_for("node a");
    let started = Instant::now();
    let hung = routes.create(&cluster(), "uid", &route(1), &changes).await;
    assert_eq!(hung.unwrap_err().decision(), &Decision::Other);
    assert_eq!(started.elapsed(), Duration::from_secs(60));
    let log = scene.gate.log().entries();
    assert!(log[0].to_string().ends_with("(interrupted) for node a"), "{}", log[0]);
    routes.create(&cluster(), "uid", &route(1), &changes).await.unwrap();
    assert_eq!(scene.world.contents().routes.len(), 1);
    assert_eq!(scene.surrounded.calls().budget().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn creates_go_on_while_every_other_call_hangs() {
    let scene = scene(Config::default());
    scene.world.inject(Fault::new("list_instances", Effect::Hang)).unwrap();
    let instances = scene.surrounded.cloud(Urgency::Refresh).instances.unwrap();
    let mut hung = JoinSet::new();
    for i in 0..100 {
        let instances = Arc::clone(&instances);
        hung.spawn(async move { instances.lookup(&[node_ref(&i.to_string())], Freshness::Now).await });
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.surrounded.calls().budget().in_flight(), 12);
    assert_eq!(scene.create_route(1).await, Duration::ZERO);
    let ended = timeout(Duration::from_secs(120), hung.join_all()).await.unwrap();
    assert!(ended.iter().all(Result::is_err));
}

/// A cloud that bears five calls a second, and a hundred refreshers that would make thousands.
#[tokio::test(start_paused = true)]
async fn creates_keep_their_priority_at_a_cloud_that_throttles() {
    let rate_limit = Some(RateLimit { per_second: 5.0, burst: 5 });
    let scene = scene(Config { rate_limit, latency: Duration::from_millis(50), ..Config::default() });
    let routes = scene.surrounded.cloud(Urgency::Refresh).routes.unwrap();
    let refreshed = Arc::new(Mutex::new(0));
    let mut refreshers = JoinSet::new();
    for _ in 0..100 {
        let (routes, refreshed) = (Arc::clone(&routes), Arc::clone(&refreshed));
        refreshers.spawn(async move {
            loop {
                match routes.list(&cluster()).await {
                    Ok(_) => *refreshed.lock().unwrap() += 1,
                    Err(_) => sleep(Duration::from_secs(1)).await,
                }
            }
        });
    }
    let mut slowest = Duration::ZERO;
    for i in 0..20 {
        sleep(Duration::from_secs(3)).await;
        slowest = slowest.max(scene.create_route(i).await);
    }
    let (counters, refreshed) = (scene.world.counters(), *refreshed.lock().unwrap());
    let (calls, refused) = (counters.total(), counters.by_outcome["throttled"]);
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    assert!(refreshed > 200, "the others are not starved: {refreshed}");
    assert!(refused * 2 < calls, "no storm: {refused} of {calls} refused");
    refreshers.shutdown().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.surrounded.calls().budget().slots(), 16, "and all is forgotten two windows later");
}

#[tokio::test(start_paused = true)]
async fn five_thousand_nodes_cost_the_pages_of_one_list() {
    let scene = scene(Config { page_size: 100, ..Config::default() });
    let loader = scene.surrounded.loader(loader::Settings::default()).unwrap();
    let nodes: Vec<NodeRef> = (0..5000).map(|i| node_ref(&format!("node-{i}"))).collect();
    let answers = loader.many(&nodes, Urgency::Refresh, Age::Now).await;
    assert!(answers.iter().all(|answer| matches!(**answer, Existence::Found(_))));
    let reads = scene.world.counters().reads;
    assert!(reads <= 102, "{reads} calls");
}

/// A provider with a defect.
struct Broken;

#[async_trait]
impl Clusters for Broken {
    async fn list(&self) -> Result<Vec<String>, Error> {
        panic!("no element at 0")
    }

    async fn control_plane_address(&self, cluster: &str) -> Result<String, Error> {
        Ok(format!("192.0.2.1 for {cluster}"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_panics_costs_its_caller_one_answer() {
    let Scene { mut surrounded, .. } = scene(Config::default());
    surrounded.cloud.clusters = Some(Arc::new(Broken));
    let clusters = surrounded.cloud(Urgency::Drift).clusters.unwrap();
    let error = clusters.list().await.unwrap_err();
    assert_eq!(error.report(), "the provider fake panicked in list_clusters: no element at 0");
    assert_eq!(clusters.control_plane_address("x").await.unwrap(), "192.0.2.1 for x");
}
