//! What a Service wishes for: whether it wants a load balancer from us, and the fingerprint of everything that would
//! make its load balancer another one. Pure.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::load_balancer::Description;
use cloud_provider::well_known::{annotations, finalizers};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What of a Service concerns us: the classes that are ours, and the annotations that the provider reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    classes: BTreeSet<String>,
    annotations: BTreeSet<&'static str>,
}

impl Terms {
    /// The provider's own terms, and classes that a person added.
    pub fn new(description: &Description, added: &[String]) -> Self {
        let own = description.annotations.iter().map(|annotation| annotation.key);
        Self {
            classes: description.classes.iter().chain(added).cloned().collect(),
            // Every provider reads this one, through the parsed source ranges.
            annotations: own.chain([annotations::LOAD_BALANCER_SOURCE_RANGES]).collect(),
        }
    }

    /// Whether Services of this class are ours. Those without a class always are.
    pub fn owns(&self, class: Option<&str>) -> bool {
        class.is_none_or(|class| self.classes.contains(class))
    }
}

/// Whether it is of the type that asks for a load balancer, from whomever.
pub fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether it asks for a load balancer from us.
pub fn wants(service: &Service, terms: &Terms) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    is_load_balancer(service) && terms.owns(class)
}

/// Whether it is being deleted.
pub fn is_going(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

/// Whether it is held until its load balancer is gone from the cloud.
pub fn is_held(service: &Service) -> bool {
    let held = |finalizer: &String| finalizer == finalizers::LOAD_BALANCER_CLEANUP;
    service.metadata.finalizers.iter().flatten().any(held)
}

/// Whether its status names an address.
pub fn has_address(service: &Service) -> bool {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_ref()).is_some_and(|ingress| !ingress.is_empty())
}

/// Everything of a Service that would make its load balancer another one. Absent and empty are the same, and so are a
/// default and its absence.
#[derive(Debug, Clone, PartialEq)]
pub struct Print {
    uid: String,
    class: Option<String>,
    ports: Vec<PortPrint>,
    source_ranges: Vec<String>,
    affinity: (bool, Option<i32>),
    requested_address: Option<String>,
    external_ips: Vec<String>,
    local_traffic: bool,
    health_check_port: Option<i32>,
    families: Vec<String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
struct PortPrint {
    name: Option<String>,
    protocol: String,
    port: i32,
    node_port: Option<i32>,
    target: Option<IntOrString>,
    app_protocol: Option<String>,
}

impl Print {
    /// The fingerprint of a Service on these terms.
    pub fn of(service: &Service, terms: &Terms) -> Self {
        let none = ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&none);
        let timeout = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        let affine = spec.session_affinity.as_deref() == Some("ClientIP");
        let known = service.metadata.annotations.iter().flatten();
        Self {
            uid: service.metadata.uid.clone().unwrap_or_default(),
            class: said(spec.load_balancer_class.as_ref()),
            ports: spec.ports.iter().flatten().map(PortPrint::of).collect(),
            source_ranges: spec.load_balancer_source_ranges.clone().unwrap_or_default(),
            affinity: (affine, timeout.and_then(|client_ip| client_ip.timeout_seconds).filter(|_| affine)),
            requested_address: said(spec.load_balancer_ip.as_ref()),
            external_ips: spec.external_ips.clone().unwrap_or_default(),
            local_traffic: spec.external_traffic_policy.as_deref() == Some("Local"),
            health_check_port: spec.health_check_node_port.filter(|port| *port != 0),
            families: spec.ip_families.clone().unwrap_or_default(),
            annotations: known
                .filter(|(key, _)| terms.annotations.contains(key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }
}

impl PortPrint {
    fn of(port: &ServicePort) -> Self {
        Self {
            name: said(port.name.as_ref()),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: port.port,
            node_port: port.node_port.filter(|number| *number != 0),
            target: port.target_port.clone(),
            app_protocol: said(port.app_protocol.as_ref()),
        }
    }
}

fn said(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// Whether an update of a Service can mean work. Whoever wrote what we wrote ourselves, conditions, labels, selectors
/// and annotations that nobody here reads cause none.
pub fn matters(old: &Service, new: &Service, terms: &Terms) -> bool {
    // Whose it is: another object of the same name, or another kind of Service, is another matter.
    let ours = |service: &Service| {
        (service.metadata.uid.clone(), wants(service, terms), is_going(service), is_load_balancer(service))
    };
    let loses = |held: fn(&Service) -> bool| held(old) && !held(new);
    let addresses =
        |service: &Service| service.status.as_ref().and_then(|status| status.load_balancer.clone());
    ours(old) != ours(new)
        || (wants(new, terms) && Print::of(old, terms) != Print::of(new, terms))
        || (!wants(new, terms) && is_held(new) && !is_held(old))
        || loses(is_held)
        || (has_address(old) && addresses(old) != addresses(new))
}
