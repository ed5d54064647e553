//! What the balancers did, as Prometheus counters. Made anew at each look, so that nothing is left of a balancer that
//! went, and two balancers of one name (a Service made again) are one series.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::backend::Standing;
use super::balancer::Balancer;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Service {
    namespace: String,
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    namespace: String,
    service: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    namespace: String,
    service: String,
    port: String,
    node: String,
    address: String,
}

/// INVARIANT: dashboards and alerts are built on these names.
#[derive(Default)]
struct Families {
    connections: Family<Service, Gauge>,
    connections_total: Family<Service, Counter>,
    refused_total: Family<Refusal, Counter>,
    received: Family<Service, Counter>,
    sent: Family<Service, Counter>,
    dropped: Family<Service, Counter>,
    backend_up: Family<Target, Gauge>,
    backend_connections: Family<Target, Gauge>,
    backend_connections_total: Family<Target, Counter>,
    backend_failures_total: Family<Target, Counter>,
}

/// The counters of these balancers, in the text format.
pub(super) fn render<'a>(balancers: impl Iterator<Item = &'a Balancer>) -> String {
    let families = Families::default();
    for balancer in balancers {
        families.add(balancer);
    }
    let mut registry = Registry::with_prefix("nephos_local");
    families.register(&mut registry);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

impl Families {
    fn add(&self, balancer: &Balancer) {
        let names = balancer.scope.names();
        let (namespace, service) = (names.namespace, names.name);
        let counters = &balancer.scope.counters;
        let of = Service { namespace: namespace.clone(), service: service.clone() };
        self.connections.get_or_create(&of).inc_by(signed(counters.active.load(Ordering::Relaxed)));
        add(&self.connections_total, &of, &counters.accepted);
        add(&self.received, &of, &counters.received);
        add(&self.sent, &of, &counters.sent);
        add(&self.dropped, &of, &counters.dropped);
        for (reason, counter) in [
            ("source_range", &counters.refused_source),
            ("limit", &counters.refused_limit),
            ("no_backend", &counters.unserved),
        ] {
            let of = Refusal { namespace: namespace.clone(), service: service.clone(), reason };
            add(&self.refused_total, &of, counter);
        }
        for (key, backend) in balancer.backends() {
            let wanted = backend.wanted();
            let of = Target {
                namespace: namespace.clone(),
                service: service.clone(),
                port: key.to_string(),
                address: wanted.socket().to_string(),
                node: wanted.node,
            };
            let up = backend.standing(tokio::time::Instant::now()) == Standing::Good;
            self.backend_up.get_or_create(&of).set(i64::from(up));
            self.backend_connections.get_or_create(&of).inc_by(signed(backend.active()));
            self.backend_connections_total.get_or_create(&of).inc_by(backend.connections());
            self.backend_failures_total.get_or_create(&of).inc_by(backend.failures());
        }
    }

    fn register(self, registry: &mut Registry) {
        registry.register(
            "connections",
            "TCP connections and UDP clients that a balancer has",
            self.connections,
        );
        registry.register(
            "connections_accepted",
            "TCP connections and UDP clients that a balancer let in",
            self.connections_total,
        );
        registry.register(
            "connections_refused",
            "TCP connections and UDP clients that a balancer turned away or found no backend for",
            self.refused_total,
        );
        registry.register("received_bytes", "Bytes from clients to backends", self.received);
        registry.register("sent_bytes", "Bytes from backends to clients", self.sent);
        registry.register("dropped_datagrams", "Datagrams lost because a socket was full", self.dropped);
        registry.register("backend_up", "Whether a backend takes new connections", self.backend_up);
        registry.register(
            "backend_connections",
            "TCP connections and UDP clients that a backend has",
            self.backend_connections,
        );
        registry.register(
            "backend_connections_chosen",
            "TCP connections and UDP clients that a backend was chosen for",
            self.backend_connections_total,
        );
        registry.register(
            "backend_failures",
            "TCP connections and UDP clients that a backend did not take",
            self.backend_failures_total,
        );
    }
}

fn add<L>(family: &Family<L, Counter>, of: &L, counter: &AtomicU64)
where
    L: Clone + std::hash::Hash + Eq,
{
    family.get_or_create(of).inc_by(counter.load(Ordering::Relaxed));
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
