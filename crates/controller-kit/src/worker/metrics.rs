//! What the workers count beside their queue.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::metrics::Registrar;
use crate::queue::Labels;

/// The metrics of all workers of a process.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    panics: Family<Labels, Counter>,
}

impl Metrics {
    /// Registers the families and returns the handle that workers are started with.
    pub fn register(registry: &mut impl Registrar) -> Metrics {
        let metrics = Self::unregistered();
        registry.family(
            "workqueue_panics",
            "Total number of panics caught while processing an item from workqueue",
            &["name"],
            metrics.panics.clone(),
        );
        metrics
    }

    /// Metrics that nobody scrapes, for tests.
    pub fn unregistered() -> Metrics {
        Self::default()
    }

    pub(super) fn of(&self, queue: &str) -> WorkerMetrics {
        WorkerMetrics { panics: self.panics.get_or_create_owned(&Labels { name: queue.to_owned() }) }
    }
}

#[derive(Debug)]
pub(super) struct WorkerMetrics {
    pub(super) panics: Counter,
}
