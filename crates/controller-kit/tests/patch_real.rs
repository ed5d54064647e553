//! Every patch on a real API server: what it accepts, what it refuses, and what the objects are afterwards.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use control_plane::ControlPlane;
use controller_kit::patch::node::Change;
use controller_kit::patch::{Patch, node, service};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, NodeAddress, NodeCondition, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const OURS: &str = "service.kubernetes.io/load-balancer-cleanup";

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Proves: WIRE-2, WIRE-3, WIRE-4, WIRE-6, WIRE-9
#[tokio::test]
async fn node_patches_do_what_they_say_and_no_more() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.admin().await.unwrap());
    let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule", "value": "true" });
    let cloud = "node.cloudprovider.kubernetes.io/uninitialized";
    let made = nodes
        .create(
            &PostParams::default(),
            &object(json!({
                "metadata": { "name": "n", "labels": { "kept": "1", "gone": "1", "zone": "old" } },
                "spec": { "taints": [taint(cloud), taint("mine")] },
            })),
        )
        .await
        .unwrap();

    let cidrs = ["10.1.0.0/24".to_owned(), "fd00:1::/64".to_owned()];
    let change = Change::of(&made).label("zone", "new").without_label("gone").provider_id("fake://i-1");
    let patch = change.pod_cidrs(&cidrs).without_taint(cloud).patch().unwrap().unwrap();
    let initialised = patch.apply(&nodes, "n").await.unwrap();
    let labels = initialised.metadata.labels.clone().unwrap();
    assert_eq!((labels["zone"].as_str(), labels["kept"].as_str(), labels.get("gone")), ("new", "1", None));
    let spec = initialised.spec.clone().unwrap();
    assert_eq!(
        (spec.provider_id.as_deref(), spec.pod_cidrs.as_deref()),
        (Some("fake://i-1"), Some(&cidrs[..]))
    );
    let keys = |node: &Node| -> Vec<String> {
        node.spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
            .map(|taint| taint.key.clone())
            .collect()
    };
    assert!(
        !keys(&initialised).contains(&cloud.to_owned()) && keys(&initialised).contains(&"mine".to_owned())
    );

    assert_eq!(code(patch.apply(&nodes, "n").await), 409, "taints read at an older version are refused");
    let last = Change::of(&initialised).taints(&[]).patch().unwrap().unwrap();
    assert!(keys(&last.apply(&nodes, "n").await.unwrap()).is_empty());

    let address = |kind: &str, address: &str| NodeAddress { type_: kind.into(), address: address.into() };
    let mut current = nodes.get("n").await.unwrap();
    for wanted in [
        vec![address("InternalIP", "10.0.0.1"), address("InternalIP", "fd00::1"), address("Hostname", "n")],
        vec![
            address("InternalIP", "fd00::1"),
            address("InternalIP", "10.0.0.1"),
            address("ExternalIP", "192.0.2.1"),
        ],
        vec![address("Hostname", "n")],
    ] {
        current = node::addresses(&current, &wanted).unwrap().apply(&nodes, "n").await.unwrap();
        assert_eq!(current.status.as_ref().unwrap().addresses.as_deref(), Some(&wanted[..]));
        assert_eq!(node::addresses(&current, &wanted), None);
    }

    let condition = |kind: &str, reason: &str| -> NodeCondition {
        object(json!({
            "type": kind, "status": "False", "reason": reason, "message": "m",
            "lastHeartbeatTime": "2026-11-15T10:00:00Z", "lastTransitionTime": "2026-11-15T10:00:00Z",
        }))
    };
    for wanted in
        [condition("Other", "A"), condition("NetworkUnavailable", "A"), condition("NetworkUnavailable", "B")]
    {
        current = node::condition(&current, &wanted).unwrap().apply(&nodes, "n").await.unwrap();
        assert_eq!(node::condition(&current, &wanted), None);
    }
    let conditions = current.status.unwrap().conditions.unwrap();
    let mut reasons: Vec<_> =
        conditions.iter().map(|one| (one.type_.as_str(), one.reason.as_deref())).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, [("NetworkUnavailable", Some("B")), ("Other", Some("A"))]);
    cluster.stop().await.unwrap();
}

/// A client with the rights that upstream's service controller has.
async fn service_controller(cluster: &ControlPlane) -> kube::Client {
    let admin = cluster.admin().await.unwrap();
    let role: ClusterRole = object(json!({
        "metadata": { "name": "services" },
        "rules": [
            { "apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"] },
            { "apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"] },
        ],
    }));
    let binding: ClusterRoleBinding = object(json!({
        "metadata": { "name": "services" },
        "subjects": [{ "kind": "User", "name": "ccm", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "ClusterRole", "name": "services", "apiGroup": "rbac.authorization.k8s.io" },
    }));
    Api::all(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(admin).create(&PostParams::default(), &binding).await.unwrap();
    let client = cluster.client_for("ccm", &[]).await.unwrap();
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let started = tokio::time::Instant::now();
    while services.get("kubernetes").await.is_err() {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "the role has no effect");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    client
}

fn finalizers(service: &Service) -> Vec<&str> {
    service.metadata.finalizers.iter().flatten().map(String::as_str).collect()
}

/// Proves: WIRE-7, WIRE-8, SVC-36
#[tokio::test]
async fn service_patches_never_touch_a_foreign_finalizer_and_need_only_the_status_subresource() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let admin: Api<Service> = Api::default_namespaced(cluster.admin().await.unwrap());
    let services: Api<Service> = Api::default_namespaced(service_controller(&cluster).await);
    let web: Service = object(json!({
        "metadata": { "name": "web" }, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    }));
    let made = admin.create(&PostParams::default(), &web).await.unwrap();
    let foreign = |names: Value| Patch::merge(json!({ "metadata": { "finalizers": names } }));

    // Ours is added to what is there by then, not to what the copy shows.
    foreign(json!(["them.io/a"])).apply(&admin, "web").await.unwrap();
    let ours = service::add_finalizer(&made, OURS).unwrap().apply(&services, "web").await.unwrap();
    assert_eq!(finalizers(&ours), [OURS, "them.io/a"]);

    // Upstream's defect: the copy shows ours alone, another arrives, ours is removed.
    let alone = foreign(json!([OURS])).apply(&admin, "web").await.unwrap();
    foreign(json!([OURS, "them.io/b", "them.io/a"])).apply(&admin, "web").await.unwrap();
    let removed = service::remove_finalizer(&alone, OURS).unwrap().apply(&services, "web").await.unwrap();
    assert_eq!(finalizers(&removed), ["them.io/b", "them.io/a"]);
    // Removing it once more from the same old copy changes nothing.
    let again = service::remove_finalizer(&alone, OURS).unwrap().apply(&services, "web").await.unwrap();
    assert_eq!(
        (finalizers(&again), &again.metadata.resource_version),
        (vec!["them.io/b", "them.io/a"], &removed.metadata.resource_version)
    );

    let status = |ingress: Value| -> LoadBalancerStatus { object(json!({ "ingress": ingress })) };
    let mut current = again;
    for wanted in [
        status(json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }, { "hostname": "lb.example.com" }])),
        status(
            json!([{ "ip": "192.0.2.2", "ipMode": "Proxy", "ports": [{ "port": 80, "protocol": "TCP" }] }]),
        ),
        status(json!(null)),
    ] {
        let patch = service::load_balancer_status(&current, &wanted).unwrap();
        current = patch.apply(&services, "web").await.unwrap();
        let stored = current.status.as_ref().unwrap().load_balancer.as_ref().unwrap();
        assert_eq!(
            stored.ingress.as_deref().unwrap_or_default(),
            wanted.ingress.as_deref().unwrap_or_default()
        );
        assert_eq!(service::load_balancer_status(&current, &wanted), None);
    }
    assert_eq!(finalizers(&current), ["them.io/b", "them.io/a"]);

    // Another Service of the same name is not ours to write.
    let stale = Patch::strategic(json!({ "metadata": { "labels": { "x": "y" } } })).on_status();
    assert_eq!(
        code(
            stale.clone().only_for_uid("0b6f7a3e-0000-0000-0000-000000000000").apply(&services, "web").await
        ),
        422
    );
    stale.only_for_uid(current.metadata.uid.as_deref().unwrap()).apply(&services, "web").await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn guards_and_tests_refuse_what_changed_since_it_was_read() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.admin().await.unwrap());
    let made = nodes
        .create(
            &PostParams::default(),
            &object(json!({ "metadata": { "name": "n", "labels": { "a": "1" } } })),
        )
        .await
        .unwrap();
    let version = made.metadata.resource_version.clone().unwrap();
    let label = ["metadata", "labels", "a"];

    // A test looks at one value, so a change elsewhere does not matter ...
    Patch::merge(json!({ "metadata": { "labels": { "b": "2" } } })).apply(&nodes, "n").await.unwrap();
    Patch::replace_if(&label, json!("1"), json!("2")).apply(&nodes, "n").await.unwrap();
    // ... and one of the value itself does.
    assert_eq!(code(Patch::replace_if(&label, json!("1"), json!("3")).apply(&nodes, "n").await), 422);
    assert_eq!(code(Patch::remove_if(&label, json!("1")).apply(&nodes, "n").await), 422);

    for patch in [
        Patch::merge(json!({ "metadata": { "labels": { "c": "3" } } })),
        Patch::strategic(json!({ "metadata": { "labels": { "c": "3" } } })),
        Patch::replace_if(&label, json!("2"), json!("3")),
    ] {
        assert_eq!(code(patch.clone().only_for_version(&version).apply(&nodes, "n").await), 409, "{patch:?}");
        assert_eq!(code(patch.clone().only_for_uid("another").apply(&nodes, "n").await), 422, "{patch:?}");
    }
    Patch::remove_if(&label, json!("2")).apply(&nodes, "n").await.unwrap();

    let before = nodes.get("n").await.unwrap();
    let mut after = before.clone();
    after.metadata.labels = None;
    after.metadata.annotations = Some([("k".to_owned(), "v".to_owned())].into());
    let changed = Patch::diff(&before, &after).unwrap().unwrap().apply(&nodes, "n").await.unwrap();
    assert_eq!(
        (&changed.metadata.labels, &changed.metadata.annotations),
        (&None, &after.metadata.annotations)
    );
    assert_eq!(changed.spec, before.spec);
    cluster.stop().await.unwrap();
}
