//! What is told of a balancer: its status in Kubernetes' words, and what the data plane says of it.

use std::net::IpAddr;

use cloud_provider::load_balancer::{Family, Spec};
use cloud_provider::well_known::ip_modes;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus};

use crate::intent::{Balancer, Status};
use crate::plane::Forwarding;

/// The status of a balancer at these addresses, in the order of the Service's families.
pub(super) fn status(
    addresses: impl IntoIterator<Item = IpAddr>,
    families: &[Family],
    forwarding: Forwarding,
) -> LoadBalancerStatus {
    let mut addresses: Vec<IpAddr> = addresses.into_iter().collect();
    addresses.sort_by_key(|address| families.iter().position(|family| *family == Family::of(*address)));
    let ip_mode = match forwarding {
        Forwarding::UserSpace => ip_modes::PROXY,
        Forwarding::Kernel => ip_modes::VIP,
    };
    let ingress = addresses.into_iter().map(|address| LoadBalancerIngress {
        ip: Some(address.to_string()),
        ip_mode: Some(ip_mode.to_owned()),
        ..LoadBalancerIngress::default()
    });
    LoadBalancerStatus { ingress: Some(ingress.collect()) }
}

/// The ports of a balancer that are not open, and why.
pub(super) fn closed(status: &Status, uid: &str) -> Vec<String> {
    let listeners = status.balancers.get(uid).into_iter().flat_map(|balancer| &balancer.listeners);
    listeners
        .filter_map(|listener| {
            let why = listener.failure.as_ref()?;
            Some(format!("{} is not open: {why}", listener.listener))
        })
        .collect()
}

/// What the data plane was asked for and cannot do.
pub(super) fn problems(status: &Status, uid: &str) -> Vec<String> {
    status.balancers.get(uid).map(|balancer| balancer.problems.clone()).unwrap_or_default()
}

/// A balancer in a few words.
pub(super) fn summary(balancer: &Balancer) -> String {
    let addresses: Vec<String> = balancer.addresses.iter().map(ToString::to_string).collect();
    let ports: Vec<String> = balancer.ports.keys().map(ToString::to_string).collect();
    format!("{} at {}, ports {}", balancer.full_name(), addresses.join(" and "), ports.join(", "))
}

/// The Service of a spec, for messages.
pub(super) fn full_name(spec: &Spec) -> String {
    format!("Service {}/{}", spec.identity.namespace, spec.identity.name)
}
