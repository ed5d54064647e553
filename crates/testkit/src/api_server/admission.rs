//! What the server adds to an object by itself: defaults of its version, allocations, finalizers of the default
//! admission plugins. Refusing is `validation`'s work.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::schema::{section, text};
use super::state::State;

mod service;

/// Defaults that the real server applies whenever it reads an object of the kind, from a client or from storage.
pub(crate) fn apply_defaults(kind: &Kind, object: &mut Value) {
    match kind.kind {
        "Service" => service::apply_defaults(object),
        "Node" => node_defaults(object),
        "PersistentVolume" => {
            default(object, "spec", "persistentVolumeReclaimPolicy", &json!("Retain"));
            default(object, "spec", "volumeMode", &json!("Filesystem"));
            default(object, "status", "phase", &json!("Pending"));
        }
        "PersistentVolumeClaim" => {
            default(object, "spec", "volumeMode", &json!("Filesystem"));
            default(object, "status", "phase", &json!("Pending"));
        }
        "StorageClass" => {
            for (field, value) in [("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")] {
                if object[field].is_null() {
                    object[field] = json!(value);
                }
            }
        }
        "VolumeAttachment" => default(object, "status", "attached", &json!(false)),
        "EndpointSlice" => endpoint_slice_defaults(object),
        "Namespace" => {
            section(object, "spec");
            default(object, "status", "phase", &json!("Active"));
        }
        "Lease" => {
            section(object, "spec");
        }
        "Event" => event_defaults(object),
        _ => {}
    }
}

/// The fields of `status.nodeInfo` that are there even when nobody has filled them in.
const NODE_INFO: &[&str] = &[
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

fn default(object: &mut Value, part: &str, field: &str, value: &Value) {
    section(object, part).entry(field).or_insert_with(|| value.clone());
}

/// `podCIDR` and `podCIDRs` are two spellings of one fact, and the structs below `status` are never absent.
fn node_defaults(node: &mut Value) {
    let spec = section(node, "spec");
    let single = spec.get("podCIDR").cloned().filter(|v| v.as_str().is_some_and(|s| !s.is_empty()));
    let many = spec.get("podCIDRs").cloned().unwrap_or_else(|| json!([]));
    match (single, many.get(0).cloned()) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".into(), json!([single]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
    let status = section(node, "status");
    status.entry("daemonEndpoints").or_insert_with(|| json!({"kubeletEndpoint": {"Port": 0}}));
    let info = status.entry("nodeInfo").or_insert_with(|| json!({}));
    if let Value::Object(info) = info {
        for field in NODE_INFO {
            info.entry(*field).or_insert_with(|| json!(""));
        }
    }
    if let (None, Some(capacity)) = (status.get("allocatable"), status.get("capacity").cloned()) {
        status.insert("allocatable".into(), capacity);
    }
}

fn endpoint_slice_defaults(slice: &mut Value) {
    for port in slice["ports"].as_array_mut().into_iter().flatten() {
        if let Value::Object(port) = port {
            port.entry("name").or_insert_with(|| json!(""));
            port.entry("protocol").or_insert_with(|| json!("TCP"));
        }
    }
}

fn event_defaults(event: &mut Value) {
    if let Value::Object(fields) = event {
        fields.entry("source").or_insert_with(|| json!({}));
        fields.entry("reportingComponent").or_insert_with(|| json!(""));
        fields.entry("reportingInstance").or_insert_with(|| json!(""));
    }
}

/// What happens to a new object before it is validated.
pub(crate) fn prepare_create(kind: &Kind, state: &mut State, object: &mut Value) {
    match kind.kind {
        "Node" => add_not_ready_taint(object),
        "Service" => {
            object["status"] = json!({"loadBalancer": {}});
            service::allocate(state, object);
        }
        "Namespace" => {
            object["status"] = json!({"phase": "Active"});
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            let name = object["metadata"]["name"].clone();
            section(&mut object["metadata"], "labels").insert("kubernetes.io/metadata.name".into(), name);
        }
        "PersistentVolume" => {
            let now = object["metadata"]["creationTimestamp"].clone();
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
            protect(object, "kubernetes.io/pv-protection");
        }
        "PersistentVolumeClaim" => {
            object["status"] = json!({"phase": "Pending"});
            protect(object, "kubernetes.io/pvc-protection");
            if object["spec"]["storageClassName"].is_null()
                && let Some(class) = state.default_storage_class()
            {
                object["spec"]["storageClassName"] = json!(class);
            }
        }
        "VolumeAttachment" => object["status"] = json!({"attached": false}),
        "EndpointSlice" => object["metadata"]["generation"] = json!(1),
        "Pod" => {
            object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        }
        _ => {}
    }
}

/// The `TaintNodesByCondition` admission plugin: a new Node is not ready until somebody says so.
fn add_not_ready_taint(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = section(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Value::Array(taints) = taints
        && !taints.iter().any(|t| t["key"] == taint["key"] && t["effect"] == taint["effect"])
    {
        taints.push(taint);
    }
}

/// The `StorageObjectInUseProtection` admission plugin.
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = section(object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|f| f == finalizer)
    {
        finalizers.push(json!(finalizer));
    }
}

/// What happens to a changed object before it is validated.
pub(crate) fn prepare_update(kind: &Kind, state: &mut State, old: &Value, new: &mut Value) {
    match kind.kind {
        "Service" => service::carry_over(state, old, new),
        "EndpointSlice" => {
            let parts = |slice: &Value| {
                (slice["addressType"].clone(), slice["endpoints"].clone(), slice["ports"].clone())
            };
            let generation = old["metadata"]["generation"].as_u64().unwrap_or_default();
            let generation = generation + u64::from(parts(old) != parts(new));
            new["metadata"]["generation"] = json!(generation);
        }
        _ => {}
    }
}

/// What happens to a changed status before it is validated.
pub(crate) fn prepare_status(kind: &Kind, old: &Value, new: &mut Value, now: &Value) {
    if kind.kind == "PersistentVolume" && old["status"]["phase"] != new["status"]["phase"] {
        new["status"]["lastPhaseTransitionTime"] = now.clone();
    }
}

/// Whether a Service of this type gets node ports.
fn wants_node_ports(service: &Value) -> bool {
    match text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}
