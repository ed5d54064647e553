//! What a provider counts, by the families that it declares, shown with everything else that is scraped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::context::{Family, MetricType, Metrics};
use controller_kit::metrics::Declared;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType as Type;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

/// The counts of all providers of a process; clones count together.
#[derive(Clone, Default)]
pub(super) struct ProviderMetrics(Arc<Kept>);

#[derive(Default)]
struct Kept {
    /// The manager's own families: a second one of the same name would make all of them unreadable.
    taken: BTreeSet<String>,
    families: Mutex<BTreeMap<&'static str, Series>>,
}

struct Series {
    family: &'static Family,
    values: BTreeMap<Vec<String>, Value>,
}

fn type_of(family: &Family) -> Type {
    match family.type_ {
        MetricType::Counter => Type::Counter,
        MetricType::Gauge => Type::Gauge,
        MetricType::Histogram(_) => Type::Histogram,
    }
}

enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram(Histogram),
}

impl Value {
    fn of(type_: MetricType) -> Self {
        match type_ {
            MetricType::Counter => Self::Counter(0),
            MetricType::Gauge => Self::Gauge(0.0),
            MetricType::Histogram(buckets) => Self::Histogram(Histogram::new(buckets.iter().copied())),
        }
    }

    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(value) => ConstCounter::new(*value).encode(encoder),
            Self::Gauge(value) => ConstGauge::new(*value).encode(encoder),
            Self::Histogram(histogram) => histogram.encode(encoder),
        }
    }
}

impl ProviderMetrics {
    /// Counts that stand beside these families.
    pub(super) fn beside(own: &[Declared]) -> Self {
        let taken = own.iter().map(|family| family.name.clone()).collect();
        Self(Arc::new(Kept { taken, families: Mutex::default() }))
    }

    fn change(&self, family: &'static Family, labels: &[&str], change: impl FnOnce(&mut Value) -> bool) {
        let shown = Declared::new(family.name, family.help, family.labels, type_of(family));
        let fits = labels.len() == family.labels.len() && !self.0.taken.contains(&shown.name);
        let mut families = self.0.families.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = fits && {
            let series =
                families.entry(family.name).or_insert_with(|| Series { family, values: BTreeMap::new() });
            let labels = labels.iter().map(ToString::to_string).collect();
            change(series.values.entry(labels).or_insert_with(|| Value::of(family.type_)))
        };
        if !changed {
            tracing::error!(
                family = family.name,
                ?labels,
                "The provider counts something as what it is not, or under a name that is taken: it is left out"
            );
        }
    }
}

impl Metrics for ProviderMetrics {
    fn add(&self, family: &'static Family, labels: &[&str], by: u64) {
        self.change(family, labels, |value| {
            let Value::Counter(count) = value else { return false };
            *count = count.saturating_add(by);
            true
        });
    }

    fn set(&self, family: &'static Family, labels: &[&str], to: f64) {
        self.change(family, labels, |value| {
            let Value::Gauge(now) = value else { return false };
            *now = to;
            true
        });
    }

    fn observe(&self, family: &'static Family, labels: &[&str], observed: f64) {
        self.change(family, labels, |value| {
            let Value::Histogram(histogram) = value else { return false };
            histogram.observe(observed);
            true
        });
    }
}

impl Collector for ProviderMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.0.families.lock().unwrap_or_else(PoisonError::into_inner);
        for Series { family, values } in families.values() {
            let help = format!("{}.", family.help);
            let mut metric = encoder.encode_descriptor(family.name, &help, None, type_of(family))?;
            for (labels, value) in values {
                if labels.is_empty() {
                    value.encode(metric)?;
                    break;
                }
                let labels: Vec<(&str, &str)> =
                    family.labels.iter().copied().zip(labels.iter().map(String::as_str)).collect();
                value.encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ProviderMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::metrics::{Registrar as _, encode};
    use prometheus_client::registry::Registry;

    use super::*;

    const STALE: Family =
        Family { name: "p_stale", help: "Whether it is old", type_: MetricType::Gauge, labels: &[] };
    const CALLS: Family =
        Family { name: "p_calls", help: "Calls", type_: MetricType::Counter, labels: &["zone", "kind"] };
    const TOOK: Family = Family {
        name: "p_took_seconds",
        help: "How long",
        type_: MetricType::Histogram(&[1.0, 2.0]),
        labels: &["zone"],
    };

    fn shown(metrics: &ProviderMetrics) -> String {
        let mut registry = Registry::default();
        registry.collector(Vec::new(), metrics.clone());
        encode(&registry).unwrap()
    }

    #[test]
    fn what_a_provider_counts_is_scraped() {
        let metrics = ProviderMetrics::default();
        metrics.set(&STALE, &[], 1.0);
        metrics.add(&CALLS, &["a", "read"], 2);
        metrics.add(&CALLS, &["a", "read"], 1);
        metrics.add(&CALLS, &["b", "write"], 1);
        metrics.observe(&TOOK, &["a"], 1.5);
        let text = shown(&metrics);
        for line in [
            "# HELP p_stale Whether it is old.",
            "p_stale 1.0",
            r#"p_calls_total{zone="a",kind="read"} 3"#,
            r#"p_calls_total{zone="b",kind="write"} 1"#,
            r#"p_took_seconds_bucket{le="2.0",zone="a"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn what_would_spoil_the_page_is_left_out() {
        let own = Declared::new("p_calls", "Ours", &[], Type::Counter);
        let metrics = ProviderMetrics::beside(&[own]);
        metrics.add(&CALLS, &["a", "read"], 1);
        metrics.add(&STALE, &[], 1);
        metrics.observe(&TOOK, &[], 1.0);
        let text = shown(&metrics);
        assert!(!text.contains("p_calls") && !text.contains("p_took"), "{text}");
    }
}
