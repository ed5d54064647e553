//! New Services get their load balancers, or a reason why not.

use std::time::Duration;

use cloud_controllers::service::{Settings, Unsupported};
use cloud_provider::Error;
use cloud_provider::load_balancer::Feature;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, PortStatus};
use provider_fake::config::{IpMode, Quotas};
use provider_fake::{Config, Effect, Fault, Operation};
use testkit::{Fault as ApiFault, Verb, When, service};
use tokio::time::sleep;

use crate::between::Instead;
use crate::stage::{FINALIZER, Stage, secs};

fn stage() -> Stage {
    Stage::new(1, Config::default())
}

/// Proves: SVC-5, SVC-17, SVC-27, SVC-28, SVC-29, SVC-34, SVC-36, SVC-40, SVC-64, WIRE-7, WIRE-8, COST-7
#[tokio::test(start_paused = true)]
async fn a_new_service_costs_one_ensure_two_patches_and_two_events() {
    let stage = Stage::new(1, Config { ip_mode: Some(IpMode::Proxy), ..Config::default() });
    let process = stage.start(Settings::default());
    let server = stage.server.clone();
    stage.world.on_call(move |call| {
        let held =
            server.get::<k8s_openapi::api::core::v1::Service>("default", "web").unwrap().metadata.finalizers;
        assert_eq!(held.unwrap_or_default(), [FINALIZER], "before {}", call.operation);
    });
    stage.server.create(&service("web").load_balancer().port(80).build());
    let took = stage.until(secs(5), "an address", |stage| !stage.addresses("web").is_empty()).await;
    assert!(took < secs(1), "{took:?}");
    sleep(secs(60)).await;

    assert_eq!(stage.addresses("web"), [("198.18.0.1".to_owned(), Some("Proxy".to_owned()))]);
    assert!(stage.is_held("web"));
    let [balancer] = &stage.balancers()[..] else { panic!("{:?}", stage.balancers()) };
    assert_eq!(balancer.backends, ["a".to_owned(), "b".to_owned()].into());
    assert_eq!(stage.script.count("ensure"), 1);
    let writes = stage.writes();
    assert_eq!(writes.count(), 2, "{writes}");
    for write in &writes {
        assert_eq!((write.verb, write.subresource.as_str()), (Verb::Patch, "status"));
        assert_eq!(write.content_type, "application/strategic-merge-patch+json");
        assert_eq!(write.body["metadata"]["resourceVersion"], serde_json::Value::Null);
    }
    assert_eq!(stage.reasons("web"), ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
    let sources = stage.events_about("web").into_iter().map(|event| event.source.unwrap().component.unwrap());
    assert!(sources.into_iter().all(|component| component == "service-controller"));
    assert_eq!(
        process.metric("service_controller_ensure_loadbalancer_seconds_count{result=\"success\"}"),
        Some(1.0)
    );
    assert_eq!(process.metric("service_controller_first_call_delay_seconds_count"), Some(1.0));
    assert_eq!(process.metric("service_controller_provisioning_delay_seconds_count"), Some(1.0));
    stage.assert_sound();
}

#[test]
fn a_cloud_without_balancers_is_refused_with_upstreams_sentence() {
    use cloud_controllers::around::{Budget, Deadlines, Metrics, budget, surround};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let metrics = Metrics::unregistered();
        let budget = Budget::new("bare", budget::Settings::default(), &metrics);
        let cloud = surround(cloud_provider::Cloud::new("bare"), budget, Deadlines::default(), &metrics);
        let refused = cloud_controllers::service::Balancers::of(&cloud).unwrap_err();
        assert_eq!(refused.to_string(), "the cloud provider does not support external load balancers");
    });
}

/// Proves: SVC-2
#[test]
fn the_controllers_names_are_upstreams() {
    assert_eq!(cloud_controllers::service::NAME, "service-lb-controller");
    assert_eq!(cloud_controllers::service::RUNNING_NAME, "service");
    a_cloud_without_balancers_is_refused_with_upstreams_sentence();
}

/// Proves: SVC-29
#[tokio::test(start_paused = true)]
async fn without_nodes_the_balancer_is_made_and_the_user_is_warned() {
    let stage = stage();
    for name in ["a", "b"] {
        stage.server.delete::<k8s_openapi::api::core::v1::Node>("", name);
    }
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.provisioned("web").await;
    sleep(secs(5)).await;
    let message = stage.message("web", "UnAvailableLoadBalancer").unwrap();
    assert_eq!(message, "There are no available nodes for LoadBalancer");
    assert!(stage.balancers()[0].backends.is_empty());
}

/// Proves: SVC-28
#[tokio::test(start_paused = true)]
async fn without_the_finalizer_the_cloud_hears_nothing() {
    let stage = stage();
    stage.server.faults().always(When::verb(Verb::Patch).kind("Service"), ApiFault::Forbidden);
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    sleep(secs(120)).await;
    assert_eq!(stage.world.counters().total(), 0);
    let message = stage.message("web", "SyncLoadBalancerFailed").unwrap();
    assert!(message.contains("grant this manager's service account patch on services/status"), "{message}");
    stage.server.faults().clear();
    stage.until(secs(300), "an address", |stage| !stage.addresses("web").is_empty()).await;
}

/// Proves: SVC-3, SVC-19, SVC-32, SVC-42
#[tokio::test(start_paused = true)]
async fn a_failure_is_told_once_with_a_reason_and_tried_again_ever_more_slowly() {
    let stage = stage();
    stage.world.inject(Fault::new("create_load_balancer", Effect::Quota)).unwrap();
    let process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    sleep(secs(120)).await;
    let calls = stage.script.calls_for("web");
    let gaps: Vec<u64> = calls.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32], "from 1 s, doubling");
    let message = stage.message("web", "SyncLoadBalancerFailed").unwrap();
    assert!(
        message.starts_with("Error syncing load balancer: failed to ensure load balancer: "),
        "{message}"
    );
    assert!(message.contains("make room in the account"), "{message}");
    assert_eq!(stage.reasons("web"), ["EnsuringLoadBalancer", "SyncLoadBalancerFailed"]);
    let (status, reason, _) = stage.condition("web", "LoadBalancerProvisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "QuotaExceeded"));
    assert!(stage.is_held("web"), "an address is reserved already");
    assert_eq!(process.metric("service_controller_failures_total{reason=\"QuotaExceeded\"}"), Some(7.0));

    stage.world.clear_faults();
    stage.until(secs(70), "an address", |stage| !stage.addresses("web").is_empty()).await;
    let (status, reason, _) = stage.condition("web", "LoadBalancerProvisioned").unwrap();
    assert_eq!((&*status, &*reason), ("True", "Provisioned"));
    stage.assert_sound();
}

/// Proves: SVC-41
#[tokio::test(start_paused = true)]
async fn a_balancer_that_is_being_built_is_waited_for_without_a_worker_and_without_a_warning() {
    let stage = Stage::new(1, Config { balancer_ready_after: secs(60), ..Config::default() });
    let settings = Settings { workers: 1, ..Settings::default() };
    let _process = stage.start(settings);
    for name in ["one", "two", "three"] {
        stage.server.create(&service(name).load_balancer().port(80).build());
    }
    sleep(secs(1)).await;
    assert_eq!(stage.balancers().len(), 3, "the only worker waits for none of them");
    sleep(secs(30)).await;
    let (status, reason, message) = stage.condition("one", "LoadBalancerProvisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "Pending"));
    assert!(message.contains("is still being built"), "{message}");
    assert!(stage.has_event("one", "LoadBalancerPending"));
    assert!(!stage.has_event("one", "SyncLoadBalancerFailed"));
    for name in ["one", "two", "three"] {
        stage.until(secs(40), "an address", |stage| !stage.addresses(name).is_empty()).await;
    }
    let calls = stage.script.calls_for("two").len();
    assert!(calls <= 15, "looked at when the cloud said, not more often: {calls}");
    stage.assert_sound();
}

/// Proves: SVC-31, SVC-52
#[tokio::test(start_paused = true)]
async fn what_another_controller_implements_is_success_even_wrapped_and_gets_no_status() {
    let stage = stage();
    let elsewhere = || Error::implemented_elsewhere("this class is another's").context("asking the vendor");
    stage.script.always("ensure", elsewhere);
    stage.script.always("update", elsewhere);
    stage.script.always("delete", elsewhere);
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    sleep(secs(5)).await;
    stage.add_node("c", "10.0.0.3");
    sleep(secs(60)).await;
    assert_eq!((stage.script.count("ensure"), stage.script.count("update")), (1, 1), "no retry");
    assert!(stage.is_held("web") && stage.addresses("web").is_empty());
    assert_eq!(stage.reasons("web"), ["EnsuringLoadBalancer"]);
    stage.server.delete::<k8s_openapi::api::core::v1::Service>("default", "web");
    stage.gone("web").await;
}

/// Proves: SVC-33
#[tokio::test(start_paused = true)]
async fn an_answer_without_an_address_clears_nothing() {
    let stage = stage();
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.provisioned("web").await;
    stage.script.once("ensure", Instead::Status(LoadBalancerStatus::default()));
    stage.edit("web", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 81);
    stage.until(secs(5), "the edit", |stage| stage.script.count("ensure") == 2).await;
    assert!(!stage.addresses("web").is_empty());
    stage.until(secs(5), "the next try", |stage| stage.balancers()[0].settings.listeners[0].port == 81).await;
    assert!(!stage.addresses("web").is_empty());
}

/// Proves: SVC-34
#[tokio::test(start_paused = true)]
async fn modes_ports_and_hostnames_of_an_answer_reach_the_status() {
    let stage = stage();
    let port = PortStatus { port: 80, protocol: "TCP".into(), error: None };
    let points = [
        LoadBalancerIngress {
            ip: Some("203.0.113.9".into()),
            ip_mode: Some("Proxy".into()),
            ports: Some(vec![port]),
            ..LoadBalancerIngress::default()
        },
        LoadBalancerIngress { hostname: Some("lb.example.com".into()), ..LoadBalancerIngress::default() },
    ];
    stage.script.once("ensure", Instead::Status(LoadBalancerStatus { ingress: Some(points.to_vec()) }));
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.provisioned("web").await;
    let status = stage.service("web").unwrap().status.unwrap().load_balancer.unwrap();
    assert_eq!(status.ingress.unwrap(), points);
}

/// Proves: SVC-35, SVC-38
#[tokio::test(start_paused = true)]
async fn a_status_that_could_not_be_written_is_written_later_and_the_cloud_is_not_asked_again() {
    let stage = stage();
    let _process = stage.start(Settings::default());
    stage.world.on_call({
        let server = stage.server.clone();
        move |call| {
            if call.operation == Operation::CreateLoadBalancer {
                let status = When::verb(Verb::Patch).kind("Service").times(3);
                server.faults().always(status, ApiFault::InternalError);
            }
        }
    });
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.provisioned("web").await;
    sleep(secs(30)).await;
    assert_eq!(stage.script.count("ensure"), 1);
    assert!(stage.is_held("web"));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_provider_does_not_support_is_refused_and_never_left_out_silently() {
    let stage = stage();
    stage.script.lacks(Feature::SourceRanges);
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).source_range("10.0.0.0/8").build());
    sleep(secs(600)).await;
    assert_eq!(stage.world.counters().total(), 0, "nothing is open to everybody");
    assert!(!stage.is_held("web"));
    let message = stage.message("web", "SyncLoadBalancerFailed").unwrap();
    assert!(message.contains("do not support spec.loadBalancerSourceRanges"), "{message}");
    let (status, reason, _) = stage.condition("web", "LoadBalancerProvisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "UnsupportedField"));
    stage.edit("web", |service| service.spec.as_mut().unwrap().load_balancer_source_ranges = None);
    stage.provisioned("web").await;
    stage
        .until(secs(5), "the complaint ends", |stage| {
            stage.condition("web", "LoadBalancerProvisioned").unwrap().0 == "True"
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn where_the_policy_is_to_warn_the_rest_is_made() {
    let stage = stage();
    stage.script.lacks(Feature::ClientIpAffinity);
    let _process = stage.start(Settings { unsupported: Unsupported::Warn, ..Settings::default() });
    let mut web = service("web").load_balancer().port(80).build();
    web.spec.as_mut().unwrap().session_affinity = Some("ClientIP".into());
    stage.server.create(&web);
    stage.provisioned("web").await;
    stage.until(secs(5), "the warning", |stage| stage.has_event("web", "UnsupportedField")).await;
    let message = stage.message("web", "UnsupportedField").unwrap();
    assert!(message.contains("spec.sessionAffinity: ClientIP"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_cannot_be_read_is_refused() {
    let stage = stage();
    let _process = stage.start(Settings::default());
    let ranges = "service.beta.kubernetes.io/load-balancer-source-ranges";
    stage.server.create(&service("web").load_balancer().port(80).annotation(ranges, "10.0.0.1").build());
    sleep(secs(60)).await;
    assert_eq!(stage.world.counters().total(), 0);
    let (_, reason, message) = stage.condition("web", "LoadBalancerProvisioned").unwrap();
    assert_eq!(reason, "InvalidService");
    assert!(message.contains(ranges), "{message}");
}

#[tokio::test(start_paused = true)]
async fn classes_of_the_provider_and_of_the_flag_are_served_and_others_are_not() {
    let stage = Stage::new(1, Config { classes: vec!["fake/own".into()], ..Config::default() });
    let _process = stage.start(Settings { classes: vec!["added/own".into()], ..Settings::default() });
    for (name, class) in [("own", "fake/own"), ("added", "added/own"), ("foreign", "another/one")] {
        stage.server.create(&service(name).load_balancer().class(class).port(80).build());
    }
    stage.provisioned("own").await;
    stage.provisioned("added").await;
    sleep(secs(60)).await;
    assert!(stage.addresses("foreign").is_empty() && !stage.is_held("foreign"));
    assert!(stage.reasons("foreign").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_hangs_or_panics_costs_one_service_its_time_and_nobody_else() {
    let stage = stage();
    stage.script.once("ensure", Instead::Panic);
    stage.world.inject(Fault::once("create_address", Effect::Hang)).unwrap();
    let _process = stage.start(Settings::default());
    for name in ["panics", "well"] {
        stage.server.create(&service(name).load_balancer().port(80).build());
        sleep(Duration::from_millis(100)).await;
    }
    stage.until(secs(5), "the second try of the first", |stage| !stage.addresses("panics").is_empty()).await;
    assert!(stage.addresses("well").is_empty(), "it hangs");
    stage.until(secs(70), "the deadline", |stage| !stage.addresses("well").is_empty()).await;
    assert!(stage.message("panics", "SyncLoadBalancerFailed").unwrap().contains("panicked"));
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_makes_no_second_balancer() {
    for operation in ["create_address", "create_load_balancer"] {
        let stage = stage();
        stage.world.inject(Fault::once(operation, Effect::LoseAnswer)).unwrap();
        stage.world.inject(Fault::once(operation, Effect::HangAfter)).unwrap();
        let _process = stage.start(Settings::default());
        stage.server.create(&service("web").load_balancer().port(80).build());
        stage.until(secs(90), "an address", |stage| !stage.addresses("web").is_empty()).await;
        assert_eq!((stage.balancers().len(), stage.world.contents().addresses.len()), (1, 1), "{operation}");
        stage.assert_sound();
    }
}

/// Proves: SVC-23, WEAK-17
#[tokio::test(start_paused = true)]
async fn what_was_made_before_the_quota_was_reached_goes_with_the_service() {
    let quotas = Quotas { load_balancers: Some(0), ..Quotas::default() };
    let stage = Stage::new(1, Config { quotas, ..Config::default() });
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage
        .until(secs(5), "an address is reserved", |stage| !stage.world.contents().addresses.is_empty())
        .await;
    sleep(secs(30)).await;
    stage.server.delete::<k8s_openapi::api::core::v1::Service>("default", "web");
    stage.gone("web").await;
    assert!(stage.world.contents().addresses.is_empty(), "no balancer was ever seen, and nothing is left");
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_throttling_cloud_is_left_in_peace_for_as_long_as_it_asks() {
    let stage = stage();
    let throttle = Fault::new("create_address", Effect::Throttle).after(secs(20)).times(2);
    stage.world.inject(throttle).unwrap();
    let _process = stage.start(Settings::default());
    stage.server.create(&service("web").load_balancer().port(80).build());
    let took = stage.until(secs(120), "an address", |stage| !stage.addresses("web").is_empty()).await;
    assert!(took >= secs(40) && took < secs(60), "{took:?}");
    assert_eq!(stage.script.count("ensure"), 3);
}
