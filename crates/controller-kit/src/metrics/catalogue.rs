//! The metric families as they are declared. What is registered is also what the reference page lists, so that the page
//! cannot tell anything else.

use prometheus_client::collector::Collector;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Where the modules of a process declare their families.
pub trait Registrar {
    /// A family of this name (a counter's `_total` is added), with the names of its labels.
    fn family(&mut self, name: &str, help: &str, labels: &'static [&'static str], metric: impl Metric);

    /// Families that are computed when they are scraped.
    fn collector(&mut self, families: Vec<Declared>, collector: impl Collector);
}

/// One family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The name that a scraper finds.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub type_: String,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: String,
}

impl Declared {
    /// A family of this type.
    pub fn new(name: &str, help: &str, labels: &'static [&'static str], type_: MetricType) -> Self {
        let suffix = if matches!(type_, MetricType::Counter) { "_total" } else { "" };
        let (name, type_) = (format!("{name}{suffix}"), type_.as_str().to_owned());
        Self { name, type_, labels, help: help.to_owned() }
    }
}

impl Registrar for Registry {
    fn family(&mut self, name: &str, help: &str, _: &'static [&'static str], metric: impl Metric) {
        self.register(name, help, metric);
    }

    fn collector(&mut self, _: Vec<Declared>, collector: impl Collector) {
        self.register_collector(Box::new(collector));
    }
}

/// A registry that remembers what was declared.
#[derive(Debug, Default)]
pub struct Catalogue {
    registry: Registry,
    declared: Vec<Declared>,
}

impl Catalogue {
    /// What was declared since it was asked the last time.
    pub fn take_declared(&mut self) -> Vec<Declared> {
        std::mem::take(&mut self.declared)
    }

    /// What is to be scraped.
    pub fn into_registry(self) -> Registry {
        self.registry
    }
}

impl Registrar for Catalogue {
    fn family(&mut self, name: &str, help: &str, labels: &'static [&'static str], metric: impl Metric) {
        self.declared.push(Declared::new(name, help, labels, metric.metric_type()));
        self.registry.family(name, help, labels, metric);
    }

    fn collector(&mut self, families: Vec<Declared>, collector: impl Collector) {
        self.declared.extend(families.iter().cloned());
        self.registry.collector(families, collector);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn what_is_registered_is_what_is_declared_under_the_name_that_a_scraper_finds() {
        let mut catalogue = Catalogue::default();
        catalogue.family("steps", "Steps that were taken", &[], Counter::<u64>::default());
        let declared = catalogue.take_declared();
        assert_eq!(declared, [Declared::new("steps", "Steps that were taken", &[], MetricType::Counter)]);
        let text = crate::metrics::encode(&catalogue.into_registry()).unwrap();
        assert!(text.contains(&declared[0].name), "{text}");
    }
}
