//! The node lifecycle controller's families: upstream's two by their own names, and ours.

use cloud_provider::Existence;
use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    operation: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// The families.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) pass: Histogram,
    calls: Family<Call, Counter>,
    deletions: Family<Outcome, Counter>,
    refusals: Family<Reason, Counter>,
    pub(super) blocked: Gauge,
    pub(super) breaker_open: Gauge,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        registry.family(
            "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
            "Duration in seconds of one pass over all nodes",
            &[],
            metrics.pass.clone(),
        );
        registry.family(
            "cloud_node_lifecycle_controller_cloud_provider_calls",
            "Number of answers about nodes, partitioned by operation and result",
            &["operation", "result"],
            metrics.calls.clone(),
        );
        registry.family(
            "cloud_node_lifecycle_controller_deletions",
            "Number of nodes deleted because their instance is gone, partitioned by result: success, error",
            &["result"],
            metrics.deletions.clone(),
        );
        registry.family(
            "cloud_node_lifecycle_controller_deletion_refusals",
            "Number of times that a node was not deleted although its instance was not found, partitioned by reason",
            &["reason"],
            metrics.refusals.clone(),
        );
        registry.family(
            "cloud_node_lifecycle_controller_deletions_blocked",
            "Number of nodes whose deletion was refused in the last pass that looked at them",
            &[],
            metrics.blocked.clone(),
        );
        registry.family(
            "cloud_node_lifecycle_controller_breaker_open",
            "Number of clouds whose answers are not believed at the moment",
            &[],
            metrics.breaker_open.clone(),
        );
        metrics
    }

    /// Families that nobody reads.
    pub fn unregistered() -> Self {
        Self {
            pass: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            calls: Family::default(),
            deletions: Family::default(),
            refusals: Family::default(),
            blocked: Gauge::default(),
            breaker_open: Gauge::default(),
        }
    }

    /// Counts an answer. One answer tells existence and power at once, so both of upstream's operations are counted
    /// where it tells both.
    pub(super) fn answered(&self, answer: &Existence) {
        let result = match answer {
            Existence::Found(_) => "success",
            Existence::Absent(_) => "instance_not_found",
            Existence::Unknown(_) => "error",
            Existence::NotMine => return,
        };
        self.calls.get_or_create(&Call { operation: "instance_exists", result }).inc();
        if result == "success" {
            self.calls.get_or_create(&Call { operation: "instance_shutdown", result }).inc();
        }
    }

    pub(super) fn deleted(&self, result: &'static str) {
        self.deletions.get_or_create(&Outcome { result }).inc();
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }
}
