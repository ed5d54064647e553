//! A cloud config that changes while the manager works.

use control_plane::Kubelet;
use control_plane::kubelet::register_all;
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::PATIENCE;
use crate::nodes::is_initialised;
use crate::scene::{Scene, eventually};

async fn zone_of(nodes: &Api<Node>, name: &str) -> Option<String> {
    eventually("the node is initialised", async || {
        let node = nodes.get(name).await.expect("reading the node");
        is_initialised(&node).then(|| node.metadata.labels?.remove("topology.kubernetes.io/zone"))
    })
    .await
}

#[tokio::test]
async fn a_broken_cloud_config_is_told_and_left_and_a_good_one_is_taken_without_a_restart() {
    let scene = Scene::set().await;
    scene.configure("zones: [first]\n");
    let mut nephos = scene.nephos(&["--cloud-config-reload-period=200ms"]);
    nephos.wait_for("became leader", PATIENCE).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &[Kubelet::new("before")], 1).await.expect("the node registers");
    assert_eq!(zone_of(&nodes, "before").await.as_deref(), Some("first"));

    scene.configure("zones: [second]\nno-such-key: 1\n");
    nephos.wait_for("The cloud config on disk cannot be used", PATIENCE).await;
    register_all(&client, &[Kubelet::new("meanwhile")], 1).await.expect("the node registers");
    assert_eq!(zone_of(&nodes, "meanwhile").await.as_deref(), Some("first"), "the last good one is in force");
    let told = eventually("an event tells it", async || {
        scene.lease_events("CloudConfigRejected").await.into_iter().next()
    })
    .await;
    assert!(told.contains("no-such-key"), "{told}");
    assert_eq!(nephos.count("The cloud config on disk cannot be used"), 1, "once, not at every look");

    scene.configure("zones: [third]\n");
    nephos.wait_for("A new version of the cloud config is in force", PATIENCE).await;
    register_all(&client, &[Kubelet::new("after")], 1).await.expect("the node registers");
    assert_eq!(zone_of(&nodes, "after").await.as_deref(), Some("third"));
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

#[tokio::test]
async fn without_an_election_the_events_are_about_the_lease_that_it_would_have() {
    let scene = Scene::set().await;
    let mut nephos = scene.nephos(&["--leader-elect=false", "--cloud-config-reload-period=200ms"]);
    nephos.wait_for("Built the cloud provider", PATIENCE).await;
    scene.configure("no-such-key: 1\n");
    let told = eventually("an event tells it", async || {
        scene.lease_events("CloudConfigRejected").await.into_iter().next()
    })
    .await;
    assert!(told.contains("no-such-key"), "{told}");
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}
