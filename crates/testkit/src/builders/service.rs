//! Services.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServicePort, ServiceSpec};

use super::{builds, metadata_sentences, named};

/// A Service in the making.
#[derive(Debug, Clone)]
pub struct ServiceBuilder(Service);

builds!(ServiceBuilder => Service);

/// A Service of this name; in the namespace `default` unless it says otherwise.
pub fn service(name: &str) -> ServiceBuilder {
    ServiceBuilder(Service { metadata: named(name), ..Service::default() })
}

impl ServiceBuilder {
    metadata_sentences!();

    fn spec(&mut self) -> &mut ServiceSpec {
        self.0.spec.get_or_insert_default()
    }

    /// In this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.to_owned());
        self
    }

    fn of_type(mut self, kind: &str) -> Self {
        self.spec().type_ = Some(kind.to_owned());
        self
    }

    /// Of type `LoadBalancer`.
    #[must_use]
    pub fn load_balancer(self) -> Self {
        self.of_type("LoadBalancer")
    }

    /// Of type `ClusterIP`.
    #[must_use]
    pub fn cluster_ip(self) -> Self {
        self.of_type("ClusterIP")
    }

    /// Of type `NodePort`.
    #[must_use]
    pub fn node_port(self) -> Self {
        self.of_type("NodePort")
    }

    /// With this port, over TCP.
    #[must_use]
    pub fn port(mut self, port: i32) -> Self {
        self.spec().ports.get_or_insert_default().push(ServicePort { port, ..ServicePort::default() });
        self
    }

    /// With this port, under a name.
    #[must_use]
    pub fn named_port(mut self, name: &str, port: i32) -> Self {
        let port = ServicePort { name: Some(name.to_owned()), port, ..ServicePort::default() };
        self.spec().ports.get_or_insert_default().push(port);
        self
    }

    /// The last port speaks this protocol.
    #[must_use]
    pub fn protocol(mut self, protocol: &str) -> Self {
        if let Some(port) = self.spec().ports.get_or_insert_default().last_mut() {
            port.protocol = Some(protocol.to_owned());
        }
        self
    }

    /// The last port is reached through this node port.
    #[must_use]
    pub fn on_node_port(mut self, node_port: i32) -> Self {
        if let Some(port) = self.spec().ports.get_or_insert_default().last_mut() {
            port.node_port = Some(node_port);
        }
        self
    }

    /// Of this load balancer class.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.spec().load_balancer_class = Some(class.to_owned());
        self
    }

    /// With `externalTrafficPolicy: Local`.
    #[must_use]
    pub fn local_traffic(mut self) -> Self {
        self.spec().external_traffic_policy = Some("Local".to_owned());
        self
    }

    /// Selecting pods by this label.
    #[must_use]
    pub fn selecting(mut self, key: &str, value: &str) -> Self {
        super::insert(&mut self.spec().selector, key, value);
        self
    }

    /// Open to this source range only.
    #[must_use]
    pub fn source_range(mut self, range: &str) -> Self {
        self.spec().load_balancer_source_ranges.get_or_insert_default().push(range.to_owned());
        self
    }

    /// Reached at this address; for a status without a server.
    #[must_use]
    pub fn ingress_ip(mut self, ip: &str) -> Self {
        let point = LoadBalancerIngress { ip: Some(ip.to_owned()), ..LoadBalancerIngress::default() };
        let balancer = self.0.status.get_or_insert_default().load_balancer.get_or_insert_default();
        balancer.ingress.get_or_insert_default().push(point);
        self
    }
}
