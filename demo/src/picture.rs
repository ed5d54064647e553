//! What can be seen in the cluster, as rows of text.

use cloud_provider::well_known::{labels, taints};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::api::ListParams;
use kube::{Api, Client};

/// What can be seen at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Name, readiness, provider ID, zone, address, and the taints that are a cloud's business.
    pub(crate) nodes: Vec<[String; 6]>,
    /// Name, type, address, ports.
    pub(crate) services: Vec<[String; 4]>,
    /// The last Events: reason, object, message.
    pub(crate) events: Vec<[String; 3]>,
}

/// How the keys of a cloud's taints begin. Those of others, whose controllers do not run here, would stay for ever.
const CLOUD_TAINTS: &str = "node.cloudprovider.kubernetes.io/";

/// How many Events are shown.
const EVENTS: usize = 4;

impl Picture {
    /// Looks at the cluster.
    pub(crate) async fn take(client: &Client) -> kube::Result<Self> {
        let all = ListParams::default();
        let nodes = Api::<Node>::all(client.clone()).list(&all).await?;
        let services = Api::<Service>::default_namespaced(client.clone()).list(&all).await?;
        let mut events = Api::<Event>::all(client.clone()).list(&all).await?.items;
        events.sort_by_key(|event| event.last_timestamp.clone().map(|time| time.0));
        let last = events.len().saturating_sub(EVENTS);
        Ok(Self {
            nodes: nodes.items.iter().map(node_row).collect(),
            services: services
                .items
                .iter()
                .filter(|service| name(&service.metadata) != "kubernetes")
                .map(service_row)
                .collect(),
            events: events[last..].iter().map(event_row).collect(),
        })
    }
}

/// Whether a Node has lost the taint of those that no cloud has looked at.
pub(crate) fn is_initialised(node: &Node) -> bool {
    !taints_of(node).iter().any(|key| key == taints::UNINITIALIZED)
        && node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some())
}

/// A Node's zone; empty if it has none.
pub(crate) fn zone_of(node: &Node) -> String {
    let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get(labels::ZONE));
    zone.cloned().unwrap_or_default()
}

/// The first address in a Service's status.
pub(crate) fn address_of(service: &Service) -> Option<String> {
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    balancer.ingress.as_ref()?.first()?.ip.clone()
}

fn taints_of(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().map(|taint| taint.key.clone()).collect()
}

fn node_row(node: &Node) -> [String; 6] {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|each| each.type_ == "Ready" && each.status == "True");
    let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    let internal = addresses.iter().find(|address| address.type_ == "InternalIP");
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let taints: Vec<String> =
        taints_of(node).iter().filter_map(|key| key.strip_prefix(CLOUD_TAINTS).map(str::to_owned)).collect();
    [
        name(&node.metadata),
        if ready { "ready" } else { "NOT READY" }.to_owned(),
        id.unwrap_or_else(|| "-".to_owned()),
        zone_of(node),
        internal.map(|address| address.address.clone()).unwrap_or_default(),
        taints.join(", "),
    ]
}

fn service_row(service: &Service) -> [String; 4] {
    let spec = service.spec.clone().unwrap_or_default();
    let port = |port: &k8s_openapi::api::core::v1::ServicePort| match port.node_port {
        Some(node_port) => format!("{} -> {node_port}", port.port),
        None => port.port.to_string(),
    };
    let ports: Vec<String> = spec.ports.iter().flatten().map(port).collect();
    let address = address_of(service).unwrap_or_else(|| "<pending>".to_owned());
    [name(&service.metadata), spec.type_.unwrap_or_default(), address, ports.join(", ")]
}

fn event_row(event: &Event) -> [String; 3] {
    let object = &event.involved_object;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    [part(&event.reason), format!("{}/{}", part(&object.kind), part(&object.name)), part(&event.message)]
}

fn name(metadata: &kube::core::ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
