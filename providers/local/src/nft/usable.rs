//! Which backends take new connections. Pure: from the intent and what the health checks say.

use std::collections::BTreeMap;

use super::listener::Side;
use crate::intent::status::Health;
use crate::intent::{Backend, Balancer, Port, PortKey, TrafficPolicy};

/// Who takes the new connections of one balancer, port by port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Choice(BTreeMap<PortKey, Vec<Backend>>);

impl Choice {
    /// Chooses, given what is known of each backend.
    pub(super) fn make(balancer: &Balancer, health: impl Fn(PortKey, &Backend) -> Health) -> Self {
        let of_port = |(key, port): (&PortKey, &Port)| {
            let known = |backend: &&Backend| health(*key, backend);
            [Side::V4, Side::V6]
                .into_iter()
                .flat_map(|side| {
                    let there: Vec<&Backend> = port
                        .backends
                        .iter()
                        .filter(|backend| backend.weight > 0 && Side::of(backend.address) == side)
                        .collect();
                    choose(&there, known, balancer.settings.traffic_policy)
                })
                .collect()
        };
        Self(balancer.ports.iter().map(|port| (*port.0, of_port(port))).collect())
    }

    /// Who takes the connections to one port.
    pub(super) fn of(&self, key: PortKey, side: Side) -> Vec<Backend> {
        self.0
            .get(&key)
            .into_iter()
            .flatten()
            .filter(|backend| Side::of(backend.address) == side)
            .cloned()
            .collect()
    }
}

/// A wrong check must not take down a Service that works: if nobody is known to be good, those are tried of whom nothing
/// is known, and else all. A node without a pod drops what comes under the policy Local, so there only a good answer counts.
fn choose(there: &[&Backend], health: impl Fn(&&Backend) -> Health, policy: TrafficPolicy) -> Vec<Backend> {
    let with = |wanted: fn(&Health) -> bool| -> Vec<Backend> {
        there.iter().filter(|backend| wanted(&health(backend))).map(|backend| (*backend).clone()).collect()
    };
    let good = with(|health| matches!(health, Health::Healthy | Health::Unchecked));
    if !good.is_empty() || policy == TrafficPolicy::Local {
        return good;
    }
    let unknown = with(|health| *health == Health::Unknown);
    if unknown.is_empty() { with(|_| true) } else { unknown }
}
