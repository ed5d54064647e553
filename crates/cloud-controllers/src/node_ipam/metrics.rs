//! Node IPAM's families, by upstream's names; one of them is misspelt, and dashboards know it so.

use std::sync::atomic::AtomicU64;

use controller_kit::metrics::Registrar;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::ledger::{Ledger, Tally};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(non_snake_case, reason = "the label is upstream's")]
struct Network {
    clusterCIDR: String,
}

/// The families.
#[derive(Debug, Clone)]
pub struct Metrics {
    allocations: Family<Network, Counter>,
    releases: Family<Network, Counter>,
    max: Family<Network, Gauge>,
    usage: Family<Network, Gauge<f64, AtomicU64>>,
    tries: Family<Network, Histogram>,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::unregistered();
        registry.family(
            "node_ipam_controller_cidrset_cidrs_allocations",
            "Number of node CIDRs that became used",
            &["clusterCIDR"],
            metrics.allocations.clone(),
        );
        registry.family(
            "node_ipam_controller_cidrset_cidrs_releases",
            "Number of node CIDRs that became free",
            &["clusterCIDR"],
            metrics.releases.clone(),
        );
        registry.family(
            // INVARIANT: the spelling is upstream's.
            "node_ipam_controller_cirdset_max_cidrs",
            "Number of node CIDRs that the cluster CIDR has room for",
            &["clusterCIDR"],
            metrics.max.clone(),
        );
        registry.family(
            "node_ipam_controller_cidrset_usage_cidrs",
            "Share of the node CIDRs that are used, from 0 to 1",
            &["clusterCIDR"],
            metrics.usage.clone(),
        );
        registry.family(
            "node_ipam_controller_cidrset_allocation_tries_per_request",
            "Number of node CIDRs that were looked at to find a free one; always one here",
            &["clusterCIDR"],
            metrics.tries.clone(),
        );
        metrics
    }

    /// Families that nobody reads.
    pub fn unregistered() -> Self {
        Self {
            allocations: Family::default(),
            releases: Family::default(),
            max: Family::default(),
            usage: Family::default(),
            tries: Family::new_with_constructor(|| Histogram::new([1.0, 5.0, 25.0, 125.0, 625.0])),
        }
    }

    /// Shows what the ledger says now.
    pub(super) fn show(&self, ledger: &Ledger) {
        for tally in ledger.tallies() {
            let label = label(&tally);
            let follow = |family: &Family<Network, Counter>, now: u64| {
                let counter = family.get_or_create(&label);
                counter.inc_by(now.saturating_sub(counter.get()));
            };
            follow(&self.allocations, tally.taken);
            follow(&self.releases, tally.returned);
            self.max.get_or_create(&label).set(i64::from(tally.max));
            self.usage.get_or_create(&label).set(f64::from(tally.used) / f64::from(tally.max));
        }
    }

    /// A block of each network was handed out.
    pub(super) fn handed_out(&self, ledger: &Ledger) {
        for tally in ledger.tallies() {
            self.tries.get_or_create(&label(&tally)).observe(1.0);
        }
    }
}

fn label(tally: &Tally) -> Network {
    Network { clusterCIDR: tally.network.to_string() }
}
