//! What is told of the balancers.

use super::checks::Checks;
use super::kernel;
use super::listener::Side;
use crate::intent::status::{BackendStatus, BalancerStatus, ListenerStatus};
use crate::intent::{Algorithm, Balancer, Intent, Status};

/// The status of every balancer; `failure` is why the tables are not as they should be.
pub(super) fn of(intent: &Intent, checks: &Checks, failure: Option<&str>) -> Status {
    let balancers = intent.balancers.iter();
    Status {
        revision: intent.revision,
        balancers: balancers.map(|(uid, balancer)| (uid.clone(), one(balancer, checks, failure))).collect(),
    }
}

/// The status of one balancer, if there is such a one.
pub(super) fn of_one(intent: &Intent, uid: &str, checks: &Checks, failure: Option<&str>) -> Status {
    let balancer = intent.balancers.get_key_value(uid).into_iter();
    Status {
        revision: intent.revision,
        balancers: balancer.map(|(uid, balancer)| (uid.clone(), one(balancer, checks, failure))).collect(),
    }
}

fn one(balancer: &Balancer, checks: &Checks, failure: Option<&str>) -> BalancerStatus {
    let listeners =
        balancer.listeners().map(|listener| ListenerStatus { listener, failure: failure.map(str::to_owned) });
    let backends = balancer.ports.iter().flat_map(|(key, port)| {
        port.backends.iter().map(|backend| BackendStatus {
            port: *key,
            backend: backend.clone(),
            health: checks.health(&balancer.settings, *key, backend),
            connections: None,
            draining: false,
        })
    });
    BalancerStatus {
        listeners: listeners.collect(),
        backends: backends.collect(),
        problems: problems(balancer),
    }
}

/// What it is asked for and cannot do.
fn problems(balancer: &Balancer) -> Vec<String> {
    let mut problems = kernel::missing(&balancer.addresses);
    if balancer.settings.algorithm == Algorithm::LeastConnections {
        problems.push("backends are chosen in turn: the kernel does not count their connections".to_owned());
    }
    for address in &balancer.addresses {
        let has_backends = |port: &crate::intent::Port| {
            port.backends.is_empty()
                || port.backends.iter().any(|backend| Side::of(backend.address) == Side::of(*address))
        };
        if !balancer.ports.values().all(has_backends) {
            problems.push(format!("no node has an address of the family of {address}: nobody answers there"));
        }
    }
    problems
}
