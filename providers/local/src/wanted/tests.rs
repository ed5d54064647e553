use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{ClusterIdentity, Decision};
use k8s_openapi::api::core::v1::{ClientIPConfig, Service, SessionAffinityConfig};
use testkit::builders::{ServiceBuilder, node, service};

use super::*;

fn web() -> ServiceBuilder {
    service("web").namespace("default").uid("u-1").load_balancer().port(80).on_node_port(30080)
}

fn nodes() -> Vec<Arc<Node>> {
    let nodes = [
        node("a")
            .address("Hostname", "a")
            .address("ExternalIP", "203.0.113.1")
            .address("InternalIP", "10.0.0.1"),
        node("b").address("InternalIP", "2001:db8::2").address("InternalIP", "10.0.0.2"),
        node("c").address("ExternalIP", "203.0.113.3"),
        node("nameless").address("Hostname", "nameless"),
        node("twin-of-a").address("InternalIP", "10.0.0.1"),
    ];
    nodes.into_iter().map(|node| Arc::new(node.into())).collect()
}

fn wanted(service: impl Into<Service>) -> Balancer {
    let spec = Spec::new(Arc::new(service.into()), nodes(), &ClusterIdentity::default()).unwrap();
    let asked = Asked::of(&spec.service).unwrap();
    balancer(&spec, &asked, &["192.0.2.7".parse().unwrap()], Forwarding::UserSpace).unwrap()
}

/// The same for a data plane in the kernel.
fn wanted_of_the_kernel(service: impl Into<Service>) -> Balancer {
    let spec = Spec::new(Arc::new(service.into()), nodes(), &ClusterIdentity::default()).unwrap();
    let asked = Asked::of(&spec.service).unwrap();
    balancer(&spec, &asked, &["192.0.2.7".parse().unwrap()], Forwarding::Kernel).unwrap()
}

fn sockets(balancer: &Balancer, key: PortKey) -> Vec<String> {
    balancer.ports[&key].backends.iter().map(ToString::to_string).collect()
}

#[test]
fn each_node_with_an_address_is_a_backend_once() {
    let balancer = wanted(web());
    let expected = ["a (10.0.0.1:30080)", "b (10.0.0.2:30080)", "c (203.0.113.3:30080)"];
    assert_eq!(sockets(&balancer, PortKey::tcp(80)), expected);
    assert_eq!(balancer.settings.health_check.probe, Probe::Tcp);
}

#[test]
fn an_ipv6_service_reaches_nodes_by_ipv6_where_they_have_it() {
    let mut service: Service = web().into();
    service.spec.as_mut().unwrap().ip_families = Some(vec!["IPv6".into()]);
    let balancer = wanted(service);
    assert_eq!(sockets(&balancer, PortKey::tcp(80))[..2], ["a (10.0.0.1:30080)", "b ([2001:db8::2]:30080)"]);
}

#[test]
fn a_local_service_asks_its_health_check_port_and_a_person_may_say_otherwise() {
    let local = |annotation: Option<&str>| {
        let builder =
            annotation.map_or_else(web, |value| web().annotation("local.nephos/health-check", value));
        let mut service: Service = builder.into();
        let spec = service.spec.as_mut().unwrap();
        spec.external_traffic_policy = Some("Local".into());
        spec.health_check_node_port = Some(32100);
        wanted(service).settings
    };
    let settings = local(None);
    assert_eq!(settings.traffic_policy, TrafficPolicy::Local);
    assert_eq!(settings.health_check.probe, Probe::Http { port: 32100, path: "/healthz".into() });
    assert_eq!(local(Some("tcp")).health_check.probe, Probe::Tcp);
    assert_eq!(local(Some("none")).health_check.probe, Probe::None);
}

#[test]
fn affinity_and_source_ranges_are_those_of_the_service() {
    let mut service: Service = web().source_range("10.0.0.0/8").into();
    let spec = service.spec.as_mut().unwrap();
    spec.session_affinity = Some("ClientIP".into());
    let client_ip = Some(ClientIPConfig { timeout_seconds: Some(600) });
    spec.session_affinity_config = Some(SessionAffinityConfig { client_ip });
    let settings = wanted(service).settings;
    assert_eq!(settings.affinity, Affinity::ClientIp { timeout: Duration::from_secs(600) });
    assert_eq!(settings.source_ranges, ["10.0.0.0/8".parse().unwrap()].into());
    assert!(wanted(web()).settings.source_ranges.is_empty(), "everybody is no filter");
}

#[test]
fn new_backends_change_nothing_else() {
    let held = wanted(web());
    let other = web().port(9090).on_node_port(31090).annotation("local.nephos/balance", "source-hash");
    let one = vec![Arc::clone(&nodes()[1])];
    let spec = Spec::new(Arc::new(other.into()), one, &ClusterIdentity::default()).unwrap();
    let changed = with_backends(&held, &spec, Forwarding::UserSpace).unwrap();
    assert_eq!(sockets(&changed, PortKey::tcp(80)), ["b (10.0.0.2:30080)"]);
    assert_eq!(Balancer { ports: held.ports.clone(), ..changed }, held);
}

#[test]
fn in_the_kernel_a_node_is_behind_each_family_that_it_has_and_never_behind_another() {
    let with = |families: &[&str]| {
        let mut service: Service = web().into();
        service.spec.as_mut().unwrap().ip_families =
            Some(families.iter().map(|family| (*family).to_owned()).collect());
        sockets(&wanted_of_the_kernel(service), PortKey::tcp(80))
    };
    assert_eq!(with(&["IPv6"]), ["b ([2001:db8::2]:30080)"]);
    let both =
        ["a (10.0.0.1:30080)", "b (10.0.0.2:30080)", "b ([2001:db8::2]:30080)", "c (203.0.113.3:30080)"];
    assert_eq!(with(&["IPv4", "IPv6"]), both);
    assert_eq!(with(&["IPv6", "IPv4"]), both);
}

#[test]
fn without_node_ports_the_kernel_passes_on_unmodified_and_keeps_to_that_when_nodes_change() {
    let service = service("web").namespace("default").uid("u-1").load_balancer().port(80);
    let wanted = wanted_of_the_kernel(service.clone());
    let port = &wanted.ports[&PortKey::tcp(80)];
    assert_eq!(port.delivery, Delivery::Unmodified);
    assert_eq!(sockets(&wanted, PortKey::tcp(80))[0], "a (10.0.0.1:80)");
    let mut without_nodes = wanted.clone();
    without_nodes.ports.get_mut(&PortKey::tcp(80)).unwrap().backends.clear();
    let spec = Spec::new(Arc::new(service.into()), nodes(), &ClusterIdentity::default()).unwrap();
    assert_eq!(with_backends(&without_nodes, &spec, Forwarding::Kernel).unwrap(), wanted);
}

#[test]
fn the_kernel_asks_each_nodes_proxy_once_for_all_balancers() {
    let expected = Probe::Http { port: 10256, path: "/healthz".to_owned() };
    assert_eq!(wanted_of_the_kernel(web()).settings.health_check.probe, expected);
    let tcp = web().annotation("local.nephos/health-check", "tcp");
    assert_eq!(wanted_of_the_kernel(tcp).settings.health_check.probe, Probe::Tcp);
}

/// A Service without node ports, and its pods.
fn direct(pods: Option<&[&str]>) -> Spec {
    let mut service: Service = web().into();
    let spec = service.spec.as_mut().unwrap();
    spec.ports.as_mut().unwrap()[0].node_port = None;
    spec.external_traffic_policy = Some("Local".into());
    spec.health_check_node_port = Some(32000);
    let endpoints = pods.map(|pods| {
        let pods: Vec<_> =
            pods.iter().map(|ip| serde_json::json!({"addresses": [ip], "nodeName": "b"})).collect();
        let slice = serde_json::json!({
            "metadata": {}, "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": pods,
        });
        contract::Endpoints::of([&serde_json::from_value(slice).unwrap()])
    });
    Spec::new(Arc::new(service), nodes(), &ClusterIdentity::default()).unwrap().with_endpoints(endpoints)
}

#[test]
fn without_node_ports_user_space_goes_to_the_pods_and_asks_them_whether_they_serve() {
    let spec = direct(Some(&["10.1.0.1", "10.1.0.2"]));
    let asked = Asked::of(&spec.service).unwrap();
    let wanted = balancer(&spec, &asked, &["192.0.2.7".parse().unwrap()], Forwarding::UserSpace).unwrap();
    assert_eq!(sockets(&wanted, PortKey::tcp(80)), ["b (10.1.0.1:8080)", "b (10.1.0.2:8080)"]);
    assert_eq!(wanted.ports[&PortKey::tcp(80)].delivery, Delivery::Rewritten);
    assert_eq!(wanted.settings.health_check.probe, Probe::Tcp, "no pod listens at the health check port");

    let fewer = with_backends(&wanted, &direct(Some(&["10.1.0.3"])), Forwarding::UserSpace).unwrap();
    assert_eq!(sockets(&fewer, PortKey::tcp(80)), ["b (10.1.0.3:8080)"]);
    let none = with_backends(&wanted, &direct(Some(&[])), Forwarding::UserSpace).unwrap();
    assert!(sockets(&none, PortKey::tcp(80)).is_empty());
}

#[test]
fn pods_that_are_not_known_yet_are_waited_for() {
    let spec = direct(None);
    let asked = Asked::of(&spec.service).unwrap();
    let error = balancer(&spec, &asked, &["192.0.2.7".parse().unwrap()], Forwarding::UserSpace).unwrap_err();
    assert!(matches!(error.decision(), Decision::RetryAfter { .. }), "{error:?}");
    assert!(error.report().contains("port 80, which has no node port"), "{}", error.report());
}
