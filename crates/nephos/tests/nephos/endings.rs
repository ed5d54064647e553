//! How the manager ends when it is asked to while it is at work: in time, with nothing lost and nothing done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use provider_fake::Config;
use provider_fake::objects::Machine;
use serde_json::json;
use tokio::time::Instant;

use crate::PATIENCE;
use crate::nodes::is_initialised;
use crate::scene::{Scene, eventually};
use crate::services::balanced;

/// Of each kind: nodes to initialise, nodes to lead routes to, and Services.
const EACH: usize = 70;

/// How long the cloud takes for what people wait for, so that all of it is under way at once.
const SLOW: Duration = Duration::from_secs(4);

fn fresh(number: usize) -> String {
    format!("fresh-{number:02}")
}

fn routed(number: usize) -> String {
    format!("routed-{number:02}")
}

async fn initialised(nodes: &Api<Node>) -> usize {
    let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
    let fresh = listed.items.iter().filter(|node| node.name_any().starts_with("fresh"));
    fresh.filter(|node| is_initialised(node)).count()
}

async fn served(services: &Api<Service>) -> usize {
    let listed = services.list(&ListParams::default()).await.expect("listing services");
    let addresses = |service: &Service| {
        let status = service.status.clone().and_then(|status| status.load_balancer);
        status.and_then(|status| status.ingress).map_or(0, |ingress| ingress.len())
    };
    listed.items.iter().filter(|service| addresses(service) == 1).count()
}

/// A cluster that has something to do for every controller, and a cloud in which it takes a while.
async fn busy_scene() -> Scene {
    let slow = ["list_instances", "create_load_balancer", "create_route"];
    let machine = |name: String, at: String| Machine::new(name).with_address("InternalIP", at);
    let machines = (0..EACH).flat_map(|number| {
        [
            machine(fresh(number), format!("10.8.0.{}", number + 1)),
            machine(routed(number), format!("10.8.1.{}", number + 1)),
        ]
    });
    let cloud = Config {
        adopt: false,
        instances: machines.collect(),
        latencies: slow.map(|operation| (operation.to_owned(), SLOW)).into(),
        ..Config::default()
    };
    let scene = Scene::with(ControlPlane::builder(), cloud).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let kubelets = (0..EACH).flat_map(|number| {
        let known = Kubelet::new(routed(number)).provider_id(format!("fake://{}", routed(number)));
        [Kubelet::new(fresh(number)), known]
    });
    register_all(&client, &kubelets.collect::<Vec<_>>(), 20).await.expect("the nodes register");
    for number in 0..EACH {
        let cidr = format!("10.244.{number}.0/24");
        let ready = json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr], "taints": null}});
        let patch = Patch::Merge(ready);
        nodes.patch(&routed(number), &PatchParams::default(), &patch).await.expect("a node with a network");
        let service = balanced(&format!("web-{number:02}"));
        services.create(&PostParams::default(), &service).await.expect("creating a service");
    }
    scene
}

/// How many calls of each name are under way in the cloud.
fn under_way(scene: &Scene) -> BTreeMap<&'static str, usize> {
    let mut under_way = BTreeMap::new();
    for call in scene.world.calls().into_iter().filter(|call| call.outcome.is_none()) {
        *under_way.entry(call.operation.name()).or_default() += 1;
    }
    under_way
}

/// Proves: APP-32, APP-59
#[tokio::test]
async fn a_leader_that_is_told_to_end_amid_200_operations_is_gone_in_time_and_nothing_is_lost() {
    let scene = busy_scene().await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let services: Api<Service> = Api::default_namespaced(client);
    let flags = [
        "--concurrent-node-syncs=100",
        "--concurrent-service-syncs=100",
        "--concurrent-route-syncs=100",
        "--cloud-calls-in-flight=300",
        "--cluster-cidr=10.244.0.0/16",
        "--allocate-node-cidrs=false",
    ];
    let mut first = scene.nephos(&flags);
    first.wait_for("became leader", PATIENCE).await;
    let mut second = scene.nephos(&flags);
    second.wait_for("new leader elected", PATIENCE).await;
    // One look-up carries all nodes; each balancer and each route is a call of its own.
    let flying = eventually("everything is under way", async || {
        let flying = under_way(&scene);
        let of = |name: &str| flying.get(name).copied().unwrap_or_default();
        let all = of("create_load_balancer") == EACH && of("create_route") == EACH;
        (all && of("list_instances") > 0).then_some(flying)
    })
    .await;
    let before = (initialised(&nodes).await, served(&services).await, scene.world.contents().routes.len());
    assert_eq!(before, (0, 0, 0), "nothing is done yet, and {flying:?} are under way");

    let asked = Instant::now();
    first.terminate();
    first.wait_for("released the lease", PATIENCE).await;
    let released = Instant::now();
    second.wait_for("became leader", PATIENCE).await;
    let led = released.elapsed();
    assert_eq!(first.exit_code(PATIENCE).await, Some(0));
    let ended = asked.elapsed();
    assert!(ended < Duration::from_secs(10), "it took {ended:?} to end");
    assert!(led < Duration::from_secs(3), "the standby led {led:?} after the release");
    assert_eq!(first.count("Cut off"), 0, "{}", first.log());
    let kept = (served(&services).await, scene.world.contents().routes.len());

    eventually("everything is done", async || {
        let done = (initialised(&nodes).await, served(&services).await, scene.world.contents().routes.len());
        (done == (EACH, EACH, EACH)).then_some(())
    })
    .await;
    let contents = scene.world.contents();
    assert_eq!((contents.balancers.len(), contents.addresses.len()), (EACH, EACH), "none twice");
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    println!(
        "told to end amid {flying:?}: it ended after {ended:?} with {kept:?} services and routes done; \
         the standby led {led:?} after the release"
    );
    second.terminate();
    assert_eq!(second.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}
