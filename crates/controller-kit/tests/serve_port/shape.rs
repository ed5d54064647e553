//! The metric families that dashboards made for upstream look at: their names, types, labels and buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use controller_kit::clock::TokioClock;
use controller_kit::leader::{self, Config, Elector, KubeLease, Surroundings, Timing};
use controller_kit::queue::{self, Priority, Queue, RateLimits};
use controller_kit::random::Randomness;
use controller_kit::serve::Site;
use controller_kit::serve::auth::{self, Access, Authentication, Authorization, KubeReviews, Reviews, Trust};
use controller_kit::serve::health::Checks;
use controller_kit::worker::{self, Outcome, Workers};
use controller_kit::{client, metrics};
use k8s_openapi::api::core::v1::Node;
use prometheus_client::registry::Registry;
use testkit::{ApiServer, EPOCH, Fault, Verb, When};

use crate::client::get;
use crate::port::{contents, open, options, serve};

/// Families of the same modules that upstream does not have.
const OURS: [&str; 4] = [
    "process_threads",
    "rest_client_config_reloads_total",
    "rest_client_config_stale",
    "workqueue_panics_total",
];

/// One line per family: its type, its labels, its bounds.
fn shape(text: &str) -> String {
    let mut families: BTreeMap<&str, (&str, BTreeSet<&str>, Vec<&str>)> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            current = name;
            families.entry(name).or_insert((kind, BTreeSet::new(), Vec::new()));
        } else if !line.starts_with('#') {
            let (_, labels, bounds) = families.get_mut(current).unwrap();
            let inside = line
                .split_once('{')
                .and_then(|(_, rest)| rest.rsplit_once('}'))
                .map_or("", |(labels, _)| labels);
            for (label, value) in inside.split("\",").filter_map(|pair| pair.split_once("=\"")) {
                let value = value.trim_end_matches('"');
                if label != "le" {
                    labels.insert(label);
                } else if !bounds.contains(&value) {
                    bounds.push(value);
                }
            }
        }
    }
    let mut shape = String::new();
    let upstreams = families.into_iter().filter(|(name, _)| !OURS.contains(name));
    for (name, (kind, labels, bounds)) in upstreams {
        let labels = labels.into_iter().collect::<Vec<_>>().join(",");
        let line = format!("{name} {kind} {{{labels}}} {}", bounds.join(" "));
        let _ = writeln!(shape, "{}", line.trim_end());
    }
    shape
}

/// Everything that upstream's process registers, used once so that labels show.
async fn registry() -> (Registry, Checks, Vec<Box<dyn std::any::Any>>) {
    let (mut registry, server, random) = (Registry::default(), ApiServer::new(1), Randomness::seeded(1));
    let process = metrics::Metrics::register(&mut registry);
    process.built_from(&metrics::Build {
        major: "0".into(),
        minor: "1".into(),
        git_version: "v0.1.0".into(),
        git_commit: "c".into(),
        git_tree_state: "clean".into(),
        build_date: "d".into(),
        go_version: "g".into(),
        compiler: "rustc".into(),
        platform: "linux/amd64".into(),
    });
    let running = process.running("service", "cloud-controller-manager");
    let queue = Queue::new("service", RateLimits::default(), &queue::Metrics::register(&mut registry));
    queue.add("default/web".to_owned(), Priority::default());
    let settings = worker::Settings { workers: 1, deadline: None };
    let workers = Workers::spawn(queue, settings, &worker::Metrics::register(&mut registry), |_| async {
        Ok::<_, worker::BoxError>(Outcome::Done)
    });
    let clients = client::Clients::over(
        server.service(),
        client::Options::default(),
        random.clone(),
        client::Metrics::register(&mut registry),
    );
    let rate = client::TokenBucket::new(client::Rate { qps: 20.0, burst: 30 });
    let named = clients.named("test").sharing(&rate).build();
    server.faults().once(When::verb(Verb::List), Fault::Throttled(Duration::ZERO));
    kube::Api::<Node>::all(named).list(&kube::api::ListParams::default()).await.unwrap();
    let elector = Elector::new(
        Config {
            namespace: "kube-system".into(),
            name: "cloud-controller-manager".into(),
            identity: "a".into(),
            timing: Timing::default(),
        },
        Surroundings {
            store: Arc::new(KubeLease::new(server.client(), "kube-system", "cloud-controller-manager")),
            clock: Arc::new(TokioClock::starting_at(EPOCH)),
            random: random.clone(),
            metrics: leader::Metrics::register(&mut registry),
            listener: Arc::new(|_| {}),
        },
    )
    .unwrap();
    delegate(&server, random, auth::Metrics::register(&mut registry)).await;
    let checks = Checks::new();
    (registry, checks, vec![Box::new(running), Box::new(workers), Box::new(elector)])
}

async fn delegate(server: &ApiServer, random: Randomness, metrics: auth::Metrics) {
    let reviews: Arc<dyn Reviews> = Arc::new(KubeReviews::new(server.client(), random, metrics.clone()));
    let access = Access::new(
        &Authentication::default(),
        &Authorization::default(),
        Arc::new(Trust::nobody()),
        Some(reviews),
        Arc::new(TokioClock::starting_at(EPOCH)),
        metrics,
    );
    let request = http::Request::get("/metrics").header("authorization", "Bearer x");
    let _ = access.admit(&request.body(bytes::Bytes::new()).unwrap()).await;
    let request = http::Request::get("/metrics");
    let _ = access.admit(&request.body(bytes::Bytes::new()).unwrap()).await;
}

/// Proves: APP-54, APP-34
#[tokio::test]
async fn the_families_of_upstreams_process_have_its_names_types_labels_and_buckets() {
    let (registry, checks, _running) = registry().await;
    let port = serve(&options(), Arc::new(Site::new(contents(open(), checks, registry)))).await;
    get(port.address, "/livez", None).await;
    let mut shown = shape(&get(port.address, "/metrics", None).await.text);
    shown.push_str(&shape(&get(port.address, "/metrics/slis", None).await.text));
    insta::assert_snapshot!(shown, @"
    apiserver_delegated_authn_request_duration_seconds histogram {code} 0.25 0.5 0.7 1 1.5 3 5 10 +Inf
    apiserver_delegated_authn_request_total counter {code}
    apiserver_delegated_authz_request_duration_seconds histogram {code} 0.25 0.5 0.7 1 1.5 3 5 10 +Inf
    apiserver_delegated_authz_request_total counter {code}
    authentication_duration_seconds histogram {result} 0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf
    authorization_attempts_total counter {result}
    authorization_duration_seconds histogram {result} 0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf
    kubernetes_build_info gauge {build_date,compiler,git_commit,git_tree_state,git_version,go_version,major,minor,platform}
    leader_election_master_status gauge {name}
    leader_election_slowpath_total counter {name}
    process_cpu_seconds_total counter {}
    process_max_fds gauge {}
    process_open_fds gauge {}
    process_resident_memory_bytes gauge {}
    process_start_time_seconds gauge {}
    process_virtual_memory_bytes gauge {}
    rest_client_rate_limiter_duration_seconds histogram {host,verb} 0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf
    rest_client_request_duration_seconds histogram {host,verb} 0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf
    rest_client_request_retries_total counter {code,host,verb}
    rest_client_requests_total counter {code,host,method}
    running_managed_controllers gauge {manager,name}
    workqueue_adds_total counter {name}
    workqueue_depth gauge {name}
    workqueue_longest_running_processor_seconds gauge {name}
    workqueue_queue_duration_seconds histogram {name} 1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10 +Inf
    workqueue_retries_total counter {name}
    workqueue_unfinished_work_seconds gauge {name}
    workqueue_work_duration_seconds histogram {name} 1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10 +Inf
    kubernetes_healthcheck gauge {name,type}
    kubernetes_healthchecks_total counter {name,status,type}
    ");
}
