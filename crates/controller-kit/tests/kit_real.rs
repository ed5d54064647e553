//! Client, cache and events on a real API server: the same promises as in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use control_plane::ControlPlane;
use controller_kit::cache::{Cache, Change, Key, Listener, Metrics as CacheMetrics, Scope, trim};
use controller_kit::client::{Clients, Metrics as ClientMetrics, Options, wait_for_api_server};
use controller_kit::clock::SystemClock;
use controller_kit::events::{Metrics as EventMetrics, recorder, reference};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn next(listener: &mut Listener<Node>) -> Change<Node> {
    timeout(PATIENCE, listener.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_cache_and_events_hold_on_a_real_api_server() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let (mut registry, random, stop) = (Registry::default(), Randomness::from_os(), Shutdown::new());
    let options = Options {
        kubeconfig: Some(cluster.admin_kubeconfig().to_owned()),
        user_agent: "kit-test".into(),
        ..Options::default()
    };
    let metrics = ClientMetrics::register(&mut registry);
    let clients = Clients::connect(options, random.clone(), metrics).await.unwrap();
    assert!(wait_for_api_server(&clients.named("wait").build(), &random, &stop).await);
    let nodes: Api<Node> = Api::all(clients.named("writer").build());
    for number in 0..30 {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": format!("n{number:02}"), "annotations": {"a/b": "c"}},
        }))
        .unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }

    let cache: Cache<Node> = Cache::new(
        clients.named("shared-informers").build(),
        Scope::default(),
        trim::node([""; 0]),
        random.clone(),
        &CacheMetrics::register(&mut registry),
    );
    let mut listener = cache.subscribe();
    let running = tokio::spawn({
        let (cache, stop) = (cache.clone(), stop.clone());
        async move { cache.run(&stop).await }
    });
    timeout(PATIENCE, cache.wait_synced()).await.unwrap();
    assert_eq!(cache.len(), 30);
    for _ in 0..30 {
        assert!(matches!(next(&mut listener).await, Change::Added(_)));
    }
    assert!(matches!(next(&mut listener).await, Change::Synced));
    let cached = cache.get(&Key::cluster("n07")).unwrap();
    assert!(cached.metadata.managed_fields.is_none() && cached.annotations().is_empty());

    let label = json!({"metadata": {"labels": {"l": "1"}}});
    nodes.patch("n07", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let Change::Updated { old, new } = next(&mut listener).await else { panic!("an update") };
    assert_eq!((old.labels().get("l"), new.labels()["l"].as_str()), (None, "1"));
    nodes.delete("n07", &DeleteParams::default()).await.unwrap();
    let Change::Deleted(last) = next(&mut listener).await else { panic!("a deletion") };
    assert_eq!((last.name_any().as_str(), last.labels()["l"].as_str()), ("n07", "1"));

    let (recorder, writer) = recorder(
        "cloud-node-controller",
        clients.named("events").build(),
        Arc::new(SystemClock),
        random,
        &EventMetrics::register(&mut registry),
    );
    let writing = tokio::spawn({
        let stop = stop.clone();
        async move { writer.run(&stop, Duration::from_secs(10)).await }
    });
    let about = reference(cache.get(&Key::cluster("n08")).unwrap().as_ref());
    for _ in 0..3 {
        recorder.normal(&about, "Synced", "Node synced successfully");
    }
    stop.trigger();
    timeout(PATIENCE, writing).await.unwrap().unwrap();
    timeout(PATIENCE, running).await.unwrap().unwrap();
    let events: Api<Event> = Api::namespaced(clients.named("reader").build(), "default");
    let found = events.list(&ListParams::default().fields("involvedObject.name=n08")).await.unwrap().items;
    let [event] = &found[..] else { panic!("one event, got {found:?}") };
    assert_eq!((event.count, event.reason.as_deref()), (Some(3), Some("Synced")));
    assert_eq!(event.involved_object.uid, about.uid);
    assert_eq!(event.reporting_component.as_deref(), Some("cloud-node-controller"));
    let text = controller_kit::metrics::encode(&registry).unwrap();
    assert!(
        text.contains(r#"rest_client_requests_total{code="201",method="POST",host="127.0.0.1:"#),
        "{text}"
    );
    cluster.stop().await.unwrap();
}
