//! The Services and Nodes that the checks are about.

use std::sync::Arc;

use cloud_provider::NodeRef;
use cloud_provider::load_balancer::Spec;
use k8s_openapi::api::core::v1::{ClientIPConfig, Node, NodeAddress, Service, SessionAffinityConfig};

use super::Stage;
use super::check::{MustSucceed, Stop};
use super::stand_in::{Instance, Seed};
use crate::builders::{ServiceBuilder, node, service};

/// The UID of the Service that most checks are about.
pub(super) const WEB: &str = "3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f";
/// The UID of a second Service.
pub(super) const SHOP: &str = "91be77c0-6f0b-4a3a-b0d4-5e6c1f2a3b4c";

/// A Service of two ports.
pub(super) fn web() -> ServiceBuilder {
    bare("web", WEB).port(80).on_node_port(30080).port(443).on_node_port(30443)
}

/// A second Service, of one port.
pub(super) fn shop() -> ServiceBuilder {
    bare("shop", SHOP).port(8080).on_node_port(31080)
}

/// A Service without ports.
pub(super) fn bare(name: &str, uid: &str) -> ServiceBuilder {
    service(name).namespace("default").uid(uid).load_balancer()
}

/// The same Service with clients kept to one backend.
pub(super) fn with_affinity(service: ServiceBuilder, seconds: i32) -> Service {
    let mut service: Service = service.into();
    let spec = service.spec.get_or_insert_default();
    spec.session_affinity = Some("ClientIP".to_owned());
    spec.session_affinity_config =
        Some(SessionAffinityConfig { client_ip: Some(ClientIPConfig { timeout_seconds: Some(seconds) }) });
    service
}

/// The same Service with these address families.
pub(super) fn with_families(service: ServiceBuilder, families: &[&str]) -> Service {
    let mut service: Service = service.into();
    let spec = service.spec.get_or_insert_default();
    spec.ip_families = Some(families.iter().map(ToString::to_string).collect());
    let policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    spec.ip_family_policy = Some(policy.to_owned());
    service
}

/// The Node of an instance, as it stands in the cluster once it is initialised.
pub(super) fn node_of(instance: &Instance) -> Arc<Node> {
    let mut node =
        node(&instance.name).uid(&node_uid(&instance.name)).provider_id(&instance.provider_id).ready();
    for (type_, address) in &instance.addresses {
        node = node.address(type_, address);
    }
    Arc::new(node.into())
}

/// The UID of the Node of this name.
pub(super) fn node_uid(name: &str) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_DNS, name.as_bytes()).to_string()
}

/// The addresses of an instance, in the words of a Node.
pub(super) fn addresses_of(instance: &Instance) -> Vec<NodeAddress> {
    let address =
        |(type_, address): &(String, String)| NodeAddress { type_: type_.clone(), address: address.clone() };
    instance.addresses.iter().map(address).collect()
}

/// The question about an initialised Node.
pub(super) fn by_id(instance: &Instance) -> NodeRef {
    NodeRef::from(&*node_of(instance))
}

/// The question about a Node that has no provider ID yet.
pub(super) fn by_name(name: &str) -> NodeRef {
    NodeRef { name: name.to_owned(), uid: node_uid(name), ..NodeRef::default() }
}

/// The question about a Node of this name with this provider ID.
pub(super) fn asking(name: &str, provider_id: &str) -> NodeRef {
    NodeRef { provider_id: Some(provider_id.to_owned()), ..by_name(name) }
}

impl Stage {
    /// Makes an instance and its Node.
    pub(super) async fn start(&self, name: &str) -> Result<Instance, Stop> {
        let instance = self.stand_in.start_instance(&Seed::named(name)).await?;
        let mut nodes = cloud_provider::context::NodeReader::list(&*self.nodes);
        nodes.push(node_of(&instance));
        self.nodes.set(nodes);
        Ok(instance)
    }

    /// Makes instances of these names and their Nodes.
    pub(super) async fn start_all(&self, names: &[&str]) -> Result<Vec<Instance>, Stop> {
        let mut started = Vec::new();
        for name in names {
            started.push(self.start(name).await?);
        }
        Ok(started)
    }

    /// Tells the provider's readers of Nodes that are there already.
    pub(super) fn start_over(&self, nodes: &[Instance]) {
        self.nodes.set(nodes.iter().map(node_of).collect());
    }

    /// What this Service asks for with these nodes behind it. The provider's readers know the Service from now on.
    pub(super) fn spec(&self, service: impl Into<Service>, nodes: &[Instance]) -> Result<Spec, Stop> {
        let service = Arc::new(service.into());
        self.services.set(vec![Arc::clone(&service)]);
        Spec::new(service, nodes.iter().map(node_of).collect(), &self.cluster).must("reading the Service")
    }
}
