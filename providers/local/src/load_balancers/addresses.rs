//! Who has which address now, and which ones a Service gets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::Error;
use cloud_provider::load_balancer::Spec;
use k8s_openapi::api::core::v1::Service;

use super::{Balancers, report};
use crate::allocation::{Ledger, Request, Use, allocate};
use crate::annotation::{self, Asked};
use crate::intent::{Intent, PortKey, Protocol};
use crate::wanted;

/// How soon to look again whether the Services are known.
const UNTIL_SYNCED: Duration = Duration::from_secs(1);

impl Balancers {
    /// The addresses of a Service, in the order of its families: those it asks for, those it has, or the next free ones.
    pub(super) fn addresses(
        &self,
        spec: &Spec,
        asked: &Asked,
        intent: &Intent,
    ) -> Result<Vec<IpAddr>, Error> {
        if !self.services.is_synced() {
            // An address that stands in the status of a Service not seen yet would be given away.
            return Err(Error::retry_after(
                UNTIL_SYNCED,
                "choosing an address: not all Services are read yet",
            ));
        }
        let attempt = || format!("choosing an address for {}", report::full_name(spec));
        let held = intent.balancers.get(&spec.identity.uid).map(|held| &held.addresses);
        let request = Request {
            namespace: &spec.identity.namespace,
            class: spec.class.as_deref(),
            pool: asked.pool.as_deref(),
            addresses: requested(spec, asked)?,
            families: spec.families.clone(),
            one_is_enough: prefers_dual_stack(&spec.service),
            share_key: asked.share_key.as_deref(),
            ports: wanted::keys(spec)?,
            kept: held.into_iter().flatten().copied().chain(in_status(&spec.service)).collect(),
        };
        allocate(&request, &self.pools, &self.ledger(&spec.identity.uid, intent))
            .map_err(|refusal| refusal.refuse(attempt()))
    }

    /// Every use of an address but this Service's own.
    fn ledger(&self, own: &str, intent: &Intent) -> Ledger {
        let mut ledger = Ledger::default();
        let services = self.services.list();
        for service in services.iter().filter(|service| service.metadata.uid.as_deref() != Some(own)) {
            for address in in_status(service) {
                ledger.note(address, use_of(service));
            }
        }
        for (_, held) in intent.balancers.iter().filter(|(uid, _)| *uid != own) {
            let service = self.services.get(&held.namespace, &held.name);
            let by = Use {
                who: format!("service {}", held.full_name()),
                share_key: service.as_deref().and_then(annotation::share_key),
                ports: held.ports.keys().copied().collect(),
            };
            for address in &held.addresses {
                ledger.note(*address, by.clone());
            }
        }
        for node in self.nodes.list() {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let known =
                node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
            for address in known.iter().filter_map(|each| each.address.parse().ok()) {
                let by = Use { who: format!("node {name}"), share_key: None, ports: BTreeSet::new() };
                ledger.note(address, by);
            }
        }
        ledger
    }
}

/// The addresses that the Service asks for, in the field or in an annotation.
fn requested(spec: &Spec, asked: &Asked) -> Result<Vec<IpAddr>, Error> {
    match spec.requested_address {
        Some(address) if asked.addresses.is_empty() => Ok(vec![address]),
        Some(address) if !asked.addresses.contains(&address) => Err(Error::invalid_config(format!(
            "spec.loadBalancerIP asks for {address}, and an annotation for other addresses"
        ))),
        _ => Ok(asked.addresses.clone()),
    }
}

fn prefers_dual_stack(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.ip_family_policy.as_deref()) == Some("PreferDualStack")
}

/// The addresses in a Service's status.
fn in_status(service: &Service) -> impl Iterator<Item = IpAddr> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().filter_map(|entry| entry.ip.as_deref()?.parse().ok())
}

fn use_of(service: &Service) -> Use {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let key = |port: &k8s_openapi::api::core::v1::ServicePort| {
        let protocol = if port.protocol.as_deref() == Some("UDP") { Protocol::Udp } else { Protocol::Tcp };
        Some(PortKey { protocol, port: u16::try_from(port.port).ok()? })
    };
    let metadata = &service.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    Use {
        who: format!("service {}/{}", part(&metadata.namespace), part(&metadata.name)),
        share_key: annotation::share_key(service),
        ports: ports.iter().filter_map(key).collect(),
    }
}
