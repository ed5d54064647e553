//! The service controller's families: upstream's four by their own names, and ours.

use std::time::Duration;

use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

type Histograms = Family<Outcome, Histogram, fn() -> Histogram>;

/// The families.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) backend_updates: Counter,
    pub(super) node_sync_errors: Counter,
    node_sync_latency: Histogram,
    pub(super) update_latency: Histogram,
    ensure: Histograms,
    failures: Family<Reason, Counter>,
    pub(super) first_call: Histogram,
    pub(super) provisioned: Histogram,
    pub(super) drift_found: Counter,
    pub(super) drift_repaired: Counter,
    pub(super) orphans: Gauge,
    orphans_removed: Family<Outcome, Counter>,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        metrics.register_upstreams(registry);
        metrics.register_ours(registry);
        metrics
    }

    fn register_upstreams(&self, registry: &mut impl Registrar) {
        registry.family(
            "service_controller_loadbalancer_sync",
            "A metric counting the amount of times any load balancer has been configured, as an effect of service/node changes on the cluster",
            &[],
            self.backend_updates.clone(),
        );
        registry.family(
            "service_controller_nodesync_error",
            "A metric counting the amount of times any load balancer has been configured and errored, as an effect of node changes on the cluster",
            &[],
            self.node_sync_errors.clone(),
        );
        registry.family(
            "service_controller_nodesync_latency_seconds",
            "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates",
            &[],
            self.node_sync_latency.clone(),
        );
        registry.family(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "A metric measuring the latency for updating each load balancer hosts",
            &[],
            self.update_latency.clone(),
        );
    }

    fn register_ours(&self, registry: &mut impl Registrar) {
        registry.family(
            "service_controller_ensure_loadbalancer_seconds",
            "How long it took to ensure a load balancer, partitioned by result: success, pending, error",
            &["result"],
            self.ensure.clone(),
        );
        registry.family(
            "service_controller_failures",
            "Number of failed tries to make a load balancer what its service asks for, partitioned by reason",
            &["reason"],
            self.failures.clone(),
        );
        registry.family(
            "service_controller_first_call_delay_seconds",
            "Number of seconds from the creation of a service to the first call to the cloud for it",
            &[],
            self.first_call.clone(),
        );
        registry.family(
            "service_controller_provisioning_delay_seconds",
            "Number of seconds from the creation of a service to the address in its status",
            &[],
            self.provisioned.clone(),
        );
        registry.family(
            "service_controller_drift_found",
            "Number of load balancers that were found changed or gone in the cloud",
            &[],
            self.drift_found.clone(),
        );
        registry.family(
            "service_controller_drift_repaired",
            "Number of load balancers that were put right after they were found changed or gone",
            &[],
            self.drift_repaired.clone(),
        );
        registry.family(
            "service_controller_orphans",
            "Number of services that are gone and of which the cloud still had something when last looked at",
            &[],
            self.orphans.clone(),
        );
        registry.family(
            "service_controller_orphans_removed",
            "Number of services that are gone and whose leftovers in the cloud were removed, partitioned by result: success, error",
            &["result"],
            self.orphans_removed.clone(),
        );
    }

    /// Families that nobody reads.
    pub fn unregistered() -> Self {
        // Upstream's: 1 s to 16,384 s, each twice the one before.
        let coarse = || Histogram::new(exponential_buckets(1.0, 2.0, 15));
        Self {
            backend_updates: Counter::default(),
            node_sync_errors: Counter::default(),
            node_sync_latency: coarse(),
            update_latency: coarse(),
            ensure: Family::new_with_constructor(fine as fn() -> Histogram),
            failures: Family::default(),
            first_call: fine(),
            provisioned: fine(),
            drift_found: Counter::default(),
            drift_repaired: Counter::default(),
            orphans: Gauge::default(),
            orphans_removed: Family::default(),
        }
    }

    pub(super) fn ensured(&self, result: &'static str, took: Duration) {
        self.ensure.get_or_create(&Outcome { result }).observe(took.as_secs_f64());
    }

    pub(super) fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn swept(&self, result: &'static str) {
        self.orphans_removed.get_or_create(&Outcome { result }).inc();
    }

    /// A change of the nodes that load balancers follow from now on.
    pub(super) fn node_sync(&self) -> NodeSync {
        NodeSync { since: Instant::now(), latency: self.node_sync_latency.clone() }
    }
}

fn fine() -> Histogram {
    Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0])
}

/// A change of the nodes, until the last load balancer has followed it.
#[derive(Debug)]
pub(super) struct NodeSync {
    since: Instant,
    latency: Histogram,
}

impl Drop for NodeSync {
    fn drop(&mut self) {
        self.latency.observe(self.since.elapsed().as_secs_f64());
    }
}
