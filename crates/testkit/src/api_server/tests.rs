//! The server through a kube client, in virtual time.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;

use super::*;
use crate::builders::{node, service};

fn nodes(server: &ApiServer) -> Api<Node> {
    Api::all(server.client())
}

fn code_of<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> u16 {
    match outcome {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected an API error, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_what_is_there_and_what_happens() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    let stream = watcher(nodes(&server), watcher::Config::default());
    let mut stream = std::pin::pin!(stream);
    let mut seen = Vec::new();
    let mut next = async |count: usize| {
        for _ in 0..count {
            seen.push(match stream.next().await.unwrap().unwrap() {
                watcher::Event::Init => "init".to_owned(),
                watcher::Event::InitApply(node) => format!("found {}", node.metadata.name.unwrap()),
                watcher::Event::InitDone => "complete".to_owned(),
                watcher::Event::Apply(node) => format!("applied {}", node.metadata.name.unwrap()),
                watcher::Event::Delete(node) => format!("deleted {}", node.metadata.name.unwrap()),
            });
        }
        seen.clone()
    };
    next(3).await;
    server.create(&node("b").build());
    server.delete::<Node>("", "a");
    let seen = next(2).await;
    assert_eq!(seen, ["init", "found a", "complete", "applied b", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_error_whose_write_was_applied() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    server.faults().once(When::verb(Verb::Patch).kind("Node").name("a"), Fault::LostAnswer);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}));
    let lost = nodes(&server).patch("a", &PatchParams::default(), &patch).await;
    assert!(matches!(lost, Err(kube::Error::Service(_))), "{lost:?}");
    assert_eq!(server.get::<Node>("", "a").unwrap().metadata.labels.unwrap()["x"], "1");
    assert!(nodes(&server).patch("a", &PatchParams::default(), &patch).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_refuses_and_comes_back() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    server.faults().down_for(Duration::from_secs(60));
    assert!(matches!(nodes(&server).get("a").await, Err(kube::Error::Service(_))));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(nodes(&server).get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_shows_the_past_to_reads_that_allow_it_alone() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    server.create(&node("b").build());
    server.faults().travel_back(1, Duration::from_secs(30));
    let cached = ListParams::default().match_any();
    let names = async |params: &ListParams| nodes(&server).list(params).await.unwrap().items.len();
    assert_eq!(names(&cached).await, 1);
    assert_eq!(names(&ListParams::default()).await, 2);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(names(&cached).await, 2);
}

#[tokio::test(start_paused = true)]
async fn time_travel_hides_events_from_watches_until_it_ends() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    server.create(&node("b").build());
    server.faults().travel_back(1, Duration::from_secs(30));
    // With a page size kube leaves `resourceVersion=0` out and reads from the quorum.
    let config = watcher::Config { page_size: None, ..watcher::Config::default().any_semantic() };
    let stream = watcher(nodes(&server), config).try_filter_map(|event| async {
        Ok(match event {
            watcher::Event::InitApply(node) | watcher::Event::Apply(node) => node.metadata.name,
            _ => None,
        })
    });
    let mut stream = std::pin::pin!(stream);
    assert_eq!(stream.next().await.unwrap().unwrap(), "a");
    assert_eq!(stream.next().await.unwrap().unwrap(), "b");
    assert!(server.elapsed() >= Duration::from_secs(30), "{:?}\n{}", server.elapsed(), server.trace());
}

#[tokio::test(start_paused = true)]
async fn faults_answer_as_they_say() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    let api = nodes(&server);
    let gets = || When::verb(Verb::Get);
    for (fault, code) in [
        (Fault::InternalError, 500),
        (Fault::Unavailable, 503),
        (Fault::Throttled(Duration::from_secs(7)), 429),
        (Fault::Forbidden, 403),
        (Fault::Timeout(Duration::from_secs(1)), 504),
    ] {
        server.faults().once(gets(), fault);
        assert_eq!(code_of(api.get("a").await), code);
    }
    server.faults().once(When::writes(), Fault::Conflict);
    assert_eq!(code_of(api.delete("a", &DeleteParams::default()).await), 409);
    server.faults().once(gets(), Fault::Hang);
    assert!(tokio::time::timeout(Duration::from_secs(3600), api.get("a")).await.is_err());
    server.faults().once(gets(), Fault::Delay(Duration::from_secs(5)));
    let late = server.elapsed() + Duration::from_secs(5);
    assert!(api.get("a").await.is_ok());
    assert!(server.elapsed() >= late);
}

#[tokio::test(start_paused = true)]
async fn rules_keep_to_their_window_and_their_object() {
    let server = ApiServer::new(1);
    server.create(&node("a").build());
    server.create(&node("b").build());
    let window = When::verb(Verb::Get).name("a").from(Duration::from_secs(10)).until(Duration::from_secs(20));
    server.faults().always(window, Fault::InternalError);
    let api = nodes(&server);
    assert!(api.get("a").await.is_ok());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(api.get("b").await.is_ok());
    assert_eq!(code_of(api.get("a").await), 500);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(api.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_are_remembered_and_counted() {
    let server = ApiServer::new(1);
    let api: Api<Service> = Api::default_namespaced(server.client_as("service-controller"));
    api.create(&PostParams::default(), &service("web").load_balancer().port(80).build()).await.unwrap();
    let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    api.patch_status("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    api.get("web").await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.clone().writes().kind("Service").name("web").count(), 2);
    let last = requests.verb(Verb::Patch).last().cloned().unwrap();
    assert_eq!((last.subresource.as_str(), last.code, &last.body), ("status", 200, &patch));
    assert_eq!(last.user_agent, "service-controller");
}

#[tokio::test(start_paused = true)]
async fn a_broken_invariant_is_reported_with_its_sentence() {
    let server = ApiServer::new(1);
    server.invariant("no node is ever deleted", |written| {
        if written.kind == "Node" && written.after.is_none() { Err("a node is gone".into()) } else { Ok(()) }
    });
    server.create(&node("a").build());
    assert_eq!(server.violations(), Vec::<String>::new());
    nodes(&server).delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.violations(), ["no node is ever deleted: a node is gone (Node a)"]);
}

#[tokio::test(start_paused = true)]
async fn history_is_forgotten_after_some_minutes() {
    let server = ApiServer::new(1);
    for name in ["a", "b", "c"] {
        server.create(&node(name).build());
    }
    let page = nodes(&server).list(&ListParams::default().limit(2)).await.unwrap();
    let next = ListParams::default().limit(2).continue_token(page.metadata.continue_.as_deref().unwrap());
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(nodes(&server).list(&next).await.unwrap().items.len(), 1);
    server.create(&node("d").build());
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert_eq!(code_of(nodes(&server).list(&next).await), 410);
}
