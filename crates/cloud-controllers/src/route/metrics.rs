//! The route controller's families: upstream's newest by its own name, and ours.

use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::sync::Trigger;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Sync {
    outcome: &'static str,
    trigger: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

/// The families.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    syncs: Family<Sync, Counter>,
    failures: Family<Operation, Counter>,
    pub(super) routes: Gauge,
    pub(super) left_alone: Gauge,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        registry.family(
            "route_controller_route_sync",
            "Number of comparisons of routes with nodes, partitioned by outcome (changed, noop, error) and trigger (periodic, node_change)",
            &["outcome", "trigger"],
            metrics.syncs.clone(),
        );
        registry.family(
            "route_controller_failures",
            "Number of failed tries to list, create or delete routes or to write a condition, partitioned by operation",
            &["operation"],
            metrics.failures.clone(),
        );
        registry.family(
            "route_controller_routes",
            "Number of routes that the cloud listed the last time",
            &[],
            metrics.routes.clone(),
        );
        registry.family(
            "route_controller_routes_left_alone",
            "Number of routes in the pod networks that lead to no node and are not provably ours",
            &[],
            metrics.left_alone.clone(),
        );
        metrics
    }

    /// Families that nobody reads.
    pub fn unregistered() -> Self {
        Self::default()
    }

    pub(super) fn synced(&self, outcome: &'static str, trigger: Trigger) {
        let trigger = match trigger {
            Trigger::Periodic => "periodic",
            Trigger::NodeChange => "node_change",
        };
        self.syncs.get_or_create(&Sync { outcome, trigger }).inc();
    }

    pub(super) fn failed(&self, operation: &'static str) {
        self.failures.get_or_create(&Operation { operation }).inc();
    }
}
