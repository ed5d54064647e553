//! Load balancers of Services through the whole binary, with no right but what upstream's own role gives.

use std::time::Duration;

use control_plane::Kubelet;
use control_plane::kubelet::register_all;
use k8s_openapi::api::core::v1::{Event, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::process::Nephos;
use crate::scene::{Scene, eventually};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

pub(crate) fn typed<K: serde::de::DeserializeOwned>(object: serde_json::Value) -> K {
    serde_json::from_value(object).expect("an object")
}

/// A Service that asks for a balancer.
pub(crate) fn balanced(name: &str) -> Service {
    typed(json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }], "selector": { "app": name } },
    }))
}

/// Someone who may do what upstream's service controller may, and nothing else.
async fn as_service_controller(scene: &Scene) -> String {
    let client = scene.client().await;
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client);
    let binding = typed(json!({
        "metadata": { "name": "balancers" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "system:controller:service-controller",
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "balancers" }],
    }));
    bindings.create(&PostParams::default(), &binding).await.expect("binding the role");
    let kubeconfig = scene.cluster.kubeconfig_for("balancers", &[]).expect("a kubeconfig");
    format!("--kubeconfig={}", kubeconfig.display())
}

/// Proves: SVC-36, WIRE-7, WIRE-8, WIRE-12
#[tokio::test]
async fn a_service_lives_and_goes_with_no_right_but_upstreams() {
    let scene = Scene::set().await;
    let client = scene.client().await;
    let nodes = [Kubelet::new("worker-1").provider_id("fake://worker-1")];
    register_all(&client, &nodes, 1).await.expect("the node registers");
    let kubeconfig = as_service_controller(&scene).await;
    let mut arguments = scene.arguments(&["--leader-elect=false", "--controllers=service"]);
    arguments.retain(|argument| !argument.starts_with("--kubeconfig="));
    arguments.push(kubeconfig);
    let mut nephos = Nephos::start(&arguments);

    let services: Api<Service> = Api::default_namespaced(client.clone());
    services.create(&PostParams::default(), &balanced("web")).await.expect("creating the Service");
    let ingress = eventually("an address", async || {
        let service = services.get("web").await.ok()?;
        service.status?.load_balancer?.ingress.filter(|ingress| !ingress.is_empty())
    })
    .await;
    assert_eq!(ingress[0].ip_mode.as_deref(), Some("VIP"), "what the server fills in");
    let held = services.get("web").await.expect("reading it").metadata.finalizers;
    assert_eq!(held.unwrap_or_default(), [FINALIZER]);
    let balancers = scene.world.contents().balancers;
    assert_eq!(balancers[0].backends.iter().collect::<Vec<_>>(), ["worker-1"]);

    // Somebody takes away what is ours.
    let bare = json!({ "metadata": { "finalizers": null } });
    services.patch("web", &PatchParams::default(), &Patch::Merge(&bare)).await.expect("taking it away");
    eventually("the finalizer is back", async || {
        let held = services.get("web").await.ok()?.metadata.finalizers?;
        held.iter().any(|finalizer| finalizer == FINALIZER).then_some(())
    })
    .await;

    services.delete("web", &DeleteParams::default()).await.expect("deleting it");
    eventually("it is gone", async || services.get_opt("web").await.ok()?.is_none().then_some(())).await;
    assert!(scene.world.contents().balancers.is_empty() && scene.world.contents().addresses.is_empty());
    let events: Api<Event> = Api::default_namespaced(client);
    let of_web = ListParams::default().fields("involvedObject.name=web");
    for reason in
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer", "DeletingLoadBalancer", "DeletedLoadBalancer"]
    {
        eventually(reason, async || {
            let told = events.list(&of_web).await.ok()?.items;
            told.iter().any(|event| event.reason.as_deref() == Some(reason)).then_some(())
        })
        .await;
    }
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    nephos.terminate();
    assert_eq!(nephos.exit_code(Duration::from_secs(10)).await, Some(0));
    let log = nephos.log();
    // The cluster's UID is not for this role to read; all that a load balancer needs is.
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("forbidden") && !line.contains("namespaces")).collect();
    assert_eq!(refused, Vec::<&str>::new());
    scene.end().await;
}
