//! What controllers write to Services: the finalizer and the load balancer's status. Everything goes through the status
//! subresource, so that a role needs `services/status` only, as upstream's.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use serde_json::json;

use super::Patch;

/// Adds a finalizer; the server puts it before what is in the list by then. `None` if it is there already.
pub fn add_finalizer(service: &Service, finalizer: &str) -> Option<Patch> {
    (!has_finalizer(service, finalizer))
        .then(|| Patch::strategic(json!({ "metadata": { "finalizers": [finalizer] } })).on_status())
}

/// Removes a finalizer and only that one; `None` if it is not there.
///
/// Upstream writes `finalizers: null` when its copy shows no other, which also wipes what another controller added
/// since. The directive names our element, so the list may have changed meanwhile.
pub fn remove_finalizer(service: &Service, finalizer: &str) -> Option<Patch> {
    has_finalizer(service, finalizer).then(|| {
        Patch::strategic(json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [finalizer] } }))
            .on_status()
    })
}

/// Sets the load balancer's status; `None` if it says the same, where absent lists count as empty.
pub fn load_balancer_status(service: &Service, wanted: &LoadBalancerStatus) -> Option<Patch> {
    let current = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let current = current.and_then(|status| status.ingress.as_deref()).unwrap_or_default();
    let wanted = wanted.ingress.as_deref().unwrap_or_default();
    if current.len() == wanted.len()
        && current.iter().zip(wanted).all(|(current, wanted)| same(current, wanted))
    {
        return None;
    }
    let ingress = if wanted.is_empty() { json!(null) } else { json!(wanted) };
    Some(Patch::strategic(json!({ "status": { "loadBalancer": { "ingress": ingress } } })).on_status())
}

fn has_finalizer(service: &Service, finalizer: &str) -> bool {
    service.metadata.finalizers.iter().flatten().any(|present| present == finalizer)
}

fn same(a: &LoadBalancerIngress, b: &LoadBalancerIngress) -> bool {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let ports = |ingress: &LoadBalancerIngress| ingress.ports.clone().unwrap_or_default();
    (set(&a.ip), set(&a.hostname), set(&a.ip_mode), ports(a))
        == (set(&b.ip), set(&b.hostname), set(&b.ip_mode), ports(b))
}
