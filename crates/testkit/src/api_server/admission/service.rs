//! Defaults and allocations of Services: addresses, node ports, policies.

use serde_json::{Map, Value, json};

use super::wants_node_ports;
use crate::api_server::schema::{section, text};
use crate::api_server::state::State;

/// The defaults of `v1`.
pub(super) fn apply_defaults(service: &mut Value) {
    let spec = section(service, "spec");
    spec.entry("type").or_insert_with(|| json!("ClusterIP"));
    spec.entry("sessionAffinity").or_insert_with(|| json!("None"));
    if spec["sessionAffinity"] == "ClientIP" && spec.get("sessionAffinityConfig").is_none() {
        spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10_800}}));
    } else if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let externally_accessible = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec.get("externalIPs").is_some());
    if externally_accessible {
        spec.entry("externalTrafficPolicy").or_insert_with(|| json!("Cluster"));
    }
    if kind != "ExternalName" {
        spec.entry("internalTrafficPolicy").or_insert_with(|| json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        spec.entry("allocateLoadBalancerNodePorts").or_insert_with(|| json!(true));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port_defaults(port);
    }
    let status = section(service, "status");
    let balancer = status.entry("loadBalancer").or_insert_with(|| json!({}));
    if kind == "LoadBalancer" {
        for ingress in balancer["ingress"].as_array_mut().into_iter().flatten() {
            if ingress["ip"].is_string() && ingress["ipMode"].is_null() {
                ingress["ipMode"] = json!("VIP");
            }
        }
    }
}

fn port_defaults(port: &mut Value) {
    let number = port["port"].clone();
    if let Value::Object(port) = port {
        port.entry("protocol").or_insert_with(|| json!("TCP"));
        let unset = |target: &Value| *target == json!(0) || *target == json!("");
        if port.get("targetPort").is_none_or(unset) {
            port.insert("targetPort".into(), number);
        }
    }
}

/// Gives the Service the addresses and ports that its type needs and that it does not have.
pub(super) fn allocate(state: &mut State, service: &mut Value) {
    allocate_addresses(state, service);
    if wants_node_ports(service) {
        allocate_node_ports(state, service);
    }
    if needs_health_check_port(service) && service["spec"]["healthCheckNodePort"].is_null() {
        let taken = own_node_ports(service);
        service["spec"]["healthCheckNodePort"] = json!(state.node_port(&taken));
    }
}

fn needs_health_check_port(service: &Value) -> bool {
    text(service, &["spec", "type"]) == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

fn allocate_addresses(state: &mut State, service: &mut Value) {
    if text(service, &["spec", "type"]) == "ExternalName" {
        return;
    }
    let asked = text(service, &["spec", "clusterIP"]).to_owned();
    let ip = if asked.is_empty() { state.cluster_ip() } else { asked };
    let spec = section(service, "spec");
    spec.insert("clusterIP".into(), json!(ip));
    spec.entry("clusterIPs").or_insert_with(|| json!([ip]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
}

fn own_node_ports(service: &Value) -> Vec<u64> {
    service["spec"]["ports"].as_array().into_iter().flatten().filter_map(|p| p["nodePort"].as_u64()).collect()
}

fn allocate_node_ports(state: &mut State, service: &mut Value) {
    let mut taken = own_node_ports(service);
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"].is_null()
            && let Some(free) = state.node_port(&taken)
        {
            port["nodePort"] = json!(free);
            taken.push(u64::from(free));
        }
    }
}

/// Keeps what was allocated before where an update does not mention it, and frees what the new type may not have.
pub(super) fn carry_over(state: &mut State, old: &Value, new: &mut Value) {
    let (old_type, new_type) =
        (text(old, &["spec", "type"]).to_owned(), text(new, &["spec", "type"]).to_owned());
    if old_type != "ExternalName" && new_type != "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if new["spec"][field].is_null() {
                new["spec"][field] = old["spec"][field].clone();
            }
        }
    }
    // `clusterIP` and `clusterIPs` are two spellings of one fact; whichever was changed wins.
    if old["spec"]["clusterIP"] != new["spec"]["clusterIP"]
        && old["spec"]["clusterIPs"] == new["spec"]["clusterIPs"]
        && new["spec"]["clusterIP"].is_string()
    {
        new["spec"]["clusterIPs"] = json!([new["spec"]["clusterIP"]]);
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        new["status"]["loadBalancer"] = json!({});
    }
    if wants_node_ports(old) && wants_node_ports(new) {
        carry_over_node_ports(old, new);
    }
    if needs_health_check_port(old)
        && needs_health_check_port(new)
        && new["spec"]["healthCheckNodePort"].is_null()
    {
        new["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
    drop_what_the_type_forbids(old, new, &old_type, &new_type);
    allocate(state, new);
}

fn carry_over_node_ports(old: &Value, new: &mut Value) {
    let same = |a: &Value, b: &Value| a["port"] == b["port"] && a["protocol"] == b["protocol"];
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if !port["nodePort"].is_null() {
            continue;
        }
        let before = old["spec"]["ports"].as_array().into_iter().flatten().find(|other| same(other, port));
        if let Some(number) = before.map(|p| p["nodePort"].clone()).filter(Value::is_u64) {
            port["nodePort"] = number;
        }
    }
}

/// Clears fields that belonged to the old type and that the writer left as they were.
fn drop_what_the_type_forbids(old: &Value, new: &mut Value, old_type: &str, new_type: &str) {
    let unchanged = |field: &str, new: &Map<String, Value>| new.get(field) == old["spec"].get(field);
    let old_ports = wants_node_ports(old);
    let new_ports = wants_node_ports(new);
    let old_health = needs_health_check_port(old);
    let new_health = needs_health_check_port(new);
    let spec = section(new, "spec");
    if old_type != "ExternalName" && new_type == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if unchanged(field, spec) {
                spec.remove(field);
            }
        }
    }
    if old_ports && !new_ports && unchanged_ports(old, spec) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if old_health && !new_health && unchanged("healthCheckNodePort", spec) {
        spec.remove("healthCheckNodePort");
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(field, spec) {
                spec.remove(field);
            }
        }
    }
    let external = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if external(old_type) && !external(new_type) && unchanged("externalTrafficPolicy", spec) {
        spec.remove("externalTrafficPolicy");
    }
}

fn unchanged_ports(old: &Value, spec: &Map<String, Value>) -> bool {
    let numbers = |ports: Option<&Value>| -> Vec<Value> {
        ports.and_then(Value::as_array).into_iter().flatten().map(|p| p["nodePort"].clone()).collect()
    };
    numbers(old["spec"].get("ports")) == numbers(spec.get("ports"))
}
