//! What is counted between the controllers and a cloud. No provider counts any of it.

use std::time::Duration;

use cloud_provider::{Decision, Verb};
use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::urgency::Urgency;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Provider {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    provider: String,
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ending {
    provider: String,
    operation: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Wait {
    provider: String,
    urgency: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    provider: String,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Change {
    provider: String,
    verb: String,
    kind: &'static str,
    outcome: &'static str,
}

/// The metrics of all clouds of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    calls: Family<Ending, Counter>,
    duration: Histograms<Operation>,
    in_flight: Family<Operation, Gauge>,
    panics: Family<Operation, Counter>,
    batch: Histograms<Provider>,
    answers: Family<Answer, Counter>,
    limit: Family<Provider, Gauge>,
    throttled: Family<Provider, Counter>,
    waiting: Family<Wait, Gauge>,
    waited: Histograms<Wait>,
    changes: Family<Change, Counter>,
}

impl Metrics {
    /// Registers the families and returns the handle that everything in [`crate::around`] is built with.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        metrics.register_calls(registry);
        metrics.register_budget(registry);
        registry.family(
            "nephos_cloud_changes",
            "Changes in the cloud that came to the gate, by how they ended or why they were refused",
            &["provider", "verb", "kind", "outcome"],
            metrics.changes.clone(),
        );
        metrics
    }

    fn register_calls(&self, registry: &mut impl Registrar) {
        registry.family(
            "nephos_cloud_calls",
            "Calls to the cloud, by operation and result",
            &["provider", "operation", "result"],
            self.calls.clone(),
        );
        registry.family(
            "nephos_cloud_call_duration_seconds",
            "How long calls to the cloud took, without the wait for their turn",
            &["provider", "operation"],
            self.duration.clone(),
        );
        registry.family(
            "nephos_cloud_calls_in_flight",
            "Calls to the cloud that are under way",
            &["provider", "operation"],
            self.in_flight.clone(),
        );
        registry.family(
            "nephos_cloud_call_panics",
            "Panics of the provider that were caught; each is a defect of the provider",
            &["provider", "operation"],
            self.panics.clone(),
        );
        registry.family(
            "nephos_cloud_lookup_batch_size",
            "How many nodes one look-up of instances asked for",
            &["provider"],
            self.batch.clone(),
        );
        registry.family(
            "nephos_cloud_lookup_answers",
            "Answers about nodes, by where they came from: the cloud, a call already under way, or memory",
            &["provider", "source"],
            self.answers.clone(),
        );
    }

    fn register_budget(&self, registry: &mut impl Registrar) {
        registry.family(
            "nephos_cloud_budget_slots",
            "How many calls may be under way at once; it shrinks when the cloud throttles",
            &["provider"],
            self.limit.clone(),
        );
        registry.family(
            "nephos_cloud_budget_throttled",
            "Answers by which the cloud asked to slow down",
            &["provider"],
            self.throttled.clone(),
        );
        registry.family(
            "nephos_cloud_budget_waiting",
            "Calls that wait for their turn, by urgency",
            &["provider", "urgency"],
            self.waiting.clone(),
        );
        registry.family(
            "nephos_cloud_budget_wait_seconds",
            "How long calls waited for their turn, by urgency",
            &["provider", "urgency"],
            self.waited.clone(),
        );
    }

    /// Metrics that nobody scrapes, for tests.
    pub fn unregistered() -> Self {
        Self {
            calls: Family::default(),
            duration: Family::new_with_constructor(seconds as fn() -> Histogram),
            in_flight: Family::default(),
            panics: Family::default(),
            batch: Family::new_with_constructor(sizes as fn() -> Histogram),
            answers: Family::default(),
            limit: Family::default(),
            throttled: Family::default(),
            waiting: Family::default(),
            waited: Family::new_with_constructor(seconds as fn() -> Histogram),
            changes: Family::default(),
        }
    }

    /// The metrics of one provider's cloud.
    pub(super) fn of(&self, provider: &str) -> CloudMetrics {
        CloudMetrics { all: self.clone(), provider: provider.to_owned() }
    }
}

/// 1 ms to about two minutes: a cached answer of a cloud, and a call that ran into its deadline.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

/// 1 to 8192 nodes.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 14))
}

/// The metrics of one provider's cloud.
#[derive(Debug, Clone)]
pub(super) struct CloudMetrics {
    all: Metrics,
    provider: String,
}

impl CloudMetrics {
    pub(super) fn began(&self, operation: &'static str) {
        self.all.in_flight.get_or_create(&self.operation(operation)).inc();
    }

    pub(super) fn ended(&self, operation: &'static str, result: &'static str, took: Duration) {
        self.all.in_flight.get_or_create(&self.operation(operation)).dec();
        self.all.duration.get_or_create(&self.operation(operation)).observe(took.as_secs_f64());
        self.counted(operation, result);
    }

    /// A call that ended, or that never began.
    pub(super) fn counted(&self, operation: &'static str, result: &'static str) {
        let labels = Ending { provider: self.provider.clone(), operation, result };
        self.all.calls.get_or_create(&labels).inc();
    }

    pub(super) fn panicked(&self, operation: &'static str) {
        self.all.panics.get_or_create(&self.operation(operation)).inc();
    }

    pub(super) fn asked_for(&self, nodes: usize) {
        #[expect(clippy::cast_precision_loss, reason = "no cluster has 2^52 nodes")]
        self.all.batch.get_or_create(&self.provider()).observe(nodes as f64);
    }

    pub(super) fn answered_from(&self, source: &'static str, nodes: usize) {
        if nodes > 0 {
            let labels = Answer { provider: self.provider.clone(), source };
            self.all.answers.get_or_create(&labels).inc_by(nodes as u64);
        }
    }

    pub(super) fn slots(&self, limit: usize) {
        self.all.limit.get_or_create(&self.provider()).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    pub(super) fn throttled(&self) {
        self.all.throttled.get_or_create(&self.provider()).inc();
    }

    pub(super) fn waits(&self, urgency: Urgency) {
        self.all.waiting.get_or_create(&self.wait(urgency)).inc();
    }

    pub(super) fn waited(&self, urgency: Urgency, time: Duration) {
        self.all.waiting.get_or_create(&self.wait(urgency)).dec();
        self.all.waited.get_or_create(&self.wait(urgency)).observe(time.as_secs_f64());
    }

    pub(super) fn changed(&self, verb: Verb, kind: &'static str, outcome: &'static str) {
        let labels = Change { provider: self.provider.clone(), verb: verb.to_string(), kind, outcome };
        self.all.changes.get_or_create(&labels).inc();
    }

    fn provider(&self) -> Provider {
        Provider { provider: self.provider.clone() }
    }

    fn operation(&self, operation: &'static str) -> Operation {
        Operation { provider: self.provider.clone(), operation }
    }

    fn wait(&self, urgency: Urgency) -> Wait {
        Wait { provider: self.provider.clone(), urgency: urgency.name() }
    }
}

/// The word for a decision in the label `result`.
pub(super) fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::NotFound => "not_found",
        Decision::NotImplemented => "not_implemented",
        Decision::ImplementedElsewhere => "implemented_elsewhere",
        Decision::RetryAfter { .. } => "retry_after",
        Decision::InvalidConfig => "invalid_config",
        Decision::Unauthorized => "unauthorized",
        Decision::QuotaExceeded => "quota_exceeded",
        Decision::Throttled { .. } => "throttled",
        Decision::InUse { .. } => "in_use",
        Decision::NotOwned => "not_owned",
        Decision::Fenced => "fenced",
        Decision::Recorded => "recorded",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::metrics::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn the_families_have_the_names_that_dashboards_know() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry).of("fake");
        metrics.began("list_routes");
        metrics.ended("list_routes", word(&Decision::NotFound), Duration::from_secs(1));
        metrics.panicked("list_routes");
        metrics.asked_for(3);
        metrics.answered_from("memory", 2);
        metrics.slots(16);
        metrics.throttled();
        metrics.waits(Urgency::Create);
        metrics.waited(Urgency::Create, Duration::from_secs(1));
        metrics.changed(Verb::Update, "route", "made");
        let text = encode(&registry).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"nephos_cloud_calls_total{provider="fake",operation="list_routes",result="not_found"} 1"#,
            r#"nephos_cloud_call_duration_seconds_sum{provider="fake",operation="list_routes"} 1.0"#,
            r#"nephos_cloud_calls_in_flight{provider="fake",operation="list_routes"} 0"#,
            r#"nephos_cloud_call_panics_total{provider="fake",operation="list_routes"} 1"#,
            r#"nephos_cloud_lookup_batch_size_sum{provider="fake"} 3.0"#,
            r#"nephos_cloud_lookup_answers_total{provider="fake",source="memory"} 2"#,
            r#"nephos_cloud_budget_slots{provider="fake"} 16"#,
            r#"nephos_cloud_budget_throttled_total{provider="fake"} 1"#,
            r#"nephos_cloud_budget_waiting{provider="fake",urgency="create"} 0"#,
            r#"nephos_cloud_budget_wait_seconds_sum{provider="fake",urgency="create"} 1.0"#,
            r#"nephos_cloud_changes_total{provider="fake",verb="update",kind="route",outcome="made"} 1"#,
        ];
        for line in expected {
            assert!(lines.contains(&line), "no line {line} in\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), expected.len());
    }
}
