//! How the manager ends, asked or not, while it is at work: nothing is lost, nothing is done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{ListParams, PostParams};
use provider_fake::Config;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::PATIENCE;
use crate::nodes::{is_initialised, kubelets};
use crate::scene::{Scene, eventually};

/// A lease that is over soon, so that many crashes take little time.
const SHORT_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

async fn initialised(nodes: &Api<Node>) -> usize {
    let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
    listed.items.iter().filter(|node| is_initialised(node)).count()
}

/// Proves: APP-32, APP-59
#[tokio::test]
async fn a_leader_that_is_told_to_end_amid_200_operations_is_gone_in_time_and_nothing_is_lost() {
    let slow = Config {
        latencies: [("list_instances".to_owned(), Duration::from_secs(2))].into(),
        ..Config::default()
    };
    let scene = Scene::with(ControlPlane::builder(), slow).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(200), 20).await.expect("the nodes register");
    let workers = "--concurrent-node-syncs=200";
    let mut first = scene.nephos(&[workers]);
    first.wait_for("Started \\\"cloud-node-controller\\\"", PATIENCE).await;
    let mut second = scene.nephos(&[workers]);
    second.wait_for("new leader elected", PATIENCE).await;

    let asked = Instant::now();
    let before = initialised(&nodes).await;
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

    eventually("every node is initialised", async || (initialised(&nodes).await == 200).then_some(())).await;
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    println!(
        "{before} of 200 were initialised when it was told to end; it ended after {ended:?}, the standby led {led:?} after the release"
    );
    second.terminate();
    assert_eq!(second.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// What a cluster and its cloud look like in the end, without what differs from run to run.
async fn picture(scene: &Scene) -> BTreeMap<String, serde_json::Value> {
    let client = scene.client().await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.expect("listing nodes");
    let services = Api::<Service>::all(client).list(&ListParams::default()).await.expect("listing services");
    let mut picture = BTreeMap::new();
    for node in nodes.items {
        let spec = node.spec.clone().unwrap_or_default();
        let taints: Vec<_> = spec.taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect();
        let status = node.status.clone().unwrap_or_default();
        // Which address a machine has depends on which was seen first.
        let addresses = status.addresses.unwrap_or_default().into_iter().map(|each| each.type_);
        let shown = json!({
            "provider": spec.provider_id, "taints": taints, "labels": node.metadata.labels,
            "addresses": addresses.collect::<Vec<_>>(), "networked": spec.pod_cidr.is_some(),
        });
        picture.insert(format!("node {}", node.metadata.name.unwrap_or_default()), shown);
    }
    for service in
        services.items.into_iter().filter(|service| service.metadata.name.as_deref() != Some("kubernetes"))
    {
        let ingress =
            service.status.and_then(|status| status.load_balancer).and_then(|status| status.ingress);
        let shown = json!({
            "served": ingress.map_or(0, |ingress| ingress.len()), "finalizers": service.metadata.finalizers,
        });
        picture.insert(format!("service {}", service.metadata.name.unwrap_or_default()), shown);
    }
    let contents = scene.world.contents();
    picture.insert("balancers".to_owned(), json!(contents.balancers.len()));
    picture.insert("routes".to_owned(), json!(contents.routes.len()));
    picture
}

pub(crate) fn balanced(name: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}},
    }))
    .expect("a service")
}

fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The next thing that happens in the cluster; `false` when nothing is left to happen.
async fn act(scene: &Scene, step: usize) -> bool {
    let client = scene.client().await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let all = kubelets(12);
    match step {
        0..4 => {
            register_all(&client, &all[step * 3..step * 3 + 3], 3).await.expect("nodes register");
            let made = services.create(&PostParams::default(), &balanced(&format!("web-{step}"))).await;
            assert!(made.is_ok() || made.is_err_and(|error| is_code(&error, 409)), "creating a service");
        }
        4 | 5 => {
            let nodes: Api<Node> = Api::all(client.clone());
            let name = format!("worker-{:02}", step * 2);
            // A machine can only vanish from under a node that had one.
            let gone = eventually("the node has its machine", async || {
                let node = nodes.get_opt(&name).await.expect("reading the node");
                node.is_none_or(|node| is_initialised(&node)).then_some(())
            });
            gone.await;
            // A crash of the last try may have come after this.
            scene.world.remove_machine(&name);
            // Its node may be gone already.
            let _ = Kubelet::new(&name).ready(false).heartbeat(&client).await;
        }
        6 => {
            let removed = services.delete("web-1", &kube::api::DeleteParams::default()).await;
            assert!(
                removed.is_ok() || removed.is_err_and(|error| is_code(&error, 404)),
                "deleting a service"
            );
        }
        _ => return false,
    }
    true
}

fn flags(extra: &[&'static str]) -> Vec<&'static str> {
    let mut flags = vec![
        "--node-deletion-grace-period=1s",
        "--node-monitor-period=1s",
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.244.0.0/16",
    ];
    flags.extend(SHORT_LEASE);
    flags.extend(extra);
    flags
}

/// Waits until the picture is complete and stays the same.
async fn settled(scene: &Scene) -> BTreeMap<String, serde_json::Value> {
    let mut last = (picture(scene).await, Instant::now());
    eventually("the picture settles", async || {
        let now = picture(scene).await;
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(8)).then(|| last.0.clone())
    })
    .await
}

/// The story without a crash.
async fn undisturbed() -> BTreeMap<String, serde_json::Value> {
    let scene = Scene::set().await;
    let mut nephos = scene.nephos(&flags(&[]));
    nephos.wait_for("became leader", PATIENCE).await;
    let mut step = 0;
    while act(&scene, step).await {
        step += 1;
    }
    let picture = settled(&scene).await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
    picture
}

async fn crashed(times: u32) {
    let expected = undisturbed().await;
    assert_eq!(expected.keys().filter(|key| key.starts_with("node ")).count(), 10, "two machines vanished");
    let scene = Scene::set().await;
    let mut seed: u64 = 0x5eed_cafe;
    let mut step = 0;
    for crash in 0..times {
        let nephos = scene.nephos(&flags(&[]));
        // xorshift: crashes at other moments each time, and at the same ones in the next run.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let story = async {
            if crash * 7 / times >= u32::try_from(step).unwrap_or(u32::MAX) && act(&scene, step).await {
                step += 1;
            }
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(500 + seed % 5500), story).await;
        nephos.kill();
        drop(nephos);
    }
    let mut last = scene.nephos(&flags(&[]));
    last.wait_for("became leader", PATIENCE).await;
    while act(&scene, step).await {
        step += 1;
    }
    let ended = eventually_equal(&scene, &expected).await;
    assert_eq!(ended, expected, "after {times} crashes:\n{}", last.log());
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    last.terminate();
    assert_eq!(last.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// The picture once it is as expected, or as it is when patience ends.
async fn eventually_equal(
    scene: &Scene,
    expected: &BTreeMap<String, serde_json::Value>,
) -> BTreeMap<String, serde_json::Value> {
    let since = Instant::now();
    loop {
        let now = picture(scene).await;
        if now == *expected || since.elapsed() > PATIENCE {
            return now;
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// Proves: APP-30
#[tokio::test]
async fn ten_crashes_at_any_moment_leave_what_an_undisturbed_run_leaves() {
    crashed(10).await;
}

#[tokio::test]
#[ignore = "takes ten minutes: make soak"]
async fn a_hundred_crashes_at_any_moment_leave_what_an_undisturbed_run_leaves_soak() {
    crashed(100).await;
}
