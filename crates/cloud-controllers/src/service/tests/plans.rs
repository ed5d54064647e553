use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use proptest::prelude::*;
use testkit::{EPOCH, node};

use super::wishes::{FINALIZER, terms, web};
use crate::service::backends::Backends;
use crate::service::plan::{Applied, Known, Step, next};
use crate::service::wish::Print;

fn status(ip: &str) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress { ip: Some(ip.to_owned()), ..LoadBalancerIngress::default() };
    LoadBalancerStatus { ingress: Some(vec![ingress]) }
}

fn nodes(names: &[&str]) -> Backends {
    Backends::among(names.iter().map(|name| Arc::new(node(name).build())))
}

/// A Service with its finalizer and its address.
fn provisioned() -> Service {
    let mut service = web();
    service.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    service.status.get_or_insert_default().load_balancer = Some(status("203.0.113.1"));
    service
}

fn applied(service: &Service) -> Known {
    let applied = Applied {
        print: Print::of(service, &terms()),
        backends: Arc::new(nodes(&["a"])),
        status: Some(status("203.0.113.1")),
    };
    Known { holds: true, looked: true, applied: Some(applied), ..Known::default() }
}

fn step(service: &Service, known: &Known) -> Step {
    next(service, known, &nodes(&["a"]), &terms())
}

fn edited(mut service: Service, edit: impl FnOnce(&mut Service)) -> Service {
    edit(&mut service);
    service
}

fn of_type(kind: &str) -> impl Fn(&mut Service) {
    move |service| service.spec.get_or_insert_default().type_ = Some(kind.to_owned())
}

fn of_class(service: &mut Service) {
    service.spec.get_or_insert_default().load_balancer_class = Some("another/one".to_owned());
}

fn going(service: &mut Service) {
    service.metadata.deletion_timestamp = Some(Time(EPOCH));
}

/// Proves: SVC-9
#[test]
fn what_was_there_before_is_looked_at_and_what_is_new_is_made() {
    assert_eq!(step(&web(), &Known::default()), Step::Ensure);
    assert_eq!(step(&provisioned(), &Known::default()), Step::Look);
    let looked = Known { looked: true, ..Known::default() };
    assert_eq!(step(&provisioned(), &looked), Step::Ensure, "it was not as it should be");
    assert_eq!(step(&provisioned(), &applied(&provisioned())), Step::Rest);
}

/// Proves: SVC-7, SVC-26
#[test]
fn cleaning_up_is_for_what_is_held_and_going_or_of_another_type() {
    let nothing = Known::default();
    assert_eq!(step(&edited(provisioned(), going), &nothing), Step::CleanUp);
    assert_eq!(step(&edited(provisioned(), of_type("ClusterIP")), &nothing), Step::CleanUp);
    assert_eq!(step(&edited(web(), of_type("ClusterIP")), &nothing), Step::Rest, "it never wanted one");
    assert_eq!(step(&edited(web(), going), &nothing), Step::Rest, "nothing of ours holds it");
    assert_eq!(step(&edited(web(), going), &applied(&web())), Step::CleanUp, "its finalizer was taken away");
}

/// Proves: SVC-7
#[test]
fn a_service_of_anothers_class_is_left_alone_unless_something_of_ours_is_found() {
    let foreign = edited(provisioned(), of_class);
    assert_eq!(step(&foreign, &Known::default()), Step::Look);
    assert_eq!(step(&foreign, &Known { looked: true, ..Known::default() }), Step::Rest);
    assert_eq!(step(&foreign, &Known { looked: true, holds: true, ..Known::default() }), Step::CleanUp);
    assert_eq!(step(&edited(foreign, going), &Known::default()), Step::CleanUp, "as upstream");
    assert_eq!(step(&edited(web(), of_class), &Known::default()), Step::Rest);
}

/// Proves: SVC-14, WEAK-16
#[test]
fn a_lost_finalizer_and_a_changed_status_are_mended_without_the_cloud() {
    let known = applied(&provisioned());
    assert_eq!(step(&edited(provisioned(), |s| s.metadata.finalizers = None), &known), Step::Mend);
    assert_eq!(step(&edited(provisioned(), |s| s.status = None), &known), Step::Mend);
    let other = |service: &mut Service| {
        service.status.get_or_insert_default().load_balancer = Some(status("203.0.113.9"));
    };
    assert_eq!(step(&edited(provisioned(), other), &known), Step::Mend);
}

/// Proves: SVC-34
#[test]
fn an_ip_mode_that_the_server_filled_in_is_no_difference_and_another_one_is() {
    let with_mode = |mode: &str| {
        edited(provisioned(), |service| {
            let balancer = service.status.get_or_insert_default().load_balancer.get_or_insert_default();
            balancer.ingress.get_or_insert_default()[0].ip_mode = Some(mode.to_owned());
        })
    };
    assert_eq!(step(&with_mode("VIP"), &applied(&provisioned())), Step::Rest);
    assert_eq!(step(&with_mode("Proxy"), &applied(&provisioned())), Step::Mend);
}

#[test]
fn what_another_controller_implements_gets_no_status_of_ours() {
    let mut known = applied(&provisioned());
    known.look_due = true;
    if let Some(applied) = &mut known.applied {
        applied.status = None;
    }
    assert_eq!(step(&edited(provisioned(), |s| s.status = None), &known), Step::Rest);
}

#[test]
fn new_nodes_are_an_update_of_the_backends_and_an_edit_is_an_ensure() {
    let known = applied(&provisioned());
    assert_eq!(next(&provisioned(), &known, &nodes(&["a", "b"]), &terms()), Step::UpdateBackends);
    let local = |service: &mut Service| {
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".to_owned());
    };
    assert_eq!(next(&edited(provisioned(), local), &known, &nodes(&["a", "b"]), &terms()), Step::Ensure);
}

#[test]
fn what_was_refused_is_not_tried_again_before_it_changes_and_keeps_its_nodes_true() {
    let edit = |service: &mut Service| {
        service.spec.get_or_insert_default().load_balancer_source_ranges =
            Some(vec!["10.0.0.0/8".to_owned()]);
    };
    let asking = edited(provisioned(), edit);
    let refused = Some(Print::of(&asking, &terms()));
    let new = Known { refused: refused.clone(), looked: true, ..Known::default() };
    assert_eq!(step(&asking, &new), Step::Rest);
    let known = Known { refused, ..applied(&provisioned()) };
    assert_eq!(step(&asking, &known), Step::Rest);
    assert_eq!(next(&asking, &known, &nodes(&["b"]), &terms()), Step::UpdateBackends);
    assert_eq!(step(&provisioned(), &known), Step::Rest, "the edit was taken back");
}

#[test]
fn a_complaint_that_is_over_is_taken_back() {
    let complain = |service: &mut Service| {
        let condition = Condition {
            type_: "LoadBalancerProvisioned".into(),
            status: "False".into(),
            reason: "QuotaExceeded".into(),
            message: "no room".into(),
            last_transition_time: Time(EPOCH),
            observed_generation: None,
        };
        service.status.get_or_insert_default().conditions = Some(vec![condition]);
    };
    assert_eq!(step(&edited(provisioned(), complain), &applied(&provisioned())), Step::Mend);
}

/// What a step does when it succeeds, on paper.
fn carry_out(step: Step, service: &mut Service, known: &mut Known, backends: &Backends) {
    let there = |service: &Service| Applied {
        print: Print::of(service, &terms()),
        backends: Arc::new(backends.clone()),
        status: Some(status("203.0.113.1")),
    };
    match step {
        Step::Rest => {}
        Step::Ensure => {
            service.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
            *known = Known { holds: true, looked: true, applied: Some(there(service)), ..Known::default() };
        }
        Step::UpdateBackends => {
            if let Some(applied) = &mut known.applied {
                applied.backends = Arc::new(backends.clone());
            }
        }
        Step::Look => (known.looked, known.look_due) = (true, false),
        Step::Mend => {
            service.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
            service.status.get_or_insert_default().load_balancer = Some(status("203.0.113.1"));
        }
        Step::CleanUp => {
            service.metadata.finalizers = None;
            *known = Known { looked: true, ..Known::default() };
        }
    }
}

proptest! {
    /// Whatever a Service and the memory of it look like, a few steps lead to rest, and rest stays.
    #[test]
    fn the_plan_becomes_empty_and_stays_empty(
        kind in prop_oneof![Just("LoadBalancer"), Just("ClusterIP"), Just("NodePort")],
        (is_going, foreign, held, addressed) in any::<(bool, bool, bool, bool)>(),
        (holds, looked, look_due, was_applied, stale) in any::<(bool, bool, bool, bool, bool)>(),
        more_nodes in any::<bool>(),
    ) {
        let mut service = web();
        of_type(kind)(&mut service);
        if is_going { going(&mut service); }
        if foreign { of_class(&mut service); }
        if held { service.metadata.finalizers = Some(vec![FINALIZER.to_owned()]); }
        if addressed { service.status.get_or_insert_default().load_balancer = Some(status("203.0.113.1")); }
        let mut known = if was_applied { applied(&service) } else { Known { holds, looked, ..Known::default() } };
        known.look_due = look_due;
        if stale { service.spec.get_or_insert_default().health_check_node_port = Some(31000); }
        let backends = nodes(if more_nodes { &["a", "b"] } else { &["a"] });
        let mut steps = Vec::new();
        loop {
            let step = next(&service, &known, &backends, &terms());
            if step == Step::Rest { break; }
            steps.push(step);
            prop_assert!(steps.len() <= 4, "{steps:?}");
            carry_out(step, &mut service, &mut known, &backends);
        }
        prop_assert_eq!(next(&service, &known, &backends, &terms()), Step::Rest);
        prop_assert!(!(is_going && service.metadata.finalizers.is_some() ), "nothing that goes is held by us");
    }
}
