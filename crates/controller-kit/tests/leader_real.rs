//! Leader election on a real API server: hand-overs with each kind of role, and a lease shared with client-go.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control_plane::ControlPlane;
use controller_kit::clock::SystemClock;
use controller_kit::leader::{
    Config, Elector, Ended, KubeLease, Leadership, LeaseStore, Metrics, Surroundings, Timing, identity,
};
use controller_kit::random::Randomness;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const NAME: &str = "cloud-controller-manager";

/// A client as leader election wants it: it does not retry.
async fn client(kubeconfig: &Path) -> kube::Client {
    let parsed = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    config.proxy_url = None;
    kube::Client::try_from(config).unwrap()
}

struct Candidate {
    leadership: Leadership,
    identity: String,
    stop: CancellationToken,
    task: JoinHandle<Ended<()>>,
}

fn candidate(client: kube::Client, host: &str) -> Candidate {
    let random = Randomness::from_os();
    let identity = identity(host, &random);
    let config = Config {
        namespace: "kube-system".into(),
        name: NAME.into(),
        identity: identity.clone(),
        timing: Timing::default(),
    };
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(client, "kube-system", NAME)),
        clock: Arc::new(SystemClock),
        random,
        metrics: Metrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let elector = Elector::new(config, surroundings).unwrap();
    let (leadership, stop) = (elector.leadership(), CancellationToken::new());
    let stopping = stop.clone();
    let task = tokio::spawn(async move {
        let told = stopping.clone();
        elector.run(&stopping, |_| async move { told.cancelled().await }).await
    });
    Candidate { leadership, identity, stop, task }
}

impl Candidate {
    async fn leads_within(&self, limit: Duration) -> Duration {
        let started = Instant::now();
        while !self.leadership.may_write() {
            assert!(started.elapsed() < limit, "{} does not lead after {limit:?}", self.identity);
            sleep(Duration::from_millis(10)).await;
        }
        started.elapsed()
    }

    async fn stop(self) {
        self.stop.cancel();
        assert_eq!(self.task.await.unwrap(), Ended::Finished(()));
        assert!(!self.leadership.may_write());
    }
}

async fn spec(leases: &Api<Lease>) -> Value {
    serde_json::to_value(leases.get(NAME).await.unwrap().spec.unwrap()).unwrap()
}

/// A user who may do `verbs` with this one Lease, and create Leases.
async fn allow(cluster: &ControlPlane, user: &str, verbs: &[&str]) -> kube::Client {
    let admin = cluster.admin().await.unwrap();
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": user },
        "rules": [
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME], "verbs": verbs },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
        ],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": user },
        "subjects": [{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io" },
    }))
    .unwrap();
    let post = PostParams::default();
    Api::namespaced(admin.clone(), "kube-system").create(&post, &role).await.unwrap();
    Api::namespaced(admin, "kube-system").create(&post, &binding).await.unwrap();
    let client = client(&cluster.kubeconfig_for(user, &[]).unwrap()).await;
    // RBAC takes effect when the server's own caches have seen it.
    let lease = KubeLease::new(client.clone(), "kube-system", NAME);
    let started = Instant::now();
    while lease
        .get()
        .await
        .is_err_and(|error| matches!(error, controller_kit::leader::StoreError::Forbidden(_)))
    {
        assert!(started.elapsed() < Duration::from_secs(20), "the role of {user} has no effect");
        sleep(Duration::from_millis(50)).await;
    }
    client
}

/// Proves: APP-26, APP-27, WIRE-10
#[tokio::test]
async fn a_release_hands_the_lease_over_within_three_seconds_whatever_the_role_allows() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let leases: Api<Lease> = Api::namespaced(cluster.admin().await.unwrap(), "kube-system");
    let watcher = allow(&cluster, "watcher", &["get", "update", "watch"]).await;
    let poller = allow(&cluster, "poller", &["get", "update"]).await;

    let mut leader = candidate(watcher.clone(), "host-0");
    leader.leads_within(Duration::from_secs(5)).await;
    assert_eq!(spec(&leases).await["leaseTransitions"], 0);
    for (round, (kind, client, limit)) in
        [("watching", &watcher, 1), ("polling", &poller, 3)].into_iter().enumerate()
    {
        let standby = candidate(client.clone(), &format!("host-{}", round + 1));
        // Long enough for it to see renewals and settle down.
        sleep(Duration::from_secs(5)).await;
        assert!(leader.leadership.may_write() && !standby.leadership.may_write());
        leader.stop().await;
        let took = standby.leads_within(Duration::from_secs(limit)).await;
        println!("hand-over to a {kind} standby took {took:?} after the release returned");
        let now = spec(&leases).await;
        assert_eq!(now["holderIdentity"], standby.identity.as_str());
        assert_eq!(now["leaseTransitions"], round + 1);
        leader = standby;
    }
    leader.stop().await;
    let released = spec(&leases).await;
    assert_eq!((&released["holderIdentity"], &released["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    cluster.stop().await.unwrap();
}

/// Proves: APP-27, APP-28
#[tokio::test]
async fn a_lease_of_client_go_is_taken_over_when_it_expires_and_given_back_in_its_own_words() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let leases: Api<Lease> = Api::namespaced(cluster.admin().await.unwrap(), "kube-system");
    // What client-go's LeaseLock writes, with a label and an annotation of somebody else.
    let go: Lease = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": NAME, "namespace": "kube-system", "labels": { "team": "infra" }, "annotations": { "note": "kept" },
        },
        "spec": {
            "holderIdentity": "cp-1_6e0e3a2a-3f4c-4a0e-9d4e-0a53b4b4f4c1", "leaseDurationSeconds": 4,
            "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:02.123456Z",
            "leaseTransitions": 7,
        },
    }))
    .unwrap();
    leases.create(&PostParams::default(), &go).await.unwrap();
    let started = Instant::now();
    let ours = candidate(client(cluster.admin_kubeconfig()).await, "host-1");
    ours.leads_within(Duration::from_secs(8)).await;
    assert!(
        started.elapsed() >= Duration::from_secs(4),
        "old times in the record are no reason to take it early"
    );

    let taken = leases.get(NAME).await.unwrap();
    assert_eq!(taken.metadata.labels.unwrap()["team"], "infra");
    assert_eq!(taken.metadata.annotations.unwrap()["note"], "kept");
    let spec_now = spec(&leases).await;
    let fields: Vec<&String> = spec_now.as_object().unwrap().keys().collect();
    let expected = ["acquireTime", "holderIdentity", "leaseDurationSeconds", "leaseTransitions", "renewTime"];
    assert_eq!(fields, expected);
    assert_eq!((&spec_now["leaseDurationSeconds"], &spec_now["leaseTransitions"]), (&json!(15), &json!(8)));
    for time in ["acquireTime", "renewTime"] {
        let text = spec_now[time].as_str().unwrap();
        let (_, fraction) = text.split_once('.').unwrap();
        assert!(fraction.len() == 7 && fraction.ends_with('Z'), "{time} is {text}");
    }

    // Given back: client-go sees an empty holder and acquires with a PUT of its own.
    ours.stop().await;
    let mut back = leases.get(NAME).await.unwrap();
    let spec_back = back.spec.as_mut().unwrap();
    assert_eq!((spec_back.holder_identity.as_deref(), spec_back.lease_transitions), (Some(""), Some(8)));
    spec_back.clone_from(go.spec.as_ref().unwrap());
    leases.replace(NAME, &PostParams::default(), &back).await.unwrap();
    cluster.stop().await.unwrap();
}

/// The API server hangs while we lead: no write is allowed after the lease may have passed, and the process learns it.
///
/// Proves: APP-29, APP-30
#[tokio::test]
async fn a_leader_whose_api_server_hangs_loses_the_lease_within_the_renew_deadline() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    cluster.admin().await.unwrap();
    let leader = candidate(client(cluster.admin_kubeconfig()).await, "host-1");
    leader.leads_within(Duration::from_secs(5)).await;
    cluster.api_server().pause().await.unwrap();
    let paused = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(20), leader.task).await.unwrap().unwrap();
    assert_eq!(ended, Ended::Lost);
    assert!(!leader.leadership.may_write());
    let took = paused.elapsed();
    println!("the leader gave up {took:?} after the API server hung");
    assert!(took >= Duration::from_secs(10) && took < Duration::from_millis(12_700), "{took:?}");
    cluster.api_server().resume().await.unwrap();
    cluster.stop().await.unwrap();
}
