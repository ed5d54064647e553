//! The `leader_election_*` families, by upstream's names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Registrar;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
}

/// The metrics of all electors of a process.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    master_status: Family<Labels, Gauge>,
    slowpath: Family<Labels, Counter>,
}

impl Metrics {
    /// Registers the families and returns the handle that electors are built with.
    pub fn register(registry: &mut impl Registrar) -> Metrics {
        let metrics = Self::unregistered();
        registry.family(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
             'name' is the string used to identify the lease. Please make sure to group by name",
            &["name"],
            metrics.master_status.clone(),
        );
        registry.family(
            "leader_election_slowpath",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the \
             lease. Please make sure to group by name",
            &["name"],
            metrics.slowpath.clone(),
        );
        metrics
    }

    /// Metrics that nobody scrapes, for tests.
    pub fn unregistered() -> Metrics {
        Self::default()
    }

    pub(super) fn of(&self, lease: &str) -> ElectorMetrics {
        let labels = Labels { name: lease.to_owned() };
        ElectorMetrics {
            master_status: self.master_status.get_or_create_owned(&labels),
            slowpath: self.slowpath.get_or_create_owned(&labels),
        }
    }
}

/// The metrics of one elector.
#[derive(Debug)]
pub(super) struct ElectorMetrics {
    pub(super) master_status: Gauge,
    pub(super) slowpath: Counter,
}
