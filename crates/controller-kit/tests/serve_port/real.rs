//! Authentication and authorization delegated to a real API server, also while it is away.

use std::sync::Arc;

use control_plane::ControlPlane;
use controller_kit::random::Randomness;
use controller_kit::serve::auth::{Authentication, KubeReviews, Metrics, Trust};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{Client, get};
use crate::port::{access, options, serve, site};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What the manager's own identity needs, and a service account that may read metrics.
async fn grant(admin: &kube::Client) {
    let delegator = |name: &str| {
        json!({
            "metadata": { "name": "ccm" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": name, "name": match name {
                "Role" => "extension-apiserver-authentication-reader",
                _ => "system:auth-delegator",
            } },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ccm" }],
        })
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.create(&PostParams::default(), &object(delegator("ClusterRole"))).await.unwrap();
    let bindings_here: Api<RoleBinding> = Api::namespaced(admin.clone(), "kube-system");
    bindings_here.create(&PostParams::default(), &object(delegator("Role"))).await.unwrap();
    let role = json!({
        "metadata": { "name": "metrics" },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    });
    Api::<ClusterRole>::all(admin.clone()).create(&PostParams::default(), &object(role)).await.unwrap();
    let binding = json!({
        "metadata": { "name": "metrics" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "monitoring", "name": "prometheus" }],
    });
    bindings.create(&PostParams::default(), &object(binding)).await.unwrap();
}

/// Proves: APP-49, APP-50, APP-51
#[tokio::test]
async fn the_api_server_decides_and_while_it_is_away_only_what_it_said_lately_counts() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    grant(&cluster.admin().await.unwrap()).await;
    let ours = cluster.client_for("ccm", &[]).await.unwrap();
    let token = async |name: &str| {
        let account = cluster.service_account("monitoring", name).await.unwrap();
        std::fs::read_to_string(account.token_file).unwrap()
    };
    let (prometheus, other, stranger) =
        (token("prometheus").await, token("other").await, token("stranger").await);
    let root = cluster.kubeconfig_for("root", &["system:masters"]).unwrap();
    let identity = ["crt", "key"].map(|end| std::fs::read(root.with_extension(end)).unwrap());
    let trust = Trust::establish(&Authentication::default(), Some(ours.clone())).await.unwrap();
    let reviews = KubeReviews::new(ours, Randomness::seeded(1), Metrics::unregistered());
    let port = serve(&options(), site(access(trust, Some(Arc::new(reviews))))).await;
    let code = async |path: &str, token: Option<&str>| get(port.address, path, token).await.code;

    assert_eq!(code("/healthz", None).await, 200, "open to all");
    let refused = get(port.address, "/metrics", None).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    assert!(
        refused.text.contains(r#"User \"system:anonymous\" cannot get path \"/metrics\""#),
        "{}",
        refused.text
    );
    assert_eq!(code("/metrics", Some(&prometheus)).await, 200);
    assert_eq!(code("/configz", Some(&prometheus)).await, 403, "that path only");
    assert_eq!(code("/metrics", Some(&other)).await, 403);
    assert_eq!(code("/metrics", Some("bad")).await, 401);
    let [chain, key] = identity;
    let client = Client { identity: Some((chain, key)), ..Client::default() };
    assert_eq!(client.session(port.address).await.get("/configz").await.unwrap().code, 200, "by certificate");

    // Asked anew, so that what is remembered is younger than ten seconds below.
    assert_eq!(code("/metrics", Some(&prometheus)).await, 200);
    cluster.api_server().kill().await.unwrap();
    assert_eq!(code("/metrics", Some(&prometheus)).await, 200, "remembered");
    assert_eq!(code("/metrics", Some(&stranger)).await, 401, "nobody can say whose token this is");
    assert_eq!(code("/flagz", Some(&prometheus)).await, 500, "nobody can say whether it may");
    assert_eq!(code("/flagz", None).await, 500);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(code(path, Some("bad")).await, 200, "probes need nobody");
    }
    assert_eq!(client.session(port.address).await.get("/configz").await.unwrap().code, 200);
    cluster.stop().await.unwrap();
}
