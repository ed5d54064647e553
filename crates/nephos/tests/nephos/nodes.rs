//! Nodes, from the kubelet's registration to the end of their machine, through the whole binary.

use std::path::Path;
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use provider_fake::Config;
use provider_fake::config::Slot;

use crate::PATIENCE;
use crate::scene::{Scene, eventually, free_port};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub(crate) fn kubelets(count: usize) -> Vec<Kubelet> {
    (0..count).map(|number| Kubelet::new(format!("worker-{number:02}"))).collect()
}

pub(crate) fn is_initialised(node: &Node) -> bool {
    let spec = node.spec.clone().unwrap_or_default();
    let tainted = spec.taints.unwrap_or_default().iter().any(|taint| taint.key == UNINITIALIZED);
    spec.provider_id.is_some_and(|id| id.starts_with("fake://")) && !tainted
}

/// A client of the manager's own port, with the credentials of a kubeconfig.
pub(crate) async fn port_client(kubeconfig: &Path, port: u16) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).expect("reading the kubeconfig");
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .expect("using the kubeconfig");
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().expect("a URL");
    config.accept_invalid_certs = true;
    config.proxy_url = None;
    kube::Client::try_from(config).expect("a client")
}

pub(crate) async fn page(client: &kube::Client, path: &str) -> String {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    client.request_text(request).await.unwrap_or_else(|error| format!("{path}: {error:?}"))
}

/// Proves: APP-17, APP-20, APP-21, APP-54
#[tokio::test]
async fn twenty_nodes_are_initialised_and_the_one_whose_machine_vanishes_is_deleted() {
    let scene = Scene::set().await;
    let port = free_port();
    let mut nephos = scene.nephos(&[
        &format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
        "--node-deletion-grace-period=1s",
        "--node-monitor-period=1s",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(20), 10).await.expect("the nodes register");
    eventually("all nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
        (listed.items.iter().filter(|node| is_initialised(node)).count() == 20).then_some(())
    })
    .await;

    let own = port_client(&scene.kubeconfig, port).await;
    let metrics = page(&own, "/metrics").await;
    for line in [
        r#"running_managed_controllers{name="cloud-node",manager="cloud-controller-manager"} 1"#,
        r#"leader_election_master_status{name="cloud-controller-manager"} 1"#,
        "node_controller_initial_node_sync_delay_seconds_count 20",
        "nephos_cloud_calls_total",
    ] {
        assert!(metrics.contains(line), "{line} is missing in:\n{metrics}");
    }
    let ready = page(&own, "/readyz?verbose").await;
    for check in ["leaderElection", "cloud-node-controller", "cloud-node-lifecycle-controller", "cache-nodes"]
    {
        assert!(ready.contains(&format!("[+]{check} ok")), "{check} is missing in:\n{ready}");
    }
    assert!(page(&own, "/flagz").await.contains("node-monitor-period"), "the flags in force");

    assert!(scene.world.remove_machine("worker-07"), "the machine was there");
    let silent = Kubelet::new("worker-07").ready(false);
    silent.heartbeat(&client).await.expect("the kubelet says that it is not ready");
    eventually("the node of the vanished machine is gone", async || {
        nodes.get_opt("worker-07").await.expect("reading the node").is_none().then_some(())
    })
    .await;
    let left = nodes.list(&ListParams::default()).await.expect("listing nodes");
    assert_eq!(left.items.len(), 19, "only that one is gone");
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    nephos.terminate();
    assert_eq!(nephos.exit_code(Duration::from_secs(10)).await, Some(0));
    scene.end().await;
}

/// Proves: NODE-1, LIFE-1
#[tokio::test]
async fn without_instances_both_node_controllers_are_skipped_and_the_log_says_why() {
    let cloud = Config { lacks: vec![Slot::Instances], ..Config::default() };
    let scene = Scene::with(ControlPlane::builder(), cloud).await;
    let mut nephos = scene.nephos(&[]);
    nephos.wait_for("became leader", PATIENCE).await;
    let why = "the cloud provider does not support instances";
    nephos.wait_for(why, PATIENCE).await;
    let log = nephos.log();
    let skipped = log.lines().filter(|line| line.contains("Skipping") && line.contains(why));
    let skipped: Vec<&str> = skipped.collect();
    assert_eq!(skipped.len(), 2, "{log}");
    for controller in ["cloud-node-controller", "cloud-node-lifecycle-controller"] {
        assert!(skipped.iter().any(|line| line.contains(controller)), "{controller}: {log}");
    }
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}
