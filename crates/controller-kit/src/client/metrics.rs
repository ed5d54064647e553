//! client-go's `rest_client_*` families, and whether the configuration on disk is the one in use.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::Registrar;

/// INVARIANT: client-go's buckets; dashboards compute quantiles over both implementations.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Retry {
    code: String,
    verb: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    verb: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reload {
    result: &'static str,
}

/// What the client counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<Answer, Counter>,
    retries: Family<Retry, Counter>,
    duration: Family<Call, Histogram>,
    limiter: Family<Call, Histogram>,
    reloads: Family<Reload, Counter>,
    stale: Gauge,
}

impl Metrics {
    /// Registers all families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            requests: Family::default(),
            retries: Family::default(),
            duration: Family::new_with_constructor(histogram),
            limiter: Family::new_with_constructor(histogram),
            reloads: Family::default(),
            stale: Gauge::default(),
        };
        registry.family(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            &["code", "method", "host"],
            metrics.requests.clone(),
        );
        registry.family(
            "rest_client_request_retries",
            "Number of request retries, partitioned by status code, verb, and host",
            &["code", "verb", "host"],
            metrics.retries.clone(),
        );
        registry.family(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, until the head of the answer. Broken down by verb, and host",
            &["verb", "host"],
            metrics.duration.clone(),
        );
        registry.family(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host",
            &["verb", "host"],
            metrics.limiter.clone(),
        );
        registry.family(
            "rest_client_config_reloads",
            "Number of times that changed configuration files were read again, partitioned by result",
            &["result"],
            metrics.reloads.clone(),
        );
        registry.family(
            "rest_client_config_stale",
            "Whether the configuration files on disk cannot be used (1) and the last good ones are in use",
            &[],
            metrics.stale.clone(),
        );
        metrics
    }

    /// One attempt was answered, or `<error>` happened, as client-go writes it.
    pub(super) fn answered(&self, method: &str, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = Answer { code, method: method.to_owned(), host: host.to_owned() };
        self.requests.get_or_create(&labels).inc();
    }

    pub(super) fn retried(&self, verb: &str, host: &str, code: u16) {
        let labels = Retry { code: code.to_string(), verb: verb.to_owned(), host: host.to_owned() };
        self.retries.get_or_create(&labels).inc();
    }

    pub(super) fn took(&self, verb: &str, host: &str, time: Duration) {
        self.duration.get_or_create(&call(verb, host)).observe(time.as_secs_f64());
    }

    pub(super) fn throttled(&self, verb: &str, host: &str, time: Duration) {
        self.limiter.get_or_create(&call(verb, host)).observe(time.as_secs_f64());
    }

    pub(super) fn reloaded(&self, good: bool) {
        let result = if good { "success" } else { "failure" };
        self.reloads.get_or_create(&Reload { result }).inc();
        self.stale.set(i64::from(!good));
    }
}

fn call(verb: &str, host: &str) -> Call {
    Call { verb: verb.to_owned(), host: host.to_owned() }
}
