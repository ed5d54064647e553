//! What named clients do with a request and its answer, on services inside the test and in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use controller_kit::client::{self, Clients, Metrics, Options, Rate, TimedOut, TokenBucket};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::client::Body;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout};

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, Instant)>>>);

impl Log {
    fn agents(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(agent, _)| agent.clone()).collect()
    }

    fn times(&self) -> Vec<Instant> {
        self.0.lock().unwrap().iter().map(|(_, at)| *at).collect()
    }
}

/// Clients over a service that answers the nth request with `answer(n)`; `None` never answers.
fn clients(
    rate: Option<Rate>,
    answer: impl Fn(usize, &Request<Body>) -> Option<Answer> + Send + 'static,
) -> (Clients, Log, Registry) {
    let log = Log::default();
    let seen = log.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let agent = request.headers()[http::header::USER_AGENT].to_str().unwrap().to_owned();
        let number = {
            let mut seen = seen.0.lock().unwrap();
            seen.push((agent, Instant::now()));
            seen.len()
        };
        match answer(number, &request) {
            Some(answer) => async { Ok::<_, Infallible>(answer) }.boxed(),
            None => std::future::pending().boxed(),
        }
    });
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let options = Options { rate, user_agent: "ccm/v1 (linux/amd64) p/abc".into(), ..Options::default() };
    (Clients::over(service, options, Randomness::seeded(1), metrics), log, registry)
}

fn whole(status: u16, text: &str) -> Answer {
    let body = Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

fn map() -> Answer {
    whole(200, r#"{"metadata":{"name":"m","namespace":"ns"}}"#)
}

fn refusal(status: u16, retry_after: Option<u64>) -> Answer {
    let mut answer =
        whole(status, &format!(r#"{{"kind":"Status","code":{status},"reason":"x","message":"no"}}"#));
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    answer
}

async fn get(client: kube::Client) -> kube::Result<ConfigMap> {
    Api::namespaced(client, "ns").get("m").await
}

fn code(result: kube::Result<ConfigMap>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn metric(registry: &Registry, line: &str) -> Option<String> {
    let text = controller_kit::metrics::encode(registry).unwrap();
    text.lines().find_map(|found| Some(found.strip_prefix(line)?.trim().to_owned()))
}

/// Proves: APP-11
#[tokio::test(start_paused = true)]
async fn each_client_names_itself() {
    let (clients, log, _) = clients(None, |_, _| Some(map()));
    get(clients.named("service-controller").build()).await.unwrap();
    get(clients.named("leader-election").build()).await.unwrap();
    let agent = "ccm/v1 (linux/amd64) p/abc";
    assert_eq!(log.agents(), [format!("{agent}/service-controller"), format!("{agent}/leader-election")]);
    let ours = client::user_agent("cloud-controller-manager", "v0.1.0", "nephos", "1234567");
    assert!(ours.starts_with("cloud-controller-manager/v0.1.0 (linux/"), "{ours}");
    assert!(ours.ends_with(") nephos/1234567"), "{ours}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up() {
    let (clients, ..) = clients(None, |_, _| None);
    let began = Instant::now();
    let error = get(clients.named("x").build()).await.unwrap_err();
    assert_eq!(began.elapsed(), client::REQUEST_TIMEOUT);
    let kube::Error::Service(inner) = &error else { panic!("{error:?}") };
    let timed_out = inner.downcast_ref::<TimedOut>().unwrap();
    assert_eq!(timed_out.to_string(), "GET /api/v1/namespaces/ns/configmaps/m was not answered within 60 s");
    let began = Instant::now();
    get(clients.named("x").within(Duration::from_secs(5)).build()).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_within_the_body_is_given_up() {
    let half = |_: usize, _: &Request<Body>| {
        let piece = stream::iter([Ok(Frame::data(Bytes::from_static(b"{\"metadata\":")))]);
        Some(Response::new(StreamBody::new(piece.chain(stream::pending())).boxed_unsync()))
    };
    let (clients, ..) = clients(None, half);
    let began = Instant::now();
    assert!(get(clients.named("x").build()).await.is_err());
    assert_eq!(began.elapsed(), client::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_last_but_has_to_begin() {
    let (clients, ..) = clients(None, |number, _| {
        let late = stream::once(async {
            tokio::time::sleep(Duration::from_secs(250)).await;
            let event = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#;
            Ok(Frame::data(Bytes::from(format!("{event}\n"))))
        });
        (number == 1).then(|| Response::new(StreamBody::new(late).boxed_unsync()))
    });
    let nodes: Api<Node> = Api::all(clients.named("x").build());
    let parameters = kube::api::WatchParams::default();
    let events = nodes.watch(&parameters, "0").await.unwrap();
    assert_eq!(events.count().await, 1, "long after the deadline of other requests");
    let began = Instant::now();
    assert!(nodes.watch(&parameters, "0").await.is_err());
    assert_eq!(began.elapsed(), client::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says_when() {
    let (clients, log, registry) = clients(None, |number, _| match number {
        1 => Some(refusal(429, Some(3))),
        2 => Some(refusal(503, Some(1))),
        3 => Some(refusal(429, None)),
        _ => Some(map()),
    });
    get(clients.named("x").build()).await.unwrap();
    let times = log.times();
    let pauses: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    for (pause, asked) in pauses.iter().zip([3.0, 1.0, 1.0]) {
        assert!((asked..asked * 1.2).contains(pause), "{pauses:?}");
    }
    let counted = |code| {
        metric(
            &registry,
            &format!(r#"rest_client_requests_total{{code="{code}",method="GET",host="in-process"}}"#),
        )
    };
    assert_eq!((counted(429).as_deref(), counted(200).as_deref()), (Some("2"), Some("1")));
    let retried = r#"rest_client_request_retries_total{code="429",verb="GET",host="in-process"}"#;
    assert_eq!(metric(&registry, retried).as_deref(), Some("2"));
    let took = r#"rest_client_request_duration_seconds_count{verb="GET",host="in-process"}"#;
    assert_eq!(metric(&registry, took).as_deref(), Some("1"), "one request, however often it was sent");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_not_done_again() {
    for status in [500, 502, 503, 504, 409] {
        let (clients, log, _) = clients(None, move |_, _| Some(refusal(status, None)));
        assert_eq!(code(get(clients.named("x").build()).await), status);
        assert_eq!(log.times().len(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_end_after_ten_or_at_the_deadline_with_the_servers_answer() {
    let (clients, log, _) = clients(None, |_, request| {
        Some(refusal(429, Some(if request.uri().path().ends_with('m') { 1 } else { 25 })))
    });
    assert_eq!(code(get(clients.named("x").build()).await), 429);
    assert_eq!(log.times().len(), 11);
    let began = Instant::now();
    let slow: Api<ConfigMap> = Api::namespaced(clients.named("x").build(), "ns");
    assert_eq!(code(slow.get("n").await), 429, "the answer, not a timeout");
    assert!(began.elapsed() < client::REQUEST_TIMEOUT);
}

/// Lease renewal decides itself when to give up.
#[tokio::test(start_paused = true)]
async fn a_client_without_retries_hands_on_every_answer() {
    let (clients, log, _) = clients(None, |_, _| Some(refusal(429, Some(1))));
    assert_eq!(code(get(clients.named("leader-election").without_retries().build()).await), 429);
    assert_eq!(log.times().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn budgets_are_per_client_shared_or_none() {
    let (clients, ..) = clients(Some(Rate { qps: 1.0, burst: 1 }), |_, _| Some(map()));
    let run = |each: Vec<kube::Client>| async move {
        let began = Instant::now();
        for client in each {
            for _ in 0..3 {
                get(client.clone()).await.unwrap();
            }
        }
        began.elapsed().as_secs_f64().round()
    };
    let own = vec![clients.named("a").build(), clients.named("b").build()];
    assert!((run(own).await - 4.0).abs() < 0.1, "two waits each");
    let bucket = TokenBucket::new(Rate { qps: 1.0, burst: 1 });
    let shared =
        vec![clients.named("a").sharing(&bucket).build(), clients.named("b").sharing(&bucket).build()];
    assert!((run(shared).await - 5.0).abs() < 0.1, "five waits together");
    assert!(run(vec![clients.named("a").unlimited().build()]).await < 0.1);
}

#[tokio::test(start_paused = true)]
async fn the_families_have_client_gos_buckets() {
    let (clients, _, registry) = clients(Some(Rate { qps: 1.0, burst: 9 }), |_, _| Some(map()));
    get(clients.named("x").build()).await.unwrap();
    let text = controller_kit::metrics::encode(&registry).unwrap();
    for family in ["rest_client_request_duration_seconds", "rest_client_rate_limiter_duration_seconds"] {
        let prefix = format!(r#"{family}_bucket{{le=""#);
        let bounds: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split('"').next()).collect();
        let expected = "0.005 0.025 0.1 0.25 0.5 1.0 2.0 4.0 8.0 15.0 30.0 60.0 +Inf";
        assert_eq!(bounds.join(" "), expected, "{family}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_absent_api_server_is_waited_for() {
    let (clients, log, _) = clients(None, |number, request| {
        assert_eq!(request.uri().path(), "/healthz");
        Some(if number < 30 { refusal(503, None) } else { whole(200, "ok") })
    });
    let (random, stop) = (Randomness::seeded(1), Shutdown::new());
    let client = clients.named("x").without_retries().build();
    let began = Instant::now();
    assert!(client::wait_for_api_server(&client, &random, &stop).await);
    assert_eq!(log.times().len(), 30);
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(29) && waited < Duration::from_secs(33), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_api_server_ends_with_the_process() {
    let (clients, ..) = clients(None, |_, _| None);
    let (random, stop) = (Randomness::seeded(1), Shutdown::new());
    let client = clients.named("x").build();
    let waiting = client::wait_for_api_server(&client, &random, &stop);
    let trigger = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        stop.trigger();
    };
    let (there, ()) =
        timeout(Duration::from_secs(101), futures::future::join(waiting, trigger)).await.unwrap();
    assert!(!there);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_us_is_there() {
    for status in [401, 403, 404] {
        let (clients, ..) = clients(None, move |_, _| Some(refusal(status, None)));
        let client = clients.named("x").build();
        assert!(client::wait_for_api_server(&client, &Randomness::seeded(1), &Shutdown::new()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_metric_names_are_client_gos() {
    let (clients, _, registry) = clients(Some(Rate { qps: 1.0, burst: 9 }), |_, _| Some(map()));
    get(clients.named("x").build()).await.unwrap();
    let text = controller_kit::metrics::encode(&registry).unwrap();
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert_eq!(kinds["rest_client_requests"], "counter");
    assert_eq!(kinds["rest_client_request_duration_seconds"], "histogram");
    assert_eq!(kinds["rest_client_rate_limiter_duration_seconds"], "histogram");
}
