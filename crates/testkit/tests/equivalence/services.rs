//! Defaults, allocations and rules of Services.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use testkit::service;
use testkit::story::{Patch, Story};

crate::stories![
    a_plain_service_gets_its_defaults,
    a_load_balancer_gets_node_ports,
    a_load_balancer_without_node_ports,
    a_local_load_balancer_gets_a_health_check_port,
    a_headless_service_gets_no_address,
    an_external_name_gets_no_address,
    a_replacement_keeps_what_was_allocated,
    becoming_a_load_balancer_and_back,
    local_traffic_and_back,
    an_address_is_not_changed,
    a_service_needs_ports,
    several_ports_need_names,
    a_port_number_has_bounds,
    a_port_stands_once,
    session_affinity_gets_a_timeout,
    source_ranges_belong_to_load_balancers,
    an_unknown_type_is_refused,
];

async fn a_plain_service_gets_its_defaults(s: &mut Story) {
    s.create::<Service>(service("a").port(80).selecting("app", "web"))
        .await
        .has("/spec/type", "ClusterIP")
        .has("/spec/ports/0/protocol", "TCP")
        .has("/spec/ports/0/targetPort", 80);
}

async fn a_load_balancer_gets_node_ports(s: &mut Story) {
    let made =
        s.create::<Service>(service("a").load_balancer().named_port("x", 80).named_port("y", 443)).await;
    assert_ne!(made.at("/spec/ports/0/nodePort"), made.at("/spec/ports/1/nodePort"));
    made.has("/spec/allocateLoadBalancerNodePorts", true);
}

async fn a_load_balancer_without_node_ports(s: &mut Story) {
    let spec =
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]});
    s.create_raw::<Service>(json!({"metadata": {"name": "a"}, "spec": spec}))
        .await
        .lacks("/spec/ports/0/nodePort");
}

async fn a_local_load_balancer_gets_a_health_check_port(s: &mut Story) {
    let made = s.create::<Service>(service("a").load_balancer().local_traffic().port(80)).await;
    assert!(made.at("/spec/healthCheckNodePort").is_u64());
}

async fn a_headless_service_gets_no_address(s: &mut Story) {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": "web"}});
    s.create_raw::<Service>(json!({"metadata": {"name": "a"}, "spec": spec}))
        .await
        .has("/spec/clusterIP", "None");
}

async fn an_external_name_gets_no_address(s: &mut Story) {
    let spec = json!({"type": "ExternalName", "externalName": "example.com"});
    s.create_raw::<Service>(json!({"metadata": {"name": "a"}, "spec": spec})).await.lacks("/spec/clusterIP");
}

async fn a_replacement_keeps_what_was_allocated(s: &mut Story) {
    let made = s.create::<Service>(service("a").load_balancer().port(80)).await.succeeds();
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": 8080}]});
    let body = json!({"metadata": {"name": "a"}, "spec": spec});
    let after = s.put::<Service>("a", body).await.succeeds();
    assert_eq!(made.at("/spec/clusterIP"), after.at("/spec/clusterIP"));
    assert_eq!(made.at("/spec/ports/0/nodePort"), after.at("/spec/ports/0/nodePort"));
}

async fn becoming_a_load_balancer_and_back(s: &mut Story) {
    s.create::<Service>(service("a").port(80)).await.succeeds();
    let becoming = |kind: &str| Patch::Merge(json!({"spec": {"type": kind}}));
    s.patch::<Service>("a", becoming("LoadBalancer")).await.succeeds();
    s.patch::<Service>("a", becoming("NodePort")).await.succeeds();
    s.patch::<Service>("a", becoming("ClusterIP")).await.lacks("/spec/ports/0/nodePort");
}

async fn local_traffic_and_back(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().port(80)).await.succeeds();
    let policy = |policy: &str| Patch::Merge(json!({"spec": {"externalTrafficPolicy": policy}}));
    s.patch::<Service>("a", policy("Local")).await.succeeds();
    s.patch::<Service>("a", policy("Cluster")).await.lacks("/spec/healthCheckNodePort");
}

async fn an_address_is_not_changed(s: &mut Story) {
    s.create::<Service>(service("a").port(80)).await.succeeds();
    s.patch::<Service>("a", Patch::Merge(json!({"spec": {"clusterIP": "None"}})))
        .await
        .is_refused(422, "Invalid");
}

async fn a_service_needs_ports(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer()).await.is_refused(422, "Invalid");
}

async fn several_ports_need_names(s: &mut Story) {
    s.create::<Service>(service("a").port(80).port(443)).await.is_refused(422, "Invalid");
}

async fn a_port_number_has_bounds(s: &mut Story) {
    s.create::<Service>(service("a").port(0)).await.is_refused(422, "Invalid");
    s.create::<Service>(service("a").port(70_000)).await.is_refused(422, "Invalid");
    s.create::<Service>(service("a").port(80).protocol("IP")).await.is_refused(422, "Invalid");
}

async fn a_port_stands_once(s: &mut Story) {
    s.create::<Service>(service("a").named_port("x", 80).named_port("y", 80))
        .await
        .is_refused(422, "Invalid");
    s.create::<Service>(service("b").named_port("x", 80).named_port("y", 80).protocol("UDP"))
        .await
        .succeeds();
}

async fn session_affinity_gets_a_timeout(s: &mut Story) {
    let spec = json!({"sessionAffinity": "ClientIP", "ports": [{"port": 80}]});
    s.create_raw::<Service>(json!({"metadata": {"name": "a"}, "spec": spec}))
        .await
        .has("/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 10_800);
    s.patch::<Service>("a", Patch::Merge(json!({"spec": {"sessionAffinity": "None"}})))
        .await
        .lacks("/spec/sessionAffinityConfig");
}

async fn source_ranges_belong_to_load_balancers(s: &mut Story) {
    s.create::<Service>(service("a").load_balancer().port(80).source_range("192.0.2.0/24")).await.succeeds();
    s.create::<Service>(service("b").cluster_ip().port(80).source_range("192.0.2.0/24")).await;
}

async fn an_unknown_type_is_refused(s: &mut Story) {
    let spec = json!({"type": "Anything", "ports": [{"port": 80}]});
    s.create_raw::<Service>(json!({"metadata": {"name": "a"}, "spec": spec}))
        .await
        .is_refused(422, "Invalid");
}
