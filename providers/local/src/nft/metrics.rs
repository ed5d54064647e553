//! What the balancers did, told to the manager's metrics from the counters in the kernel.

use std::collections::BTreeMap;

use cloud_provider::context::{Family, MetricType};
use tracing::debug;

use super::read::Count;
use super::{Inner, listener, tables};

const LABELS: &[&str] = &["namespace", "service"];

/// INVARIANT: dashboards and alerts are built on these names; the proxy counts under the same ones.
const ACCEPTED: Family = Family {
    name: "nephos_local_connections_accepted",
    help: "TCP connections and UDP clients that a balancer let in",
    type_: MetricType::Counter,
    labels: LABELS,
};
const REFUSED: Family = Family {
    name: "nephos_local_connections_refused",
    help: "TCP connections and UDP clients that a balancer turned away or found no backend for",
    type_: MetricType::Counter,
    labels: &["namespace", "service", "reason"],
};
const RECEIVED: Family = Family {
    name: "nephos_local_received_bytes",
    help: "Bytes from clients to backends",
    type_: MetricType::Counter,
    labels: LABELS,
};
const SENT: Family = Family {
    name: "nephos_local_sent_bytes",
    help: "Bytes from backends to clients",
    type_: MetricType::Counter,
    labels: LABELS,
};

/// What was told already.
#[derive(Debug, Default)]
pub(super) struct Counted(BTreeMap<String, Count>);

impl Counted {
    /// Tells what was counted since the last time.
    pub(super) async fn tell(&mut self, inner: &Inner) {
        let intent = inner.held.now().await;
        if intent.balancers.is_empty() {
            return;
        }
        let counters = match tables::counters().await {
            Ok(counters) => counters,
            Err(error) => return debug!(%error, "cannot read the counters"),
        };
        for (uid, balancer) in &intent.balancers {
            let labels = [balancer.namespace.as_str(), balancer.name.as_str()];
            let since = |what: &str| self.since(&counters, &listener::counter(what, uid));
            let add = |family, by: u64| {
                if by > 0 {
                    inner.metrics.add(family, &labels, by);
                }
            };
            add(&ACCEPTED, since("accepted").packets);
            add(&RECEIVED, since("in").bytes);
            add(&SENT, since("out").bytes);
            for (what, reason) in [("refused", "source_range_or_limit"), ("unserved", "no_backend")] {
                let by = since(what).packets;
                if by > 0 {
                    inner.metrics.add(&REFUSED, &[labels[0], labels[1], reason], by);
                }
            }
        }
        self.0 = counters;
    }

    /// How far a counter went on. One that is lower than before was made anew.
    fn since(&self, counters: &BTreeMap<String, Count>, name: &str) -> Count {
        let now = counters.get(name).copied().unwrap_or_default();
        let before = self.0.get(name).copied().unwrap_or_default();
        if now.packets < before.packets {
            return now;
        }
        Count { packets: now.packets - before.packets, bytes: now.bytes.saturating_sub(before.bytes) }
    }
}
