//! Counts that a provider keeps beyond those that the framework keeps for it (calls, latencies and errors of every
//! cloud call are measured around the provider).

/// One family of metrics, declared as a constant, so that the reference page is made from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// The name, in the style of Prometheus; a counter's `_total` is added.
    pub name: &'static str,
    /// What it tells, in one sentence.
    pub help: &'static str,
    /// Counter, gauge or histogram.
    pub type_: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations in these buckets.
    Histogram(&'static [f64]),
}

/// Where counts go. `labels` are the values, in the order of the family's names.
pub trait Metrics: Send + Sync + 'static {
    /// Adds to a counter.
    fn add(&self, family: &'static Family, labels: &[&str], by: u64);

    /// Sets a gauge.
    fn set(&self, family: &'static Family, labels: &[&str], to: f64);

    /// Observes a value in a histogram.
    fn observe(&self, family: &'static Family, labels: &[&str], value: f64);
}
