//! What became of the events that were recorded.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::metrics::Registrar;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Written {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Dropped {
    reason: &'static str,
}

/// The counters of all recorders.
#[derive(Debug, Clone)]
pub struct Metrics {
    written: Family<Written, Counter>,
    dropped: Family<Dropped, Counter>,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self { written: Family::default(), dropped: Family::default() };
        registry.family(
            "event_recorder_written",
            "Number of events written, partitioned by verb: create, or patch for a repetition",
            &["verb"],
            metrics.written.clone(),
        );
        registry.family(
            "event_recorder_dropped",
            "Number of events dropped, partitioned by reason: queue_full, spam, rejected, undelivered",
            &["reason"],
            metrics.dropped.clone(),
        );
        metrics
    }

    pub(super) fn written(&self, verb: &'static str) {
        self.written.get_or_create(&Written { verb }).inc();
    }

    pub(super) fn dropped(&self, reason: &'static str) {
        self.dropped.get_or_create(&Dropped { reason }).inc();
    }

    pub(super) fn dropped_many(&self, reason: &'static str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.dropped.get_or_create(&Dropped { reason }).inc_by(count);
    }
}
