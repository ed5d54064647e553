//! What authentication and authorization cost, by upstream's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::authorize::Decision;
use super::review::ReviewError;
use crate::metrics::Registrar;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: String,
}

/// The families; clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    authentication: Family<ByResult, Histogram>,
    authorization: Family<ByResult, Histogram>,
    decisions: Family<ByResult, Counter>,
    token_reviews: (Family<ByCode, Counter>, Family<ByCode, Histogram>),
    access_reviews: (Family<ByCode, Counter>, Family<ByCode, Histogram>),
}

impl Metrics {
    /// Registers all families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        registry.family(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result",
            &["result"],
            metrics.authentication.clone(),
        );
        registry.family(
            "authorization_duration_seconds",
            "Authorization duration in seconds broken out by result",
            &["result"],
            metrics.authorization.clone(),
        );
        registry.family(
            "authorization_attempts",
            "Counter of authorization attempts broken down by result",
            &["result"],
            metrics.decisions.clone(),
        );
        for (name, (count, duration)) in
            [("authn", &metrics.token_reviews), ("authz", &metrics.access_reviews)]
        {
            registry.family(
                &format!("apiserver_delegated_{name}_request"),
                "Number of HTTP requests partitioned by status code",
                &["code"],
                count.clone(),
            );
            registry.family(
                &format!("apiserver_delegated_{name}_request_duration_seconds"),
                "Request latency in seconds. Broken down by status code",
                &["code"],
                duration.clone(),
            );
        }
        metrics
    }

    /// Metrics that nobody scrapes, for tests.
    pub fn unregistered() -> Self {
        // INVARIANT: upstream's buckets; dashboards compute quantiles over both implementations.
        let local = || Histogram::new(std::iter::successors(Some(0.001), |bound| Some(bound * 2.0)).take(15));
        let remote = || Histogram::new([0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0]);
        Self {
            authentication: Family::new_with_constructor(local),
            authorization: Family::new_with_constructor(local),
            decisions: Family::default(),
            token_reviews: (Family::default(), Family::new_with_constructor(remote)),
            access_reviews: (Family::default(), Family::new_with_constructor(remote)),
        }
    }

    pub(super) fn authenticated(&self, success: bool, took: Duration) {
        let result = if success { "success" } else { "error" };
        self.authentication.get_or_create(&ByResult { result }).observe(took.as_secs_f64());
    }

    pub(super) fn authorized(&self, decision: &Result<Decision, ReviewError>, took: Duration) {
        let result = match decision {
            Ok(Decision::Allowed) => "allowed",
            Ok(Decision::Denied(_)) => "denied",
            Err(_) => "error",
        };
        self.authorization.get_or_create(&ByResult { result }).observe(took.as_secs_f64());
        self.decisions.get_or_create(&ByResult { result }).inc();
    }

    /// One attempt at a review was answered.
    pub(super) fn reviewed(&self, kind: &str, error: Option<&kube::Error>, took: Duration) {
        let (count, duration) =
            if kind == "TokenReview" { &self.token_reviews } else { &self.access_reviews };
        let code = match error {
            None => "201".to_owned(),
            Some(kube::Error::Api(status)) => status.code.to_string(),
            Some(_) => "<error>".to_owned(),
        };
        let labels = ByCode { code };
        count.get_or_create(&labels).inc();
        duration.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
