//! Kubelets and the real API server: what it lets a Node's own identity do, and what it makes of the result.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails, in its fixtures too")]

use std::time::Duration;

use control_plane::ControlPlane;
use control_plane::kubelet::{Kubelet, PROVIDED_NODE_IP, Registration, UNINITIALIZED_TAINT, register_all};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

async fn merge(nodes: &Api<Node>, name: &str, patch: Value) -> Result<Node, kube::Error> {
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
}

async fn client_of(cluster: &ControlPlane, node: &str) -> Client {
    cluster.client_for(&format!("system:node:{node}"), &["system:nodes"]).await.unwrap()
}

/// Proves: KUBELET-1, KUBELET-2, KUBELET-3, KUBELET-6, KUBELET-7, KUBELET-8, KUBELET-9
#[tokio::test]
async fn a_node_is_registered_by_its_own_identity_initialised_by_a_cloud_and_registered_again() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.admin().await.unwrap());
    let client = client_of(&cluster, "n1").await;
    let kubelet = Kubelet::new("n1")
        .node_ip("10.0.0.1,fd00::1".parse::<control_plane::kubelet::NodeIp>().unwrap())
        .provider_id("cloud://1")
        .label("topology.kubernetes.io/zone", "of-the-kubelet")
        .taint("gpu", "yes", "NoExecute");

    assert_eq!(kubelet.register(&client).await.unwrap(), Registration::Created);
    let node = nodes.get("n1").await.unwrap();
    let spec = node.spec.clone().unwrap();
    let taints: Vec<String> = spec.taints.unwrap().into_iter().map(|taint| taint.key).collect();
    // The API server adds its own not-ready taint (admission plugin TaintNodesByCondition) after the kubelet's.
    assert_eq!(taints[..2], ["gpu", UNINITIALIZED_TAINT]);
    assert_eq!(spec.provider_id.as_deref(), Some("cloud://1"));
    assert_eq!(node.annotations()[PROVIDED_NODE_IP], "10.0.0.1,fd00::1");
    let addresses = node.status.clone().unwrap().addresses.unwrap();
    let addresses: Vec<&str> = addresses.iter().map(|address| address.address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.1", "fd00::1", "n1"]);

    assert_eq!(kubelet.register(&client).await.unwrap(), Registration::Unchanged);
    assert!(!kubelet.sync_status(&client).await.unwrap());
    assert_eq!(nodes.get("n1").await.unwrap().resource_version(), node.resource_version());

    // A cloud initialises the Node: no taint, other addresses, labels of its own.
    let labels =
        json!({ "topology.kubernetes.io/zone": "of-the-cloud", "topology.kubernetes.io/region": "r" });
    merge(&nodes, "n1", json!({ "metadata": { "labels": labels }, "spec": { "taints": null } }))
        .await
        .unwrap();
    let addresses = json!({ "status": { "addresses": [{ "type": "ExternalIP", "address": "192.0.2.1" }] } });
    let patch = Patch::Merge(&addresses);
    nodes.patch_status("n1", &PatchParams::default(), &patch).await.unwrap();

    assert_eq!(kubelet.register(&client).await.unwrap(), Registration::Restored);
    kubelet.heartbeat(&client).await.unwrap();
    let node = nodes.get("n1").await.unwrap();
    assert_eq!(node.spec.clone().unwrap().taints, None);
    assert_eq!(node.labels()["topology.kubernetes.io/zone"], "of-the-kubelet");
    assert_eq!(node.labels()["topology.kubernetes.io/region"], "r");
    let addresses = node.status.unwrap().addresses.unwrap();
    assert_eq!(addresses.len(), 1, "the cloud's address stays alone: {addresses:?}");

    // Without --node-ip the annotation goes at the next report.
    Kubelet::new("n1").heartbeat(&client).await.unwrap();
    assert!(!nodes.get("n1").await.unwrap().annotations().contains_key(PROVIDED_NODE_IP));
    cluster.stop().await.unwrap();
}

/// Proves: KUBELET-3
#[tokio::test]
async fn the_api_server_keeps_a_provider_id_and_pod_networks_and_lets_a_node_touch_only_itself() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let admin = cluster.admin().await.unwrap();
    let nodes: Api<Node> = Api::all(admin.clone());
    let client = client_of(&cluster, "n1").await;
    Kubelet::new("n1").register(&client).await.unwrap();
    let first = json!({ "spec": { "providerID": "cloud://1", "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"] } });
    merge(&nodes, "n1", first).await.unwrap();
    let others = [
        json!({ "spec": { "providerID": "cloud://2" } }),
        json!({ "spec": { "podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"] } }),
    ];
    for other in others {
        let refused = merge(&nodes, "n1", other.clone()).await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422),
            "{other}: {refused:?}"
        );
    }

    let foreign = Kubelet::new("n2").register(&client).await.unwrap_err();
    let control_plane::Error::Api { source, .. } = foreign else { panic!("{foreign}") };
    assert!(matches!(*source, kube::Error::Api(status) if status.code == 403));

    let leases: Api<Lease> = Api::namespaced(admin, "kube-node-lease");
    Kubelet::new("n1").renew_lease(&client).await.unwrap();
    let renewed = |lease: Lease| lease.spec.unwrap().renew_time.unwrap().0;
    let before = renewed(leases.get("n1").await.unwrap());
    Kubelet::new("n1").renew_lease(&client).await.unwrap();
    assert!(renewed(leases.get("n1").await.unwrap()) > before);
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_thousand_nodes_are_registered_quickly() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let client = cluster.admin().await.unwrap();
    let kubelets: Vec<Kubelet> = (0..1_000u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            Kubelet::new(format!("node-{number:04}")).node_ip(std::net::Ipv4Addr::new(10, 0, high, low))
        })
        .collect();
    let began = tokio::time::Instant::now();
    register_all(&client, &kubelets, 32).await.unwrap();
    let took = began.elapsed();
    println!("registered 1000 nodes in {took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    let nodes = Api::<Node>::all(client).list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), 1_000);
    cluster.stop().await.unwrap();
}
