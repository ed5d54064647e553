//! What of an object is kept. A Node as received takes 69 KB of memory, as a controller reads it a tenth of that, so
//! every cache has to say.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Cuts an object down before it is stored. Trimmed objects must never be written back as a whole.
pub struct Trim<K>(Arc<dyn Fn(&mut K) + Send + Sync>);

impl<K> Clone for Trim<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> std::fmt::Debug for Trim<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trim")
    }
}

impl<K> Trim<K> {
    /// Cuts with a function. Name, namespace, UID and resource version have to stay.
    pub fn new(cut: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        Self(Arc::new(cut))
    }

    pub(super) fn apply(&self, object: &mut K) {
        (self.0)(object);
    }
}

/// Only what nobody ever reads goes: managed fields, and the copy of the object that kubectl keeps.
pub fn metadata<K: kube::Resource>() -> Trim<K> {
    Trim::new(|object: &mut K| trim_meta(object.meta_mut()))
}

/// Keeps all that the service controller and load balancers read: the whole spec and status, and every annotation,
/// because those are settings.
pub fn service() -> Trim<Service> {
    metadata()
}

/// Keeps the Service that a slice belongs to, its ports, and of each pod its addresses, its node and whether it serves.
pub fn endpoint_slice() -> Trim<EndpointSlice> {
    Trim::new(|slice: &mut EndpointSlice| {
        trim_meta(&mut slice.metadata);
        slice.metadata.annotations = None;
        slice.metadata.owner_references = None;
        if let Some(labels) = &mut slice.metadata.labels {
            labels.retain(|name, _| name == "kubernetes.io/service-name");
        }
        for pod in &mut slice.endpoints {
            let (addresses, conditions) = (std::mem::take(&mut pod.addresses), pod.conditions.take());
            *pod = Endpoint { addresses, conditions, node_name: pod.node_name.take(), ..Endpoint::default() };
        }
    })
}

/// Keeps what identifies a Node, where it runs, its addresses, taints, labels, pod CIDRs and conditions, and of the
/// annotations those named here; a name that ends in `*` stands for all that begin so. Images, volumes, capacity, the
/// kubelet's pressure conditions, and reason, message and heartbeat of its other conditions go.
pub fn node<S: Into<String>>(keep_annotations: impl IntoIterator<Item = S>) -> Trim<Node> {
    let keep: Vec<String> = keep_annotations.into_iter().map(Into::into).collect();
    Trim::new(move |node: &mut Node| {
        trim_meta(&mut node.metadata);
        if let Some(annotations) = &mut node.metadata.annotations {
            annotations.retain(|name, _| keep.iter().any(|kept| covers(kept, name)));
        }
        node.metadata.annotations.take_if(|annotations| annotations.is_empty());
        node.spec = node.spec.take().map(trim_node_spec);
        node.status = node.status.take().map(trim_node_status);
    })
}

fn covers(kept: &str, name: &str) -> bool {
    kept.strip_suffix('*').map_or(kept == name, |prefix| name.starts_with(prefix))
}

fn trim_meta(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    meta.self_link = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

fn trim_node_spec(spec: NodeSpec) -> NodeSpec {
    NodeSpec {
        pod_cidr: spec.pod_cidr,
        pod_cidrs: shrunk(spec.pod_cidrs),
        provider_id: spec.provider_id,
        taints: shrunk(spec.taints),
        unschedulable: spec.unschedulable,
        ..NodeSpec::default()
    }
}

fn trim_node_status(status: NodeStatus) -> NodeStatus {
    NodeStatus {
        addresses: shrunk(status.addresses),
        conditions: shrunk(status.conditions.map(|all| all.into_iter().filter_map(trim_condition).collect())),
        node_info: status.node_info.map(|info| NodeSystemInfo {
            machine_id: info.machine_id,
            system_uuid: info.system_uuid,
            kubelet_version: info.kubelet_version,
            architecture: info.architecture,
            operating_system: info.operating_system,
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The route controller compares all of its own condition; of the kubelet's, `Ready` is read for its status, and
/// pressure is the scheduler's business.
fn trim_condition(condition: NodeCondition) -> Option<NodeCondition> {
    match condition.type_.as_str() {
        "NetworkUnavailable" => Some(condition),
        "MemoryPressure" | "DiskPressure" | "PIDPressure" => None,
        _ => Some(NodeCondition { message: None, reason: None, last_heartbeat_time: None, ..condition }),
    }
}

fn shrunk<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    let mut list = list.filter(|list| !list.is_empty())?;
    list.shrink_to_fit();
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_keeps_what_says_whose_pods_serve_where_and_nothing_else() {
        let mut slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": {
                "namespace": "shop", "name": "web-1", "uid": "u", "resourceVersion": "7",
                "labels": {"kubernetes.io/service-name": "web", "app": "web"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
                "managedFields": [{"manager": "kube-controller-manager"}],
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{
                "addresses": ["10.1.0.1"], "nodeName": "a", "zone": "z", "targetRef": {"kind": "Pod", "name": "web-x"},
                "conditions": {"ready": true, "serving": true},
            }],
        }))
        .unwrap();
        endpoint_slice().apply(&mut slice);
        let expected = serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": "shop", "name": "web-1", "uid": "u", "resourceVersion": "7",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{
                "addresses": ["10.1.0.1"], "nodeName": "a", "conditions": {"ready": true, "serving": true},
            }],
        });
        assert_eq!(serde_json::to_value(&slice).unwrap(), expected);
    }
}
