//! Rules of single kinds: what an object may say and what may change once it is written.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::format::{DNS_SUBDOMAIN, is_dns_subdomain, label_key_problems};
use crate::api_server::kinds::Kind;
use crate::api_server::schema::text;
use crate::api_server::status_error::Cause;

/// Rules about the object itself.
pub(super) fn object(kind: &Kind, object: &Value) -> Vec<Cause> {
    match kind.kind {
        "Node" => node(object),
        "Service" => service(object),
        "Lease" => lease(object),
        "Event" => event(object),
        _ => Vec::new(),
    }
}

/// Rules about a change.
pub(super) fn update(kind: &Kind, old: &Value, new: &Value, status: bool) -> Vec<Cause> {
    match (kind.kind, status) {
        ("Node", _) => node_update(old, new),
        ("Service", true) => service_status(new),
        ("Service", false) => service_update(old, new),
        ("StorageClass", _) => storage_class_update(old, new),
        ("VolumeAttachment", _) if old["spec"] != new["spec"] => {
            let spec = &new["spec"];
            let shown = format!(
                r#"{{"Attacher":{},"Source":{{"PersistentVolumeName":{},"InlineVolumeSpec":null}},"NodeName":{}}}"#,
                spec["attacher"], spec["source"]["persistentVolumeName"], spec["nodeName"]
            );
            vec![Cause::invalid_shown("spec", shown, "field is immutable")]
        }
        ("ConfigMap" | "Secret", _) => immutable_data(old, new),
        ("PersistentVolumeClaim", false) => claim_update(old, new),
        _ => Vec::new(),
    }
}

const IP_MODES: &[&str] = &["Proxy", "VIP"];

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn node(node: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen: Vec<(&Value, &Value)> = Vec::new();
    for (index, taint) in node["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        // The real server reports taints below `metadata`.
        let at = format!("metadata.taints[{index}]");
        for problem in label_key_problems(text(taint, &["key"])) {
            causes.push(Cause::invalid(format!("{at}.key"), &json!(text(taint, &["key"])), problem));
        }
        let effect = text(taint, &["effect"]);
        if effect.is_empty() {
            causes.push(Cause::required(format!("{at}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(Cause::not_supported(format!("{at}.effect"), &taint["effect"], EFFECTS));
        }
        if seen.contains(&(&taint["key"], &taint["effect"])) {
            let shown = format!(
                r#"{{"Key":{},"Value":{:?},"Effect":{},"TimeAdded":{}}}: taints must be unique by key and effect pair"#,
                taint["key"],
                text(taint, &["value"]),
                taint["effect"],
                taint["timeAdded"]
            );
            causes.push(Cause::duplicate(at, shown));
        }
        seen.push((&taint["key"], &taint["effect"]));
    }
    for (index, cidr) in node["spec"]["podCIDRs"].as_array().into_iter().flatten().enumerate() {
        if !is_cidr(cidr.as_str().unwrap_or_default()) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.podCIDRs[{index}]"), cidr, why));
        }
    }
    if !is_dual_stack(node["spec"]["podCIDRs"].as_array().map_or(&[], Vec::as_slice)) {
        let why = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid("spec.podCIDRs", &node["spec"]["podCIDRs"], why));
    }
    causes
}

/// Several CIDRs are one of each family.
fn is_dual_stack(cidrs: &[Value]) -> bool {
    let is_v6 = |cidr: &Value| cidr.as_str().is_some_and(|cidr| cidr.contains(':'));
    match cidrs {
        [] | [_] => true,
        [a, b] => is_v6(a) != is_v6(b),
        _ => false,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn node_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen = Vec::new();
    for (index, address) in new["status"]["addresses"].as_array().into_iter().flatten().enumerate() {
        if seen.contains(&address) {
            let shown = format!(r#"{{"Type":{},"Address":{}}}"#, address["type"], address["address"]);
            causes.push(Cause::duplicate(format!("status.addresses[{index}]"), shown));
        }
        seen.push(address);
    }
    let cidrs = |node: &Value| node["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    if !cidrs(old).is_empty() && cidrs(old) != cidrs(new) {
        causes.push(Cause::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
    let before = text(old, &["spec", "providerID"]);
    if !before.is_empty() && before != text(new, &["spec", "providerID"]) {
        causes.push(Cause::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    causes
}

fn service(service: &Value) -> Vec<Cause> {
    let spec = &service["spec"];
    let mut causes = Vec::new();
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    let kind = text(service, &["spec", "type"]);
    let headless = text(service, &["spec", "clusterIP"]) == "None";
    let ports = spec["ports"].as_array().cloned().unwrap_or_default();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if kind == "LoadBalancer" && headless {
        causes.push(Cause::invalid(
            "spec.clusterIPs[0]",
            &json!("None"),
            "may not be set to 'None' for LoadBalancer services",
        ));
    }
    for (index, port) in ports.iter().enumerate() {
        causes.extend(service_port(index, port, ports.len() > 1));
    }
    causes.extend(duplicate_ports(&ports));
    if !types.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &spec["type"], &types));
    }
    if kind != "LoadBalancer" {
        if !spec["loadBalancerClass"].is_null() {
            causes.push(Cause::forbidden(
                "spec.loadBalancerClass",
                "may only be used when `type` is 'LoadBalancer'",
            ));
        }
        if spec["loadBalancerSourceRanges"].as_array().is_some_and(|r| !r.is_empty()) {
            causes.push(Cause::forbidden(
                "spec.LoadBalancerSourceRanges",
                "may only be used when `type` is 'LoadBalancer'",
            ));
        }
    }
    causes
}

fn service_port(index: usize, port: &Value, name_required: bool) -> Vec<Cause> {
    let at = |field: &str| format!("spec.ports[{index}].{field}");
    let mut causes = Vec::new();
    if name_required && text(port, &["name"]).is_empty() {
        causes.push(Cause::required(at("name"), ""));
    }
    let number = port["port"].as_i64().unwrap_or_default();
    let in_range = |number: i64| (1..=65_535).contains(&number);
    if !in_range(number) {
        causes.push(Cause::invalid(at("port"), &json!(number), "must be between 1 and 65535, inclusive"));
    }
    let protocols = ["SCTP", "TCP", "UDP"];
    if !protocols.contains(&text(port, &["protocol"])) {
        causes.push(Cause::not_supported(at("protocol"), &port["protocol"], &protocols));
    }
    if let Some(target) = port["targetPort"].as_i64()
        && !in_range(target)
    {
        causes.push(Cause::invalid(
            at("targetPort"),
            &json!(target),
            "must be between 1 and 65535, inclusive",
        ));
    }
    causes
}

fn duplicate_ports(ports: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if ports[..index].iter().any(|other| same(&other)) {
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                port["protocol"], port["port"]
            );
            causes.push(Cause::duplicate(format!("spec.ports[{index}]"), shown));
        }
    }
    causes
}

fn service_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = |service: &Value| text(service, &["spec", "type"]).to_owned();
    let class = |service: &Value| service["spec"]["loadBalancerClass"].clone();
    if kind(old) == "LoadBalancer" && kind(new) == "LoadBalancer" && class(old) != class(new) {
        causes.push(Cause::invalid("spec.loadBalancerClass", &class(new), "may not change once set"));
    }
    let address = |service: &Value| text(service, &["spec", "clusterIP"]).to_owned();
    if kind(old) != "ExternalName"
        && kind(new) != "ExternalName"
        && !address(old).is_empty()
        && address(old) != address(new)
    {
        causes.push(Cause::invalid(
            "spec.clusterIPs[0]",
            &new["spec"]["clusterIPs"],
            "may not change once set",
        ));
    }
    causes
}

fn service_status(service: &Value) -> Vec<Cause> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    let mut causes = Vec::new();
    if !ingress.is_empty() && text(service, &["spec", "type"]) != "LoadBalancer" {
        causes.push(Cause::forbidden(
            "status.loadBalancer.ingress",
            "may only be used when `spec.type` is 'LoadBalancer'",
        ));
        return causes;
    }
    for (index, point) in ingress.iter().enumerate() {
        let at = |field: &str| format!("status.loadBalancer.ingress[{index}].{field}");
        if let Some(ip) = point["ip"].as_str()
            && ip.parse::<IpAddr>().is_err()
        {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.push(Cause::invalid(at("ip"), &point["ip"], why));
        }
        if let Some(name) = point["hostname"].as_str()
            && name.parse::<IpAddr>().is_ok()
        {
            causes.push(Cause::invalid(
                at("hostname"),
                &point["hostname"],
                "must be a DNS name, not an IP address",
            ));
        } else if let Some(name) = point["hostname"].as_str()
            && !is_dns_subdomain(name)
        {
            causes.push(Cause::invalid(at("hostname"), &point["hostname"], DNS_SUBDOMAIN));
        }
        if !point["ipMode"].is_null() && point["ip"].is_null() {
            causes.push(Cause::forbidden(at("ipMode"), "may not be specified when `ip` is not set"));
        } else if !point["ipMode"].is_null() && !IP_MODES.contains(&text(point, &["ipMode"])) {
            causes.push(Cause::not_supported(at("ipMode"), &point["ipMode"], IP_MODES));
        }
    }
    causes
}

fn lease(lease: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(seconds) = lease["spec"]["leaseDurationSeconds"].as_i64()
        && seconds <= 0
    {
        causes.push(Cause::invalid("spec.leaseDurationSeconds", &json!(seconds), "must be greater than 0"));
    }
    if let Some(transitions) = lease["spec"]["leaseTransitions"].as_i64()
        && transitions < 0
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", &json!(transitions), why));
    }
    causes
}

fn event(event: &Value) -> Vec<Cause> {
    let about = text(event, &["involvedObject", "namespace"]);
    let here = text(event, &["metadata", "namespace"]);
    // Events about cluster-scoped objects live in `default`.
    let fits = if about.is_empty() { here == "default" } else { about == here };
    if fits {
        return Vec::new();
    }
    let why = "does not match event.namespace";
    vec![Cause::invalid("involvedObject.namespace", &json!(about), why)]
}

fn storage_class_update(old: &Value, new: &Value) -> Vec<Cause> {
    ["parameters", "provisioner", "reclaimPolicy"]
        .into_iter()
        .filter(|field| old[*field] != new[*field])
        .map(|field| Cause::invalid(field, &new[field], "field is immutable"))
        .collect()
}

fn immutable_data(old: &Value, new: &Value) -> Vec<Cause> {
    if old["immutable"] != true {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in ["data", "binaryData"] {
        if old[field] != new[field] {
            causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
    causes
}

fn claim_update(old: &Value, new: &Value) -> Vec<Cause> {
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Value::Object(fields) = &mut spec {
            for free in ["resources", "volumeName", "volumeAttributesClassName", "storageClassName"] {
                fields.remove(free);
            }
        }
        spec
    };
    if fixed(old) == fixed(new) {
        return Vec::new();
    }
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    vec![Cause::forbidden("spec", why)]
}
