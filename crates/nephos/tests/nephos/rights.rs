//! The rights that `nephos rbac` prints are enough, and none of them is idle.

use std::collections::BTreeSet;
use std::process::Stdio;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::Api;
use kube::api::{ListParams, PostParams};
use provider_fake::Config;
use serde_json::Value;

use crate::PATIENCE;
use crate::nodes::{is_initialised, kubelets, page, port_client};
use crate::scene::{Scene, eventually, free_port};
use crate::services::balanced;

pub(crate) const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-controller-manager";

/// The account of both node controllers.
const CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";

/// Rights that a story without trouble does not use, and what they are for.
const IN_TROUBLE: &[(&str, &str)] = &[
    // A write that was refused because the node had changed is decided anew on the node as it is.
    ("nodes", "get"),
    // What happens again is counted on the Event that told it first.
    ("events", "patch"),
    // A Service that the cache may not show as it is yet is read from the storage.
    ("services", "get"),
];

/// Runs the binary and returns what it printed.
pub(crate) async fn printed(arguments: &[&str]) -> String {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_nephos"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Applies a manifest of roles, and returns their rules.
pub(crate) async fn apply(client: &kube::Client, manifest: &str) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    for document in manifest.split("---\n").filter(|document| !document.trim().is_empty()) {
        let object: Value = serde_saphyr::from_str(document).expect("YAML");
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let params = PostParams::default();
        match kind.as_str() {
            "ClusterRole" => {
                let role: ClusterRole = serde_json::from_value(object).expect("a cluster role");
                rules.extend(role.rules.clone().unwrap_or_default());
                Api::all(client.clone()).create(&params, &role).await.map(drop)
            }
            "Role" => {
                let role: Role = serde_json::from_value(object).expect("a role");
                rules.extend(role.rules.clone().unwrap_or_default());
                Api::namespaced(client.clone(), &namespace).create(&params, &role).await.map(drop)
            }
            "ClusterRoleBinding" => {
                let binding: ClusterRoleBinding = serde_json::from_value(object).expect("a binding");
                Api::all(client.clone()).create(&params, &binding).await.map(drop)
            }
            _ => {
                let binding: RoleBinding = serde_json::from_value(object).expect("a binding");
                Api::namespaced(client.clone(), &namespace).create(&params, &binding).await.map(drop)
            }
        }
        .unwrap_or_else(|error| panic!("{kind}: {error:?}"));
    }
    rules
}

/// `(resource, verb)` of every rule.
fn granted(rules: &[PolicyRule]) -> BTreeSet<(String, String)> {
    let pairs = rules.iter().flat_map(|rule| {
        let resources = rule.resources.clone().unwrap_or_default();
        let verbs = rule.verbs.clone();
        resources
            .into_iter()
            .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)))
    });
    pairs.collect()
}

/// What the account did, by the audit log: `(resource, verb)`, and those requests that were forbidden.
fn did(events: &[Value]) -> (BTreeSet<(String, String)>, Vec<String>) {
    let (mut used, mut forbidden) = (BTreeSet::new(), Vec::new());
    for event in events.iter().filter(|event| event["user"]["username"] == ACCOUNT) {
        let reference = &event["objectRef"];
        let mut resource = reference["resource"].as_str().unwrap_or_default().to_owned();
        if let Some(subresource) = reference["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        used.insert((resource, event["verb"].as_str().unwrap_or_default().to_owned()));
        if event["responseStatus"]["code"] == 403 {
            forbidden.push(format!("{} {}", event["verb"], event["requestURI"]));
        }
    }
    (used, forbidden)
}

/// Proves: APP-49, APP-50, APP-58
#[tokio::test]
async fn the_printed_roles_are_enough_and_none_of_their_verbs_is_idle() {
    let scene = Scene::with(ControlPlane::builder().audit(true), Config::default()).await;
    let client = scene.client().await;
    let rules = apply(&client, &printed(&["rbac"]).await).await;
    let account =
        scene.cluster.service_account("kube-system", "cloud-controller-manager").await.expect("a token");

    let port = free_port();
    let mut nephos = scene.nephos(&[
        &format!("--kubeconfig={}", account.kubeconfig.display()),
        &format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
        "--node-deletion-grace-period=1s",
        "--node-monitor-period=1s",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let mut standby = scene.nephos(&[&format!("--kubeconfig={}", account.kubeconfig.display())]);
    standby.wait_for("new leader elected", PATIENCE).await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(20), 10).await.expect("the nodes register");
    eventually("all nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
        (listed.items.iter().filter(|node| is_initialised(node)).count() == 20).then_some(())
    })
    .await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services.create(&PostParams::default(), &balanced("web")).await.expect("creating a service");
    eventually("the service has an address", async || {
        let service = services.get("web").await.expect("reading the service");
        service.status?.load_balancer?.ingress.filter(|ingress| !ingress.is_empty())
    })
    .await;
    assert!(scene.world.remove_machine("worker-07"), "the machine was there");
    Kubelet::new("worker-07").ready(false).heartbeat(&client).await.expect("its kubelet falls silent");
    eventually("its node is gone", async || {
        nodes.get_opt("worker-07").await.expect("reading the node").is_none().then_some(())
    })
    .await;
    // The manager's own token is that of somebody who may not see its metrics: it has to ask who that is.
    let stranger = port_client(&account.kubeconfig, port).await;
    assert!(page(&stranger, "/metrics").await.contains("403"), "strangers see no metrics");

    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    standby.wait_for("became leader", PATIENCE).await;
    standby.terminate();
    assert_eq!(standby.exit_code(PATIENCE).await, Some(0));
    for log in [nephos.log(), standby.log()] {
        assert!(!log.contains("May not"), "the self-check finds nothing missing:\n{log}");
    }
    let (used, forbidden) = did(&scene.cluster.audit_events().expect("the audit log"));
    assert_eq!(forbidden, Vec::<String>::new());
    let idle: Vec<_> = granted(&rules)
        .into_iter()
        .filter(|right| !used.contains(right))
        .filter(|(resource, verb)| !IN_TROUBLE.contains(&(resource.as_str(), verb.as_str())))
        .collect();
    assert_eq!(idle, Vec::<(String, String)>::new(), "granted and never used");
    scene.end().await;
}

/// Proves: APP-55, APP-56, APP-57
#[tokio::test]
async fn each_controller_may_have_an_account_of_its_own() {
    let scene = Scene::with(ControlPlane::builder().audit(true), Config::default()).await;
    let client = scene.client().await;
    apply(&client, &printed(&["rbac", "--secure-port=0", "--use-service-account-credentials"]).await).await;
    let account =
        scene.cluster.service_account("kube-system", "cloud-controller-manager").await.expect("a token");
    let mut nephos = scene.nephos(&[
        &format!("--kubeconfig={}", account.kubeconfig.display()),
        "--use-service-account-credentials",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(3), 3).await.expect("the nodes register");
    eventually("all nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
        (listed.items.iter().filter(|node| is_initialised(node)).count() == 3).then_some(())
    })
    .await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));

    let events = scene.cluster.audit_events().expect("the audit log");
    let by = |user: &'static str, verb: &'static str, resource: &'static str| {
        events.iter().filter(move |event| {
            event["user"]["username"] == user
                && event["verb"] == verb
                && event["objectRef"]["resource"] == resource
        })
    };
    assert!(by(CONTROLLER, "patch", "nodes").count() >= 3, "the controller writes as itself");
    assert_eq!(by(ACCOUNT, "patch", "nodes").count(), 0, "and nobody writes for it");
    assert!(by(ACCOUNT, "watch", "nodes").count() > 0, "the caches are the manager's");
    let agent = by(CONTROLLER, "patch", "nodes").next().expect("a patch")["userAgent"].clone();
    assert!(agent.as_str().is_some_and(|agent| agent.ends_with(CONTROLLER)), "{agent}");
    let refused: Vec<_> = events
        .iter()
        .filter(|event| {
            event["responseStatus"]["code"] == 403 && event["user"]["username"] != "system:anonymous"
        })
        .map(|event| format!("{} {} {}", event["user"]["username"], event["verb"], event["requestURI"]))
        .collect();
    assert_eq!(refused, Vec::<String>::new());
    scene.end().await;
}

#[tokio::test]
async fn a_missing_right_is_named_at_the_start_and_the_rest_works() {
    let scene = Scene::set().await;
    let client = scene.client().await;
    let manifest = printed(&["rbac", "--secure-port=0"]).await;
    let on_status = |verb: &str| format!("resources: [\"nodes/status\"]\n  verbs: [\"{verb}\"]");
    let less = manifest.replace(&on_status("patch"), &on_status("get"));
    assert_ne!(less, manifest, "nodes/status is granted");
    apply(&client, &less).await;
    let account =
        scene.cluster.service_account("kube-system", "cloud-controller-manager").await.expect("a token");
    let mut nephos = scene.nephos(&[&format!("--kubeconfig={}", account.kubeconfig.display())]);
    nephos.wait_for("May not patch nodes/status", PATIENCE).await;
    nephos.wait_for("became leader", PATIENCE).await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    assert_eq!(nephos.count("May not"), 1, "{}", nephos.log());
    scene.end().await;
}

/// What a Go manager is commonly given: the verbs of upstream's bootstrap roles, and those of its own identity.
const GO_ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:cloud-controller-manager"}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, update, delete, patch]}
- {apiGroups: [""], resources: [nodes/status], verbs: [patch, update]}
- {apiGroups: [""], resources: [services], verbs: [get, list, watch, patch, update]}
- {apiGroups: [""], resources: [services/status], verbs: [patch, update]}
- {apiGroups: [""], resources: [events], verbs: [create, patch, update]}
- {apiGroups: [""], resources: [serviceaccounts], verbs: [get, create]}
- {apiGroups: [""], resources: [serviceaccounts/token], verbs: [create]}
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:cloud-controller-manager"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:cloud-controller-manager"}
subjects: [{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}]
"#;

/// Proves: APP-58
#[tokio::test]
async fn with_the_role_of_a_go_manager_everything_of_upstream_works_and_each_extra_is_told_once() {
    let scene = Scene::set().await;
    let client = scene.client().await;
    apply(&client, GO_ROLE).await;
    let account =
        scene.cluster.service_account("kube-system", "cloud-controller-manager").await.expect("a token");
    let mut nephos = scene.nephos(&[
        &format!("--kubeconfig={}", account.kubeconfig.display()),
        "--node-deletion-grace-period=1s",
        "--node-monitor-period=1s",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(5), 5).await.expect("the nodes register");
    eventually("all nodes are initialised", async || {
        let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
        (listed.items.iter().filter(|node| is_initialised(node)).count() == 5).then_some(())
    })
    .await;
    assert!(scene.world.remove_machine("worker-03"), "the machine was there");
    Kubelet::new("worker-03").ready(false).heartbeat(&client).await.expect("its kubelet falls silent");
    eventually("its node is gone", async || {
        nodes.get_opt("worker-03").await.expect("reading the node").is_none().then_some(())
    })
    .await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    let log = nephos.log();
    let missing: Vec<&str> = log.lines().filter(|line| line.contains("May not")).collect();
    assert_eq!(missing.len(), 2, "{missing:#?}");
    assert!(missing.iter().all(|line| line.contains("goes without")), "{missing:#?}");
    scene.end().await;
}
