//! The node controller's families: upstream's two by their own names, and ours.

use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// Upstream's buckets, in seconds.
const BUCKETS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    part: &'static str,
}

/// The families.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) taint_removal_delay: Histogram,
    pub(super) initial_sync_delay: Histogram,
    pub(super) initialization: Histogram,
    failures: Family<Reason, Counter>,
    refresh_writes: Family<Part, Counter>,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        registry.family(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node",
            &[],
            metrics.taint_removal_delay.clone(),
        );
        registry.family(
            "node_controller_initial_node_sync_delay_seconds",
            "Number of seconds after node creation when NodeController finished the initial synchronization of a single node",
            &[],
            metrics.initial_sync_delay.clone(),
        );
        registry.family(
            "node_controller_initialization_duration_seconds",
            "Number of seconds from the moment this process first saw a node uninitialized until it was initialized",
            &[],
            metrics.initialization.clone(),
        );
        registry.family(
            "node_controller_initialization_failures",
            "Number of failed tries to initialize a node, partitioned by reason",
            &["reason"],
            metrics.failures.clone(),
        );
        registry.family(
            "node_controller_refresh_writes",
            "Number of writes to initialized nodes that were no longer true, partitioned by part: addresses, labels",
            &["part"],
            metrics.refresh_writes.clone(),
        );
        metrics
    }

    /// Families that nobody reads.
    pub fn unregistered() -> Self {
        Self {
            taint_removal_delay: Histogram::new(BUCKETS),
            initial_sync_delay: Histogram::new(BUCKETS),
            initialization: Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0]),
            failures: Family::default(),
            refresh_writes: Family::default(),
        }
    }

    pub(super) fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn refreshed(&self, part: &'static str) {
        self.refresh_writes.get_or_create(&Part { part }).inc();
    }
}
