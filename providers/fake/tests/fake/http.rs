//! The same cloud over HTTP: the same answers, the same log, and the back door.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud_provider::context::{Access, Transport, TransportError};
use cloud_provider::load_balancer::Identity;
use cloud_provider::{Cloud, CloudConfig, Context, Decision, Freshness, Route, VolumeRequest};
use http::{Method, Request, Response, StatusCode};
use provider_fake::transport::HttpTransport;
use provider_fake::{Api, ApiError, Config, Effect, Fault, PROVIDER, Remote, World, server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::rules::new_address;
use crate::support::{
    CLUSTER, UID, balancers, cluster, context, fake, node_ref, node_with_id, open_gate, plain, spec_of, world,
};

/// A world behind a server on loopback, and a context that reaches it.
async fn serve(config: Config) -> (World, String, Context) {
    let world = world(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(server::serve(listener, world.clone(), std::future::pending()));
    let mut context = context(CLUSTER);
    context.transport = Arc::new(HttpTransport::new(Duration::from_secs(20)));
    (world, endpoint, context)
}

async fn build(endpoint: &str, context: &Context, more: &str) -> Cloud {
    let yaml = format!("endpoint: {endpoint}\n{more}");
    let config = CloudConfig::from_bytes("provider.yaml", yaml);
    (PROVIDER.build)(context.clone().with_config(Some(config))).await.unwrap()
}

async fn send(method: Method, uri: &str, body: Option<Value>) -> Response<Bytes> {
    let body = body.map_or(Bytes::new(), |body| Bytes::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    HttpTransport::new(Duration::from_secs(20)).send(request, Access::Query).await.unwrap()
}

/// What a story leaves: each answer, in words.
async fn story(world: &World, cloud: &Cloud) -> Vec<String> {
    let mut said = Vec::new();
    let gate = open_gate();
    let lb = balancers(cloud);
    let (instances, routes) = (cloud.instances.as_ref().unwrap(), cloud.routes.as_ref().unwrap());
    let volumes = cloud.volumes.as_ref().unwrap();
    let wide =
        spec_of(&json!({ "ports": [{ "port": 443 }], "ipFamilies": ["IPv4", "IPv6"] }), &["c/d"], CLUSTER);

    let nodes = [node_ref("a"), node_with_id("b", "fake://zone/i-1"), node_with_id("x", "aws:///i-2")];
    said.push(format!("{:?}", instances.lookup(&nodes, Freshness::Now).await));
    world.remove_machine("zone/i-1");
    said.push(format!("{:?}", instances.lookup(&nodes, Freshness::Now).await));
    for effect in [Effect::LoseAnswer, Effect::Fail, Effect::Quota, Effect::Forbidden, Effect::Conflict] {
        world.inject(Fault::once("create_load_balancer", effect)).unwrap();
        said.push(format!("{:?}", lb.ensure(&plain(), &gate).await));
        said.push(format!("{:?}", lb.get(&plain()).await));
        said.push(format!("{:?}", lb.ensure(&plain(), &gate).await));
        world.inject(Fault::once("delete_address", Effect::LoseAnswer)).unwrap();
        said.push(format!("{:?}", lb.delete(&plain().identity, None, &gate).await));
        said.push(format!("{:?}", lb.delete(&plain().identity, None, &gate).await));
    }
    said.push(format!("{:?}", lb.ensure(&plain(), &gate).await));
    said.push(format!("{:?}", lb.ensure(&wide, &gate).await));
    said.push(format!("{:?}", lb.get(&plain()).await));
    said.push(format!("{:?}", lb.update_backends(&plain(), &gate).await));
    said.push(format!("{:?}", lb.list_owned(&cluster(CLUSTER)).await));

    let after = Duration::from_millis(1500);
    world.inject(Fault::once("list_routes", Effect::Throttle).after(after)).unwrap();
    let route = Route::new("10.244.1.0/24".parse().unwrap()).to_node("a", Vec::new());
    for _ in 0..2 {
        said.push(format!("{:?}", routes.create(&cluster(CLUSTER), "uid/1", &route, &gate).await));
    }
    said.push(format!("{:?}", routes.list(&cluster(CLUSTER)).await));

    let request = VolumeRequest { name: "pvc é 1".into(), bytes: 10, ..VolumeRequest::default() };
    let made = volumes.create(&request, &gate).await;
    let id = made.as_ref().map(|volume| volume.id.clone()).unwrap();
    said.push(format!("{made:?}"));
    said.push(format!("{:?}", volumes.attach(&id, &node_ref("a/b"), &gate).await));
    said.push(format!("{:?}", volumes.attach(&id, &node_ref("b"), &gate).await));
    said.push(format!("{:?}", volumes.delete(&id, &gate).await));
    said.push(format!("{:?}", volumes.resize(&id, 99, &gate).await));
    said.push(format!("{:?}", volumes.detach(&id, &node_ref("a/b"), &gate).await));
    said.push(format!("{:?}", volumes.delete(&id, &gate).await));
    said.push(format!("{:?}", volumes.get(&id).await));
    said.push(format!("{:?}", cloud.clusters.as_ref().unwrap().list().await));
    said
}

fn log(world: &World) -> Vec<String> {
    let line = |call: provider_fake::world::Call| {
        format!("{} {} {} {} {:?}", call.number, call.caller, call.operation, call.object, call.outcome)
    };
    world.calls().into_iter().map(line).collect()
}

#[tokio::test]
async fn a_story_over_http_is_the_same_as_in_the_process() {
    let clusters = [("blue".to_owned(), "https://192.0.2.1".to_owned())].into();
    let config = Config { page_size: 1, clusters, ..Config::default() };
    let (near, cloud) = fake(config.clone());
    let here = story(&near, &cloud).await;
    let (far, endpoint, context) = serve(config).await;
    let there = story(&far, &build(&endpoint, &context, "").await).await;
    assert_eq!(there, here);
    assert_eq!(log(&far), log(&near));
    assert_eq!(far.contents(), near.contents());
    assert_eq!((far.violations(), near.violations()), (vec![], vec![]));
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_the_deadline_and_the_server_sees_it_go() {
    let (world, endpoint, context) = serve(Config::default()).await;
    world.inject(Fault::new("list_instances", Effect::Hang)).unwrap();
    let remote = Remote::new(&endpoint, &context, Duration::from_millis(200)).unwrap();
    assert_eq!(remote.list_instances(None).await, Err(ApiError::TimedOut));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while world.calls()[0].outcome.as_deref() != Some("cancelled") {
        assert!(tokio::time::Instant::now() < deadline, "still under way: {:?}", world.calls());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.counters().in_flight, 0);
}

#[tokio::test]
async fn a_change_whose_caller_is_gone_is_made_all_the_same() {
    let slow = [("create_address".to_owned(), Duration::from_millis(300))].into();
    let (world, endpoint, _) = serve(Config { latencies: slow, ..Config::default() }).await;
    let body = serde_json::to_value(new_address("x", None)).unwrap();
    let url = format!("{endpoint}/v1/addresses");
    let asked = tokio::time::timeout(Duration::from_millis(100), send(Method::POST, &url, Some(body))).await;
    assert!(asked.is_err() && world.contents().addresses.is_empty(), "nobody waits for the answer");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while world.contents().addresses.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it was never made: {:?}", world.calls());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.calls()[0].outcome.as_deref(), Some("ok"));
}

#[tokio::test]
async fn a_throttled_client_is_told_how_long_to_wait_in_the_header_and_exactly_in_the_body() {
    let (world, endpoint, _) = serve(Config::default()).await;
    world.inject(Fault::new("*", Effect::Throttle).after(Duration::from_millis(1500))).unwrap();
    let answer = send(Method::GET, &format!("{endpoint}/v1/clusters"), None).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "2");
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body, json!({ "code": "throttled", "after": "1.5s" }));
}

#[tokio::test]
async fn a_write_that_shows_no_permit_over_http_is_made_and_noted() {
    let (world, endpoint, _) = serve(Config::default()).await;
    let body = serde_json::to_value(new_address("x", None)).unwrap();
    let answer = send(Method::POST, &format!("{endpoint}/v1/addresses"), Some(body)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(world.contents().addresses.len(), 1);
    let rules: Vec<String> = world.broken_rules().iter().map(|broken| broken.rule.to_string()).collect();
    assert_eq!(rules, ["permit", "ownership"], "nor did it say whose it is: {:?}", world.violations());
}

#[tokio::test]
async fn a_transport_sends_no_write_without_a_permit() {
    let (_, endpoint, context) = serve(Config::default()).await;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{endpoint}/v1/routes"))
        .body(Bytes::new())
        .unwrap();
    let refused = context.transport.send(request, Access::Read).await;
    assert!(matches!(refused, Err(TransportError::NoPermit(_))));
}

#[tokio::test]
async fn the_back_door_does_over_http_what_it_does_in_the_process() {
    let (world, endpoint, context) = serve(Config::default()).await;
    let admin = |path: &str| format!("{endpoint}/admin/{path}");
    let done = async |method: Method, path: &str, body: Option<Value>| {
        let answer = send(method, &admin(path), body).await;
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer
    };
    let read = async |path: &str| -> Value {
        serde_json::from_slice(done(Method::GET, path, None).await.body()).unwrap()
    };
    done(Method::POST, "machines", Some(json!([{ "name": "a" }, { "name": "b" }]))).await;
    done(Method::PUT, "machines/a/stopped", Some(json!(true))).await;
    done(Method::DELETE, "machines/b", None).await;
    let stopped: Vec<(String, bool)> =
        world.contents().machines.into_iter().map(|machine| (machine.id, machine.stopped)).collect();
    assert_eq!(stopped, [("a".to_owned(), true)]);
    assert_eq!(send(Method::DELETE, &admin("machines/b"), None).await.status(), StatusCode::NOT_FOUND);

    let foreign = json!({ "id": "", "name": "x", "tags": { "nephos-owner": UID } });
    done(
        Method::POST,
        "plant",
        Some(json!({ "maker": "cluster-2", "contents": { "balancers": [foreign] } })),
    )
    .await;
    assert_eq!(read("contents").await["balancers"][0]["name"], "x");
    done(Method::PUT, &format!("gone/{UID}"), None).await;
    assert_eq!(read("leaks").await, json!(["lb-000001"]));
    assert_eq!(read("violations").await[0]["rule"], "leak");

    done(Method::POST, "faults", Some(json!({ "operation": "*", "effect": "fail", "times": 1 }))).await;
    let remote = Remote::new(&endpoint, &context, Duration::from_secs(5)).unwrap();
    assert!(remote.list_clusters().await.is_err() && remote.list_clusters().await.is_ok());
    let counters = read("counters").await;
    assert_eq!(counters["byOutcome"], json!({ "failed": 1, "ok": 1 }));
    assert_eq!(read("calls").await[0]["operation"], "list_clusters");
    done(Method::DELETE, "counters", None).await;
    assert_eq!(world.counters().total(), 0);
    let bad = json!({ "operation": "lst", "effect": "fail" });
    assert_eq!(send(Method::POST, &admin("faults"), Some(bad)).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_endpoint_that_is_wrong_or_silent_fails_the_build_with_a_reason() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (endpoint, expected) in
        [(format!("http://{free}"), "reaching the fake cloud at"), ("ftp://x".into(), "is not a URL such as")]
    {
        let mut context = context(CLUSTER);
        context.transport = Arc::new(HttpTransport::new(Duration::from_secs(5)));
        let config = CloudConfig::from_bytes("p.yaml", format!("endpoint: {endpoint}"));
        let error = (PROVIDER.build)(context.with_config(Some(config))).await.err().unwrap();
        assert!(error.report().contains(expected), "{}", error.report());
    }
}

/// A `fake-cloud` process that ends with the test.
struct Process {
    child: Child,
    endpoint: String,
    _files: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(config: &str) -> Process {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("cloud.yaml");
    std::fs::write(&file, config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fake-cloud"))
        .args(["--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Process { child, endpoint: line.trim().to_owned(), _files: files }
}

#[tokio::test]
async fn the_program_prints_its_address_and_serves_two_clusters_at_once() {
    let process = start("latency: 1ms\naddressPool: 203.0.113.0/24\n");
    let endpoint = process.endpoint.as_str();
    let mut ips = Vec::new();
    for id in ["cluster-1", "cluster-2"] {
        let mut context = context(id);
        context.transport = Arc::new(HttpTransport::new(Duration::from_secs(20)));
        let cloud = build(endpoint, &context, "adopt: true").await;
        let mut spec = spec_of(&json!({ "ports": [{ "port": 80 }] }), &["a"], id);
        spec.identity.uid = format!("uid-of-{id}");
        let status = balancers(&cloud).ensure(&spec, &open_gate()).await.unwrap();
        ips.push(status.ingress.unwrap()[0].ip.clone().unwrap());
        let theirs = Identity { uid: "uid-of-cluster-1".into(), ..spec.identity };
        if id == "cluster-2" {
            let refused = balancers(&cloud).delete(&theirs, None, &open_gate()).await.unwrap_err();
            assert_eq!(refused.decision(), &Decision::NotOwned);
        }
    }
    assert_eq!(ips, ["203.0.113.1", "203.0.113.2"]);
    let violations = send(Method::GET, &format!("{endpoint}/admin/violations"), None).await;
    assert_eq!(violations.body().as_ref(), b"[]");
}

#[tokio::test]
async fn the_program_ends_soon_when_told_to_even_with_a_call_that_hangs() {
    let mut process = start("faults: [{ operation: list_clusters, effect: hang }]");
    let uri = format!("{}/v1/clusters", process.endpoint);
    let hanging = tokio::spawn(async move { send(Method::GET, &uri, None).await });
    let calls = format!("{}/admin/calls", process.endpoint);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while send(Method::GET, &calls, None).await.body().as_ref() == b"[]" {
        assert!(tokio::time::Instant::now() < deadline, "the call never came");
    }
    let killed = Command::new("kill").arg(process.child.id().to_string()).status().unwrap();
    assert!(killed.success());
    while process.child.try_wait().unwrap().is_none() {
        assert!(tokio::time::Instant::now() < deadline, "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(process.child.wait().unwrap().success());
    hanging.abort();
}

#[test]
fn the_program_refuses_a_config_that_it_cannot_mean() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cloud.yaml");
    for (text, expected) in
        [("latencie: 1ms", "latencie"), ("endpoint: http://127.0.0.1:1", "this process is the cloud")]
    {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_fake-cloud"))
            .args(["--config", file.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(!output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{stderr}");
    }
}
