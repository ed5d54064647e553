//! The control plane as a whole, on the real programs: it starts, it can be broken on purpose, and it goes.
//! Whoever has not built the programs yet waits for that first.

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use control_plane::{ControlPlane, Environment, Error};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;

fn refuses(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("not an answer of refusal: {other:?}"),
    }
}

/// Retries until the condition holds: what a test waits for has no other sign.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_control_plane_starts_serves_and_leaves_nothing_behind() {
    let began = tokio::time::Instant::now();
    let cluster = ControlPlane::builder().start().await.unwrap();
    println!("started in {:?}", began.elapsed());
    let client = cluster.admin().await.unwrap();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, format!("v{}", Environment::of_process().version().unwrap()));
    Api::<Namespace>::all(client).get("default").await.unwrap();
    let (directory, port) = (cluster.directory().to_owned(), cluster.port());
    let began = tokio::time::Instant::now();
    cluster.stop().await.unwrap();
    println!("stopped in {:?}", began.elapsed());
    assert!(!directory.exists());
    assert!(refuses(port));
}

#[tokio::test]
async fn two_live_side_by_side_and_one_that_panics_takes_only_itself_away() {
    let (first, second) = tokio::join!(ControlPlane::builder().start(), ControlPlane::builder().start());
    let (first, second) = (first.unwrap(), second.unwrap());
    let (directory, port) = (first.directory().to_owned(), first.port());
    assert_ne!(port, second.port());
    let secret = config_maps(first.admin().await.unwrap());
    secret.create(&PostParams::default(), &config_map("mine")).await.unwrap();
    let others = config_maps(second.admin().await.unwrap());
    assert_eq!(others.get_opt("mine").await.unwrap(), None);

    let panicked = tokio::spawn(async move {
        assert!(first.port() == 0, "a test that fails while it holds a control plane");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(!directory.exists());
    assert!(refuses(port));
    others.list(&ListParams::default()).await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_paused_api_server_answers_nothing_until_it_is_resumed() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let maps = config_maps(cluster.admin().await.unwrap());
    cluster.api_server().pause().await.unwrap();
    let silence = tokio::time::timeout(Duration::from_secs(1), maps.list(&ListParams::default())).await;
    assert!(silence.is_err(), "an answer from a paused server: {silence:?}");
    cluster.api_server().resume().await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(20), maps.list(&ListParams::default())).await;
    answer.expect("an answer after resume").unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_restarted_api_server_and_etcd_keep_their_data_and_their_ports() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let maps = config_maps(cluster.admin().await.unwrap());
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let (port, pid) = (cluster.port(), cluster.api_server().pid().await);

    // Stopping works on a paused server too, and twice is as good as once.
    cluster.api_server().pause().await.unwrap();
    cluster.api_server().stop().await.unwrap();
    cluster.api_server().stop().await.unwrap();
    assert!(refuses(port));
    assert!(matches!(cluster.api_server().pause().await, Err(Error::NotRunning { .. })));
    cluster.etcd().kill().await.unwrap();
    cluster.etcd().start().await.unwrap();
    cluster.api_server().start().await.unwrap();

    assert_ne!(cluster.api_server().pid().await, pid);
    assert_eq!(cluster.port(), port);
    eventually("the client from before finds the server again", || async {
        maps.get_opt("kept").await.ok().flatten()
    })
    .await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn users_have_the_rights_that_rbac_gives_them_and_the_audit_log_tells_who_did_what() {
    let cluster = ControlPlane::builder().audit(true).start().await.unwrap();
    let nobody = config_maps(cluster.client_for("nobody", &[]).await.unwrap());
    assert_eq!(code(nobody.list(&ListParams::default()).await), 403);

    // Each group counts, not only the first: here the third is the one with rights.
    let groups = ["painters", "poets", "system:masters"];
    let somebody = config_maps(cluster.client_for("somebody", &groups).await.unwrap());
    somebody.create(&PostParams::default(), &config_map("by-somebody")).await.unwrap();

    let account = cluster.service_account("robots", "reader").await.unwrap();
    let robot = config_maps(account.client().await.unwrap());
    assert_eq!(code(robot.list(&ListParams::default()).await), 403);
    let binding = json!({
        "metadata": { "name": "robots-rule" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "reader", "namespace": "robots" }],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    let bindings = Api::all(cluster.admin().await.unwrap());
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    eventually("the binding takes effect", || async { robot.get("by-somebody").await.ok() }).await;

    let events = cluster.audit_events().unwrap();
    let of = |user: &str| events.iter().find(|event| event["user"]["username"] == user).cloned();
    let refused = of("nobody").unwrap();
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(refused["objectRef"]["resource"], "configmaps");
    let made = of("somebody").unwrap();
    assert_eq!(made["verb"], "create");
    assert_eq!(made["requestObject"]["metadata"]["name"], "by-somebody");
    assert_eq!(
        made["user"]["groups"],
        json!(["painters", "poets", "system:masters", "system:authenticated"])
    );
    assert!(of("system:serviceaccount:robots:reader").is_some());
    let token = std::fs::read_to_string(&account.token_file).unwrap();
    let log = std::fs::read_to_string(cluster.audit_log().unwrap()).unwrap();
    assert!(!token.is_empty() && !log.contains(&token), "the audit log holds a token");
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn the_controller_manager_runs_when_it_is_asked_for() {
    let cluster = ControlPlane::builder().controller_manager(true).start().await.unwrap();
    assert!(cluster.controller_manager().is_some());
    assert!(matches!(cluster.audit_events(), Err(Error::NoAudit)));
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin().await.unwrap(), "default");
    eventually("a controller makes the default service account", || async {
        accounts.get_opt("default").await.unwrap()
    })
    .await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_cannot_start_is_reported_with_the_end_of_its_log() {
    let refused = ControlPlane::builder().api_server_arg("--no-such-flag").start().await;
    let error = refused.err().expect("an unknown flag");
    assert!(matches!(error, Error::Exited { daemon: "kube-apiserver", .. }), "{error}");
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");

    let late = ControlPlane::builder().deadline(Duration::from_millis(1)).start().await;
    let error = late.err().expect("nothing starts in a millisecond");
    assert!(matches!(error, Error::NotReady { daemon: "etcd", .. }), "{error}");
}
