//! How full each cache is and how well its list and watch go.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Registrar;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    kind: String,
    result: &'static str,
}

/// The families of all caches.
#[derive(Debug, Clone)]
pub struct Metrics {
    objects: Family<Kind, Gauge>,
    lists: Family<Outcome, Counter>,
    watches: Family<Outcome, Counter>,
}

impl Metrics {
    /// Registers the families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics =
            Self { objects: Family::default(), lists: Family::default(), watches: Family::default() };
        registry.family(
            "cache_objects",
            "Number of objects in the cache",
            &["kind"],
            metrics.objects.clone(),
        );
        registry.family(
            "cache_lists",
            "Number of lists, partitioned by result: success, stale (refused as older than what is known), error",
            &["kind", "result"],
            metrics.lists.clone(),
        );
        registry.family(
            "cache_watches",
            "Number of watches that ended, partitioned by result: success, expired (a list follows), error",
            &["kind", "result"],
            metrics.watches.clone(),
        );
        metrics
    }

    pub(super) fn of_kind(&self, kind: &str) -> OfKind {
        let objects = self.objects.get_or_create_owned(&Kind { kind: kind.to_owned() });
        OfKind { kind: kind.to_owned(), objects, all: self.clone() }
    }
}

/// The same for one cache.
#[derive(Debug, Clone)]
pub(super) struct OfKind {
    kind: String,
    objects: Gauge,
    all: Metrics,
}

impl OfKind {
    pub(super) fn holds(&self, objects: usize) {
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    pub(super) fn listed(&self, result: &'static str) {
        self.all.lists.get_or_create(&Outcome { kind: self.kind.clone(), result }).inc();
    }

    pub(super) fn watched(&self, result: &'static str) {
        self.all.watches.get_or_create(&Outcome { kind: self.kind.clone(), result }).inc();
    }
}
