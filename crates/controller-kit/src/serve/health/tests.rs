//! The checks, their scopes, and the words of the endpoints.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use tokio::time::advance;

use super::*;
use crate::queue::{self, Queue};
use crate::serve::answer::Answer;
use crate::worker::{Outcome, Settings, Workers};

fn read(answer: Answer) -> (u16, String) {
    let status = answer.status().as_u16();
    let body: Bytes = answer.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn ask(checks: &Checks, endpoint: Endpoint, exclude: &[&str], verbose: bool) -> (u16, String) {
    let exclude = exclude.iter().map(|&name| name.to_owned()).collect();
    read(checks.ask(endpoint, exclude).answer(verbose))
}

/// Proves: APP-48
#[test]
fn without_checks_a_ping_passes() {
    let checks = Checks::new();
    assert_eq!(ask(&checks, Endpoint::Healthz, &[], false), (200, "ok".into()));
    assert_eq!(
        ask(&checks, Endpoint::Healthz, &[], true),
        (200, "[+]ping ok\nhealthz check passed\n".into())
    );
    checks.add(Scope::Live, "leaderElection", Leadership::unconditional());
    assert_eq!(
        ask(&checks, Endpoint::Healthz, &[], true),
        (200, "[+]leaderElection ok\nhealthz check passed\n".into())
    );
    checks.remove("leaderElection");
    assert!(checks.knows(Endpoint::Livez, "ping"));
}

#[test]
fn a_failure_is_listed_without_its_reason_and_can_be_excluded() {
    let checks = Checks::new();
    checks.add(Scope::Live, "service-lb-controller", || Ok(()));
    checks.add(Scope::Live, "node-route-controller", || Err("stuck on 10.0.0.0/24".into()));
    let listed = "[+]service-lb-controller ok\n[-]node-route-controller failed: reason withheld\n";
    assert_eq!(ask(&checks, Endpoint::Livez, &[], false), (500, format!("{listed}livez check failed\n")));
    assert_eq!(ask(&checks, Endpoint::Livez, &["node-route-controller"], false), (200, "ok".into()));
    assert_eq!(
        ask(&checks, Endpoint::Livez, &["node-route-controller", "absent", "b"], true).1,
        "[+]service-lb-controller ok\n[+]node-route-controller excluded: ok\n\
         warn: some health checks cannot be excluded: no matches for \"absent\", \"b\"\nlivez check passed\n"
    );
    let reason = checks.ask_one(Endpoint::Livez, "node-route-controller").unwrap().unwrap_err();
    assert_eq!(reason.to_string(), "stuck on 10.0.0.0/24");
    assert!(checks.ask_one(Endpoint::Livez, "absent").is_none());
}

#[test]
fn a_failing_cloud_shows_in_readiness_and_never_in_liveness() {
    let (checks, cloud) = (Checks::new(), Reported::default());
    checks.add(Scope::Live, "leaderElection", Leadership::unconditional());
    checks.add(Scope::Ready, "cloud", cloud.clone());
    assert_eq!(ask(&checks, Endpoint::Readyz, &[], false).0, 200);
    cloud.failing("the cloud answers 503");
    assert_eq!(ask(&checks, Endpoint::Livez, &[], false).0, 200);
    assert_eq!(ask(&checks, Endpoint::Healthz, &[], false).0, 200);
    assert_eq!(ask(&checks, Endpoint::Readyz, &[], false).0, 500);
    cloud.passing();
    assert_eq!(ask(&checks, Endpoint::Readyz, &[], false), (200, "ok".into()));
}

#[test]
fn readiness_waits_for_what_was_started_and_ends_with_the_process() {
    let (checks, readiness, stop) = (Checks::new(), Readiness::default(), Shutdown::new());
    checks.add(Scope::Ready, "started", readiness.clone());
    checks.add(Scope::Ready, "shutdown", stop.clone());
    let handle = readiness.handle("caches/nodes");
    let reason = checks.ask_one(Endpoint::Readyz, "started").unwrap().unwrap_err();
    assert_eq!(reason.to_string(), "waiting for caches/nodes");
    handle.complete();
    assert_eq!(ask(&checks, Endpoint::Readyz, &[], false).0, 200);
    stop.trigger();
    assert_eq!(ask(&checks, Endpoint::Readyz, &[], false).0, 500);
    assert_eq!(ask(&checks, Endpoint::Livez, &[], false).0, 200, "a process that drains is not to be killed");
}

#[tokio::test(start_paused = true)]
async fn liveness_fails_for_a_worker_past_its_own_deadline_and_names_the_item() {
    let queue: Queue<String> =
        Queue::new("service", queue::RateLimits::default(), &queue::Metrics::unregistered());
    let settings = Settings { workers: 2, deadline: Some(Duration::from_secs(60)) };
    let metrics = worker::Metrics::unregistered();
    let workers = Workers::spawn(queue.clone(), settings, &metrics, |key: String| async move {
        if key == "default/stuck" {
            std::future::pending::<()>().await;
        }
        Ok::<_, BoxError>(Outcome::Requeue)
    });
    let checks = Checks::new();
    checks.add(Scope::Live, "service-lb-controller", workers.health());
    queue.add("default/failing".to_owned(), queue::Priority::default());
    queue.add("default/stuck".to_owned(), queue::Priority::default());
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(ask(&checks, Endpoint::Livez, &[], false).0, 200, "failing and retrying is alive");
    advance(Duration::from_secs(2)).await;
    assert_eq!(
        ask(&checks, Endpoint::Livez, &[], false),
        (500, "[-]service-lb-controller failed: reason withheld\nlivez check failed\n".into())
    );
    let reason = checks.ask_one(Endpoint::Livez, "service-lb-controller").unwrap().unwrap_err();
    assert_eq!(reason.to_string(), "service has worked on \"default/stuck\" for 61s");
}

#[test]
fn answers_are_counted_by_check_endpoint_and_outcome() {
    let (checks, mut registry) = (Checks::new(), Registry::default());
    checks.slis().register(&mut registry);
    checks.add(Scope::Live, "good", || Ok(()));
    checks.add(Scope::Ready, "bad", || Err("no".into()));
    ask(&checks, Endpoint::Livez, &[], false);
    ask(&checks, Endpoint::Readyz, &[], false);
    ask(&checks, Endpoint::Readyz, &["bad"], false);
    let text = crate::metrics::encode(&registry).unwrap();
    for line in [
        r#"kubernetes_healthcheck{name="good",type="livez"} 1"#,
        r#"kubernetes_healthcheck{name="bad",type="readyz"} 0"#,
        r#"kubernetes_healthchecks_total{name="good",type="readyz",status="success"} 2"#,
        r#"kubernetes_healthchecks_total{name="bad",type="readyz",status="error"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    checks.slis().reset();
    assert!(!crate::metrics::encode(&registry).unwrap().contains("good"));
}
