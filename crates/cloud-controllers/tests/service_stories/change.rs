//! Services change, are tampered with, and go.

use cloud_controllers::service::Settings;
use cloud_provider::Error;
use k8s_openapi::api::core::v1::Service;
use provider_fake::provider::IDLE_TIMEOUT_ANNOTATION;
use provider_fake::{Config, Effect, Fault};
use testkit::{Fault as ApiFault, Verb, When, service};
use tokio::time::sleep;

use crate::between::Instead;
use crate::stage::{FINALIZER, Process, Stage, secs};

async fn provisioned() -> (Stage, Process) {
    let stage = Stage::new(1, Config::default());
    let process = stage.start(Settings::default());
    stage
        .server
        .create(&service("web").load_balancer().port(80).annotation(IDLE_TIMEOUT_ANNOTATION, "30s").build());
    stage.provisioned("web").await;
    sleep(secs(5)).await;
    stage.script.forget();
    stage.world.reset_counters();
    (stage, process)
}

fn annotate(service: &mut Service, key: &str, value: &str) {
    service.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Proves: SVC-10, SVC-13
#[tokio::test(start_paused = true)]
async fn an_edit_reaches_the_cloud_and_the_address_stays() {
    let (stage, _process) = provisioned().await;
    let address = stage.addresses("web");
    stage.edit("web", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 8080);
    stage.until(secs(2), "the port", |stage| stage.balancers()[0].settings.listeners[0].port == 8080).await;
    sleep(secs(60)).await;
    assert_eq!((stage.script.count("ensure"), stage.addresses("web")), (1, address));
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_setting_whose_annotation_is_removed_is_removed_in_the_cloud() {
    let (stage, _process) = provisioned().await;
    assert_eq!(stage.balancers()[0].settings.idle_seconds, Some(30));
    stage.edit("web", |service| service.metadata.annotations = None);
    stage
        .until(secs(2), "the timeout goes", |stage| stage.balancers()[0].settings.idle_seconds.is_none())
        .await;
}

/// Proves: SVC-13, WEAK-4
#[tokio::test(start_paused = true)]
async fn an_edit_that_no_balancer_can_tell_costs_no_cloud_call_and_no_write() {
    let (stage, _process) = provisioned().await;
    let before = stage.writes().count();
    stage.edit("web", |service| annotate(service, "team/owner", "shop"));
    stage.edit("web", |service| service.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()));
    stage.edit("web", |service| {
        service.spec.as_mut().unwrap().selector = Some([("a".into(), "b".into())].into());
    });
    sleep(secs(60)).await;
    assert_eq!((stage.world.counters().total(), stage.writes().count()), (0, before));
}

/// Proves: SVC-14, WEAK-16
#[tokio::test(start_paused = true)]
async fn a_finalizer_and_a_status_that_somebody_took_away_come_back_without_a_cloud_call() {
    let (stage, _process) = provisioned().await;
    let address = stage.addresses("web");
    stage.edit("web", |service| service.metadata.finalizers = None);
    stage.until(secs(2), "the finalizer", |stage| stage.is_held("web")).await;
    stage.edit("web", |service| service.status = None);
    stage.until(secs(2), "the address", |stage| stage.addresses("web") == address).await;
    stage.edit("web", |service| {
        let balancer = service.status.as_mut().unwrap().load_balancer.as_mut().unwrap();
        balancer.ingress.as_mut().unwrap()[0].ip = Some("192.0.2.66".into());
    });
    stage.until(secs(2), "the right address", |stage| stage.addresses("web") == address).await;
    assert_eq!(stage.world.counters().total(), 0);
}

/// Proves: SVC-21, SVC-22, SVC-24, SVC-25, COST-10
#[tokio::test(start_paused = true)]
async fn a_deleted_service_goes_after_its_balancer_with_one_patch_and_two_events() {
    let (stage, _process) = provisioned().await;
    let before = stage.writes().count();
    let server = stage.server.clone();
    stage.world.on_call(move |call| {
        let held = server.get::<Service>("default", "web").and_then(|service| service.metadata.finalizers);
        assert_eq!(held.unwrap_or_default(), [FINALIZER], "during {}", call.operation);
    });
    stage.server.delete::<Service>("default", "web");
    let took = stage.until(secs(5), "the end", |stage| stage.service("web").is_none()).await;
    assert!(took < secs(1), "{took:?}");
    sleep(secs(30)).await;
    assert!(stage.balancers().is_empty() && stage.world.contents().addresses.is_empty());
    assert_eq!(stage.writes().count() - before, 1, "{}", stage.writes());
    assert_eq!((stage.script.count("get"), stage.script.count("delete")), (0, 1), "never a check before it");
    assert_eq!(stage.reasons("web")[2..], ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
    stage.assert_sound();
}

/// Proves: SVC-37, WIRE-7
#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay_also_those_that_came_since_we_last_looked() {
    let (stage, _process) = provisioned().await;
    stage.edit("web", |service| service.metadata.finalizers.as_mut().unwrap().insert(0, "x/first".into()));
    // The controller's view of the cluster is stopped, so that it does not learn of the second one.
    sleep(secs(1)).await;
    stage.world.on_call({
        let server = stage.server.clone();
        move |call| {
            if call.operation == provider_fake::Operation::DeleteLoadBalancer {
                server.modify::<Service>("default", "web", |service| {
                    service.metadata.finalizers.as_mut().unwrap().push("y/last".into());
                });
            }
        }
    });
    stage.edit("web", |service| service.spec.as_mut().unwrap().type_ = Some("ClusterIP".into()));
    stage.until(secs(5), "the end of ours", |stage| !stage.is_held("web")).await;
    assert_eq!(stage.service("web").unwrap().metadata.finalizers.unwrap(), ["x/first", "y/last"]);
}

/// Proves: SVC-24, SVC-26, SVC-39
#[tokio::test(start_paused = true)]
async fn a_service_that_wants_no_balancer_any_more_loses_it_and_lives() {
    let (stage, _process) = provisioned().await;
    stage.edit("web", |service| service.spec.as_mut().unwrap().type_ = Some("NodePort".into()));
    stage.until(secs(5), "the end", |stage| stage.balancers().is_empty() && !stage.is_held("web")).await;
    assert!(stage.service("web").is_some() && stage.addresses("web").is_empty());
    assert!(stage.world.contents().addresses.is_empty());
    stage.edit("web", |service| service.spec.as_mut().unwrap().type_ = Some("LoadBalancer".into()));
    stage.provisioned("web").await;
    assert_eq!(stage.balancers().len(), 1);
    stage.assert_sound();
}

/// Proves: SVC-8
#[tokio::test(start_paused = true)]
async fn a_service_that_goes_to_another_class_takes_nothing_of_ours_along() {
    let (stage, _process) = provisioned().await;
    // The class can only be set together with a change of the type; here the controller sees both steps as one.
    stage.server.faults().down_for(secs(5));
    stage.edit("web", |service| service.spec.as_mut().unwrap().type_ = Some("ClusterIP".into()));
    stage.edit("web", |service| {
        let spec = service.spec.as_mut().unwrap();
        (spec.type_, spec.load_balancer_class) = (Some("LoadBalancer".into()), Some("another/one".into()));
    });
    stage.until(secs(30), "ours goes", |stage| stage.balancers().is_empty() && !stage.is_held("web")).await;
    sleep(secs(60)).await;
    assert_eq!(stage.script.count("ensure"), 0);
    let refused = stage.server.try_create(
        &service("other").load_balancer().class("another/one").finalizer(FINALIZER).port(80).build(),
    );
    assert!(refused.is_ok());
    sleep(secs(60)).await;
    assert!(stage.is_held("other"), "its finalizer may be that of its own controller");
}

/// Proves: SVC-21, SVC-22, SVC-43
#[tokio::test(start_paused = true)]
async fn a_balancer_that_cannot_be_removed_holds_its_service_and_says_why() {
    let (stage, _process) = provisioned().await;
    stage.world.inject(Fault::new("delete_load_balancer", Effect::Unauthorized)).unwrap();
    stage.server.delete::<Service>("default", "web");
    sleep(secs(60)).await;
    assert!(stage.is_held("web") && !stage.addresses("web").is_empty(), "the balancer serves still");
    let (status, reason, message) = stage.condition("web", "LoadBalancerCleanupBlocked").unwrap();
    assert_eq!((&*status, &*reason), ("True", "CredentialInvalid"));
    assert!(message.contains("renew the credential"), "{message}");
    let message = stage.message("web", "SyncLoadBalancerFailed").unwrap();
    assert!(
        message.starts_with("Error syncing load balancer: failed to delete load balancer: "),
        "{message}"
    );
    stage.world.clear_faults();
    stage.until(secs(90), "the end", |stage| stage.service("web").is_none()).await;
    stage.assert_sound();
}

/// Proves: SVC-43
#[tokio::test(start_paused = true)]
async fn a_delete_and_an_update_that_ask_to_come_back_later_are_honoured() {
    let (stage, _process) = provisioned().await;
    stage.script.once("update", Instead::Error(Error::retry_after(secs(33), "busy").context("updating")));
    stage.add_node("c", "10.0.0.3");
    stage.until(secs(60), "the backend", |stage| stage.balancers()[0].backends.len() == 3).await;
    let calls = stage.script.calls_for("web");
    assert_eq!(calls.iter().map(|(call, _)| *call).collect::<Vec<_>>(), ["update", "ensure"]);
    assert_eq!((calls[1].1 - calls[0].1).as_secs(), 33);
    stage.script.forget();
    stage.script.once("delete", Instead::Error(Error::retry_after(secs(21), "busy").context("deleting")));
    stage.server.delete::<Service>("default", "web");
    stage.gone("web").await;
    let calls = stage.script.calls_for("web");
    assert_eq!((calls.len(), (calls[1].1 - calls[0].1).as_secs()), (2, 21));
}

/// Proves: SVC-11, SVC-16, SVC-20
#[tokio::test(start_paused = true)]
async fn a_service_that_vanished_without_its_finalizer_leaves_nothing_behind() {
    let (stage, _process) = provisioned().await;
    stage.world.inject(Fault::once("delete_load_balancer", Effect::Fail)).unwrap();
    stage.server.faults().always(When::verb(Verb::Patch).kind("Service"), ApiFault::InternalError);
    stage.edit("web", |service| service.metadata.finalizers = None);
    stage.server.delete::<Service>("default", "web");
    assert!(stage.service("web").is_none());
    stage.until(secs(30), "the balancer goes", |stage| stage.world.contents().addresses.is_empty()).await;
    sleep(secs(5)).await;
    let reasons = &stage.reasons("web")[2..];
    assert!(reasons.contains(&"DeleteLoadBalancerFailed".to_owned()), "{reasons:?}");
    assert!(reasons.contains(&"DeletedLoadBalancer".to_owned()), "{reasons:?}");
    stage.script.forget();
    sleep(secs(600)).await;
    assert_eq!(stage.script.count("delete"), 0, "it is forgotten");
    stage.assert_sound();
}

/// Proves: SVC-18
#[tokio::test(start_paused = true)]
async fn a_service_made_again_under_its_name_gets_its_own_balancer_after_the_old_one_is_gone() {
    let (stage, _process) = provisioned().await;
    let old = stage.balancers()[0].clone();
    stage.server.faults().down_for(secs(5));
    stage.edit("web", |service| service.metadata.finalizers = None);
    stage.server.delete::<Service>("default", "web");
    stage.server.create(&service("web").load_balancer().port(80).build());
    stage.until(secs(30), "a new one", |stage| stage.balancers().iter().any(|new| new.id != old.id)).await;
    stage.provisioned("web").await;
    assert_eq!(stage.balancers().len(), 1, "{:?}", stage.balancers());
    let calls: Vec<&str> = stage.script.calls_for("web").into_iter().map(|(call, _)| call).collect();
    assert_eq!(calls, ["delete", "ensure"]);
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_while_its_balancer_is_made_leaves_nothing_behind() {
    for wait in [0, 1, 50, 120, 250, 1000, 3000] {
        let config = Config {
            latency: std::time::Duration::from_millis(50),
            balancer_ready_after: secs(2),
            ..Config::default()
        };
        let stage = Stage::new(wait, config);
        let _process = stage.start(Settings::default());
        sleep(secs(1)).await;
        stage.server.create(&service("web").load_balancer().port(80).build());
        sleep(std::time::Duration::from_millis(wait)).await;
        stage.server.delete::<Service>("default", "web");
        stage.gone("web").await;
        sleep(secs(120)).await;
        assert!(stage.balancers().is_empty() && stage.world.contents().addresses.is_empty(), "{wait}");
        stage.assert_sound();
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_never_clears_a_status() {
    let (stage, _process) = provisioned().await;
    stage.server.invariant("an address once told stays", |written| match (written.before, written.after) {
        (Some(before), Some(after)) if written.name == "web" => {
            let ingress = |service: &serde_json::Value| service["status"]["loadBalancer"]["ingress"].clone();
            let cleared = ingress(before).is_array() && !ingress(after).is_array();
            if cleared { Err("it was cleared".to_owned()) } else { Ok(()) }
        }
        _ => Ok(()),
    });
    for effect in [Effect::Fail, Effect::Unauthorized, Effect::Throttle, Effect::NotFound, Effect::Quota] {
        stage.world.inject(Fault::new("*", effect)).unwrap();
        stage.edit("web", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port += 1);
        stage.add_node(&format!("{effect:?}").to_lowercase(), "10.0.0.9");
        sleep(secs(30)).await;
        stage.world.clear_faults();
    }
    stage
        .until(secs(400), "all edits", |stage| {
            let balancers = stage.balancers();
            balancers[0].settings.listeners[0].port == 85 && balancers[0].backends.len() == 7
        })
        .await;
    stage.assert_sound();
}
