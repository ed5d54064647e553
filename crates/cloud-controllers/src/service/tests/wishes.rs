use cloud_provider::load_balancer::{Annotation, AnnotationType, Description};
use k8s_openapi::api::core::v1::{
    ClientIPConfig, LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rstest::rstest;
use testkit::{EPOCH, service};

use crate::service::wish::{self, Terms};

pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

const READ: &[Annotation] = &[Annotation {
    key: "cloud/idle",
    type_: AnnotationType::Duration,
    default: "",
    about: "After how long a silence a connection is ended.",
}];

pub(super) fn terms() -> Terms {
    let description = Description::default().owning(["provider/own".to_owned()]).reading(READ);
    Terms::new(&description, &["added/own".to_owned()])
}

pub(super) fn web() -> Service {
    service("web").uid("u1").load_balancer().named_port("http", 80).on_node_port(30080).build()
}

/// Proves: SVC-6
#[rstest]
#[case(web(), true)]
#[case(service("web").load_balancer().class("provider/own").build(), true)]
#[case(service("web").load_balancer().class("added/own").build(), true)]
#[case(service("web").load_balancer().class("another/one").build(), false)]
#[case(service("web").node_port().build(), false)]
#[case(service("web").cluster_ip().build(), false)]
#[case(Service::default(), false)]
fn a_load_balancer_without_a_class_or_with_one_of_ours_counts(
    #[case] service: Service,
    #[case] counts: bool,
) {
    assert_eq!(wish::wants(&service, &terms()), counts);
}

type Edit = fn(&mut Service);

fn spec(service: &mut Service) -> &mut k8s_openapi::api::core::v1::ServiceSpec {
    service.spec.get_or_insert_default()
}

fn port(service: &mut Service) -> &mut ServicePort {
    &mut spec(service).ports.get_or_insert_default()[0]
}

fn annotate(service: &mut Service, key: &str, value: &str) {
    service.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Proves: SVC-10, SVC-13, SVC-14, WEAK-4
#[rstest]
#[case::kind("type", |s: &mut Service| spec(s).type_ = Some("ClusterIP".into()), true)]
#[case::class("class", |s: &mut Service| spec(s).load_balancer_class = Some("another/one".into()), true)]
#[case::ranges("source ranges", |s: &mut Service| spec(s).load_balancer_source_ranges = Some(vec!["10.0.0.0/8".into()]), true)]
#[case::no_ranges("empty source ranges", |s: &mut Service| spec(s).load_balancer_source_ranges = Some(vec![]), false)]
#[case::more_ports("ports", |s: &mut Service| spec(s).ports.get_or_insert_default().push(ServicePort { port: 443, ..ServicePort::default() }), true)]
#[case::port_name("port name", |s: &mut Service| port(s).name = Some("www".into()), true)]
#[case::protocol("protocol", |s: &mut Service| port(s).protocol = Some("UDP".into()), true)]
#[case::default_protocol("default protocol", |s: &mut Service| port(s).protocol = Some("TCP".into()), false)]
#[case::port("port", |s: &mut Service| port(s).port = 81, true)]
#[case::node_port("node port", |s: &mut Service| port(s).node_port = Some(30081), true)]
#[case::target("target port", |s: &mut Service| port(s).target_port = Some(IntOrString::Int(8080)), true)]
#[case::app("app protocol", |s: &mut Service| port(s).app_protocol = Some("http".into()), true)]
#[case::affinity("session affinity", |s: &mut Service| spec(s).session_affinity = Some("ClientIP".into()), true)]
#[case::no_affinity("no session affinity", |s: &mut Service| spec(s).session_affinity = Some("None".into()), false)]
#[case::affinity_config("session affinity config", |s: &mut Service| {
    spec(s).session_affinity = Some("ClientIP".into());
    spec(s).session_affinity_config =
        Some(SessionAffinityConfig { client_ip: Some(ClientIPConfig { timeout_seconds: Some(5) }) });
}, true)]
#[case::ip("loadBalancerIP", |s: &mut Service| spec(s).load_balancer_ip = Some("192.0.2.1".into()), true)]
#[case::external("externalIPs", |s: &mut Service| spec(s).external_ips = Some(vec!["192.0.2.1".into()]), true)]
#[case::read("an annotation that is read", |s: &mut Service| annotate(s, "cloud/idle", "5s"), true)]
#[case::ranges_annotation("the annotation of source ranges", |s: &mut Service| annotate(s, "service.beta.kubernetes.io/load-balancer-source-ranges", "10.0.0.0/8"), true)]
#[case::unread("an annotation that nobody reads", |s: &mut Service| annotate(s, "team/owner", "shop"), false)]
#[case::policy("traffic policy", |s: &mut Service| spec(s).external_traffic_policy = Some("Local".into()), true)]
#[case::health("health check port", |s: &mut Service| spec(s).health_check_node_port = Some(30099), true)]
#[case::families("families", |s: &mut Service| spec(s).ip_families = Some(vec!["IPv4".into(), "IPv6".into()]), true)]
#[case::family("one family for another", |s: &mut Service| spec(s).ip_families = Some(vec!["IPv6".into()]), true)]
#[case::going("deletion", |s: &mut Service| s.metadata.deletion_timestamp = Some(Time(EPOCH)), true)]
#[case::finalizer("a lost finalizer", |s: &mut Service| s.metadata.finalizers = None, true)]
#[case::status("a lost address", |s: &mut Service| s.status = None, true)]
#[case::other_finalizer("another's finalizer", |s: &mut Service| s.metadata.finalizers.get_or_insert_default().push("x/y".into()), false)]
#[case::labels("labels", |s: &mut Service| s.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()), false)]
#[case::selector("selector", |s: &mut Service| spec(s).selector = Some([("a".to_owned(), "b".to_owned())].into()), false)]
#[case::cluster_ip("clusterIP", |s: &mut Service| spec(s).cluster_ip = Some("10.0.0.1".into()), false)]
#[case::internal("internal traffic policy", |s: &mut Service| spec(s).internal_traffic_policy = Some("Local".into()), false)]
#[case::distribution("traffic distribution", |s: &mut Service| spec(s).traffic_distribution = Some("PreferClose".into()), false)]
#[case::unready("unready addresses", |s: &mut Service| spec(s).publish_not_ready_addresses = Some(true), false)]
#[case::conditions("conditions", |s: &mut Service| {
    let condition = Condition {
        type_: "Any".into(),
        status: "True".into(),
        reason: "Any".into(),
        message: String::new(),
        last_transition_time: Time(EPOCH),
        observed_generation: None,
    };
    s.status.get_or_insert_default().conditions = Some(vec![condition]);
}, false)]
fn an_edit_means_work_only_if_the_balancer_would_be_another_one(
    #[case] what: &str,
    #[case] edit: Edit,
    #[case] matters: bool,
) {
    let mut old = web();
    old.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let ingress = LoadBalancerIngress { ip: Some("203.0.113.1".into()), ..LoadBalancerIngress::default() };
    old.status.get_or_insert_default().load_balancer =
        Some(LoadBalancerStatus { ingress: Some(vec![ingress]) });
    spec(&mut old).ip_families = Some(vec!["IPv4".into()]);
    let mut new = old.clone();
    edit(&mut new);
    assert_ne!(old, new, "{what}");
    assert_eq!(wish::matters(&old, &new, &terms()), matters, "{what}");
}

#[test]
fn no_edit_of_a_service_that_never_wanted_a_balancer_means_work() {
    let old = service("web").cluster_ip().port(80).build();
    let mut new = old.clone();
    port(&mut new).port = 81;
    annotate(&mut new, "cloud/idle", "5s");
    assert!(!wish::matters(&old, &new, &terms()));
}

#[test]
fn a_held_service_of_anothers_class_that_stops_being_a_load_balancer_means_work() {
    let mut old = service("web").load_balancer().class("another/one").port(80).build();
    old.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let mut new = old.clone();
    spec(&mut new).type_ = Some("ClusterIP".into());
    spec(&mut new).load_balancer_class = None;
    assert!(wish::matters(&old, &new, &terms()), "nobody else takes the finalizer away");
}

#[test]
fn another_object_of_the_same_name_means_work() {
    let old = web();
    let mut new = old.clone();
    new.metadata.uid = Some("u2".into());
    assert!(wish::matters(&old, &new, &terms()));
}
