//! What the paths show.

use std::sync::Arc;

use bytes::Bytes;
use controller_kit::clock::SystemClock;
use controller_kit::log;
use controller_kit::serve::Site;
use controller_kit::serve::health::{Checks, Scope};
use http::{Method, Version};
use prometheus_client::registry::Registry;

use crate::client::{Client, get, request};
use crate::port::{contents, open, options, serve, site};

/// Proves: APP-48
#[tokio::test]
async fn probes_are_answered_with_sub_paths_and_exclusions() {
    let checks = Checks::new();
    let mut contents = contents(open(), checks.clone(), Registry::default());
    contents.log = None;
    let port = serve(&options(), Arc::new(Site::new(contents))).await;
    assert_eq!(get(port.address, "/healthz?verbose", None).await.text, "[+]ping ok\nhealthz check passed\n");
    checks.add(Scope::Live, "leaderElection", || Ok(()));
    checks.add(Scope::Ready, "cloud", || Err("the cloud answers 503".into()));
    let mut session = Client::default().session(port.address).await;
    for path in ["/healthz", "/livez", "/healthz/leaderElection", "/readyz?exclude=cloud"] {
        let seen = session.get(path).await.unwrap();
        assert_eq!((seen.code, seen.text.as_str()), (200, "ok"), "{path}");
    }
    let seen = session.get("/readyz").await.unwrap();
    let listed = "[+]leaderElection ok\n[-]cloud failed: reason withheld\nreadyz check failed\n";
    assert_eq!((seen.code, seen.text.as_str()), (500, listed));
    let seen = session.get("/readyz/cloud").await.unwrap();
    assert_eq!((seen.code, seen.text.as_str()), (500, "internal server error: the cloud answers 503\n"));
    for path in ["/livez/cloud", "/livez/absent", "/", "/healthz/", "/debug/pprof/", "/debug/flags/v"] {
        assert_eq!(session.get(path).await.unwrap().code, 404, "{path}");
    }
    let seen = session.send(request(Method::POST, "/healthz", None)).await.unwrap();
    assert_eq!(seen.code, 405);
    let seen = session.send(request(Method::HEAD, "/healthz", None)).await.unwrap();
    assert_eq!((seen.code, seen.text.as_str()), (200, ""));
}

#[tokio::test]
async fn metrics_come_in_the_format_that_was_asked_for_over_either_protocol() {
    let port = serve(&options(), site(open())).await;
    let client = Client { protocols: &[b"h2", b"http/1.1"], ..Client::default() };
    let mut session = client.session(port.address).await;
    let seen = session.get("/metrics").await.unwrap();
    assert_eq!((seen.code, seen.version), (200, Version::HTTP_2));
    assert_eq!(seen.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(seen.text.contains("# TYPE process_cpu_seconds_total counter\n"), "{}", seen.text);
    let mut asking = request(Method::GET, "/metrics", None);
    asking.headers_mut().insert("accept", "application/openmetrics-text".parse().unwrap());
    let seen = session.send(asking).await.unwrap();
    assert_eq!(seen.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(seen.text.ends_with("# EOF\n") && seen.text.contains("# TYPE process_cpu_seconds counter\n"));
    let seen = session.send(request(Method::HEAD, "/metrics", None)).await.unwrap();
    assert_eq!((seen.code, seen.text.as_str()), (200, ""));
}

#[tokio::test]
async fn slis_count_what_probes_asked_and_can_be_reset() {
    let port = serve(&options(), site(open())).await;
    let mut session = Client::default().session(port.address).await;
    for _ in 0..2 {
        session.get("/livez").await.unwrap();
    }
    let text = session.get("/metrics/slis").await.unwrap().text;
    insta::assert_snapshot!(text, @r#"
    # HELP kubernetes_healthcheck This metric records the result of a single healthcheck.
    # TYPE kubernetes_healthcheck gauge
    kubernetes_healthcheck{name="ping",type="livez"} 1
    # HELP kubernetes_healthchecks_total This metric records the results of all healthcheck.
    # TYPE kubernetes_healthchecks_total counter
    kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 2
    "#);
    let seen = session.send(request(Method::DELETE, "/metrics/slis", None)).await.unwrap();
    assert_eq!(seen.code, 200);
    assert!(!session.get("/metrics/slis").await.unwrap().text.contains("ping"));
    let seen = session.send(request(Method::DELETE, "/metrics", None)).await.unwrap();
    assert_eq!(seen.code, 405, "only service levels can be reset");
}

#[tokio::test]
async fn configuration_flags_and_status_are_shown() {
    let port = serve(&options(), site(open())).await;
    let mut session = Client::default().session(port.address).await;
    let seen = session.get("/configz").await.unwrap();
    assert_eq!(
        (seen.content_type.as_str(), seen.text.as_str()),
        ("application/json", r#"{"cloudcontrollermanager.config.k8s.io":{"Generic":{}}}"#)
    );
    let text = session.get("/flagz").await.unwrap().text;
    assert!(text.starts_with("\ncloud-controller-manager flagz\nWarning: "), "{text}");
    assert!(text.ends_with("\n\ncloud-provider=fake\nv=2\n"), "{text}");
    let text = session.get("/statusz").await.unwrap().text;
    assert!(text.starts_with("\ncloud-controller-manager statusz\n"), "{text}");
    assert!(text.contains("\nUp: 0 hr 00 min 0") && text.contains("\nBinary version: v0.1.0\n"), "{text}");
}

#[tokio::test]
async fn the_log_verbosity_changes_at_run_time() {
    let clock = Arc::new(SystemClock);
    let (_layer, handle) =
        log::layer::<tracing_subscriber::Registry, _>(&log::Options::default(), clock, std::io::sink)
            .unwrap();
    let mut contents = contents(open(), Checks::new(), Registry::default());
    contents.log = Some(handle.clone());
    let port = serve(&options(), Arc::new(Site::new(contents))).await;
    let mut session = Client::default().session(port.address).await;
    let put = |body: &'static str| request(Method::PUT, "/debug/flags/v", None).map(|_| Bytes::from(body));
    let seen = session.send(put("6\n")).await.unwrap();
    assert_eq!((seen.code, handle.verbosity()), (200, 6), "{}", seen.text);
    assert_eq!(session.get("/debug/flags/v").await.unwrap().text, "6\n");
    for wrong in ["", "-1", "256", "much"] {
        assert_eq!(session.send(put(wrong)).await.unwrap().code, 400, "{wrong:?}");
    }
    assert_eq!(handle.verbosity(), 6);
    assert_eq!(session.send(request(Method::DELETE, "/debug/flags/v", None)).await.unwrap().code, 405);
}
