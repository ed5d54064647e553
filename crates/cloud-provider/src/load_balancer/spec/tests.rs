use k8s_openapi::serde_json::{self, json};
use rstest::rstest;

use super::*;
use crate::error::Decision;

fn read(spec: &serde_json::Value) -> Result<Spec, Error> {
    let service = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" }, "spec": spec });
    let service: Service = serde_json::from_value(service).unwrap();
    Spec::new(Arc::new(service), Vec::new(), &ClusterIdentity::default())
}

fn port(number: i32, protocol: &str) -> serde_json::Value {
    json!({ "port": number, "protocol": protocol, "nodePort": 30000 + number })
}

#[test]
fn a_plain_service_asks_for_nothing_special() {
    let spec = read(&json!({ "ports": [port(80, "TCP")] })).unwrap();
    assert!(spec.asks_for().is_empty());
    assert_eq!(spec.families, [Family::V4]);
    assert_eq!(spec.ports[0].node_port, Some(30080));
    assert_eq!(spec.identity.namespace, "shop");
}

#[rstest]
#[case(json!({ "ports": [port(80, "TCP")], "loadBalancerSourceRanges": ["10.0.0.0/8"] }), Feature::SourceRanges)]
#[case(json!({ "ports": [port(80, "TCP")], "sessionAffinity": "ClientIP" }), Feature::ClientIpAffinity)]
#[case(json!({ "ports": [port(53, "UDP")] }), Feature::Udp)]
#[case(json!({ "ports": [port(53, "SCTP")] }), Feature::Sctp)]
#[case(json!({ "ports": [port(53, "UDP"), port(53, "TCP")] }), Feature::MixedProtocols)]
#[case(json!({ "ports": [port(80, "TCP")], "externalTrafficPolicy": "Local" }), Feature::LocalTraffic)]
#[case(json!({ "ports": [port(80, "TCP")], "ipFamilies": ["IPv6"] }), Feature::Ipv6)]
#[case(json!({ "ports": [port(80, "TCP")], "ipFamilies": ["IPv4", "IPv6"] }), Feature::DualStack)]
#[case(json!({ "ports": [port(80, "TCP")], "loadBalancerIP": "192.0.2.1" }), Feature::RequestedAddress)]
#[case(json!({ "ports": [{ "port": 80 }] }), Feature::NoNodePorts)]
fn a_feature_that_the_provider_lacks_is_named(#[case] spec: serde_json::Value, #[case] feature: Feature) {
    let spec = read(&spec).unwrap();
    assert!(spec.asks_for().contains(&feature));
    assert!(spec.unsupported(&BTreeSet::new()).contains(&feature));
    assert!(spec.unsupported(&spec.asks_for()).is_empty());
}

/// Proves: SVC-63
#[test]
fn only_local_traffic_has_a_health_check() {
    let local =
        json!({ "ports": [port(80, "TCP")], "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000 });
    let check = HealthCheck { path: "/healthz".into(), port: 31000 };
    assert_eq!(read(&local).unwrap().health_check, Some(check));
    let cluster = json!({ "ports": [port(80, "TCP")], "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 31000 });
    assert_eq!(read(&cluster).unwrap().health_check, None);
}

#[rstest]
#[case(json!({ "ports": [{ "port": 70000 }] }), "spec.ports[].port")]
#[case(json!({ "ports": [{ "port": 80, "protocol": "QUIC" }] }), "QUIC")]
#[case(json!({ "ports": [], "loadBalancerIP": "a.b.c.d" }), "spec.loadBalancerIP")]
#[case(json!({ "ports": [], "loadBalancerSourceRanges": ["10.0.0.1"] }), "spec.loadBalancerSourceRanges")]
fn what_cannot_be_read_names_the_field(#[case] spec: serde_json::Value, #[case] field: &str) {
    let error = read(&spec).unwrap_err();
    assert_eq!(error.decision(), &Decision::InvalidConfig);
    assert!(error.to_string().contains(field), "{error}");
}

#[test]
fn affinity_has_the_timeout_of_the_service_or_three_hours() {
    let default = read(&json!({ "ports": [], "sessionAffinity": "ClientIP" })).unwrap();
    assert_eq!(default.affinity, Affinity::ClientIp(Duration::from_secs(10_800)));
    let config = json!({ "clientIP": { "timeoutSeconds": 90 } });
    let given = read(&json!({ "ports": [], "sessionAffinity": "ClientIP", "sessionAffinityConfig": config }))
        .unwrap();
    assert_eq!(given.affinity, Affinity::ClientIp(Duration::from_secs(90)));
}
