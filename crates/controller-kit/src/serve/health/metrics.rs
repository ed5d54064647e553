//! The families of `/metrics/slis`: what health checks answered when they were asked.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Endpoint;
use crate::metrics::Registrar;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    name: String,
    r#type: &'static str,
    status: &'static str,
}

/// The families; clones count together. They are in no registry but the one of `/metrics/slis`.
#[derive(Debug, Clone, Default)]
pub struct Slis {
    state: Family<Labels, Gauge>,
    asked: Family<Outcome, Counter>,
}

impl Slis {
    /// Registers `kubernetes_healthcheck` and `kubernetes_healthchecks_total`.
    pub fn register(&self, registry: &mut impl Registrar) {
        registry.family(
            "kubernetes_healthcheck",
            "This metric records the result of a single healthcheck",
            &["name", "type"],
            self.state.clone(),
        );
        registry.family(
            "kubernetes_healthchecks",
            "This metric records the results of all healthcheck",
            &["name", "type", "status"],
            self.asked.clone(),
        );
    }

    /// Forgets everything, as `DELETE /metrics/slis` asks.
    pub(in crate::serve) fn reset(&self) {
        self.state.clear();
        self.asked.clear();
    }

    pub(super) fn observe(&self, endpoint: Endpoint, name: &str, passed: bool) {
        let (name, r#type) = (name.to_owned(), endpoint.name());
        self.state.get_or_create(&Labels { name: name.clone(), r#type }).set(passed.into());
        let status = if passed { "success" } else { "error" };
        self.asked.get_or_create(&Outcome { name, r#type, status }).inc();
    }
}
