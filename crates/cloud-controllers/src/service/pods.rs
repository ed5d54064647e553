//! The pods behind Services without node ports, for providers that ask for them. Nobody else's are read.

use cloud_provider::load_balancer::Endpoints;
use cloud_provider::well_known::labels;
use controller_kit::cache::{Cache, Key};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::wish;

/// The pods, as the cache has them; none if the provider does not ask for any.
#[derive(Debug, Clone)]
pub(super) struct Pods(Option<Cache<EndpointSlice>>);

impl Pods {
    pub(super) fn new(slices: Option<Cache<EndpointSlice>>) -> Self {
        Self(slices)
    }

    /// Where the changes come from.
    pub(super) fn slices(&self) -> Option<&Cache<EndpointSlice>> {
        self.0.as_ref()
    }

    /// Whether this Service is served by its pods and not through node ports.
    pub(super) fn serve(&self, service: &Service) -> bool {
        self.0.is_some() && wish::is_load_balancer(service) && lacks_node_port(service)
    }

    /// The pods behind a Service; `None` while nobody knows.
    pub(super) fn of(&self, service: &Service) -> Option<Endpoints> {
        let slices = self.0.as_ref().filter(|slices| slices.is_synced())?;
        let key = Key::of(service);
        let slices: Vec<_> =
            slices.list().into_iter().filter(|slice| owner(slice).as_ref() == Some(&key)).collect();
        Some(Endpoints::of(slices.iter().map(AsRef::as_ref)))
    }
}

/// The Service that a slice belongs to.
pub(super) fn owner(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(labels::SERVICE_NAME)?;
    Some(Key::namespaced(slice.metadata.namespace.as_deref()?, name.as_str()))
}

fn lacks_node_port(service: &Service) -> bool {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.into_iter().any(|port| port.node_port.is_none_or(|number| number == 0))
}
