//! The suite's own manners: what cannot be checked is never called kept, and what panics or hangs is called broken.

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Description, Identity, Observed, Owned, Spec};
use cloud_provider::{Changes, Cloud, ClusterIdentity, Context, Error, LoadBalancers};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use testkit::conformance::stand_in::{Control, Count, Manners};
use testkit::conformance::{Outcome, Report, StandIn, Time, run};

/// A stand-in with what is required and nothing else.
struct Bare(Kind);

#[derive(Clone, Copy)]
enum Kind {
    /// Declares nothing.
    Empty,
    /// Declares load balancers, and the stand-in cannot show what they do.
    Opaque,
    /// Panics while it is built.
    Panics,
    /// Never finishes building.
    Hangs,
}

#[async_trait]
impl StandIn for Bare {
    fn provider(&self) -> &'static str {
        "bare"
    }

    fn title(&self) -> String {
        "nothing".to_owned()
    }

    fn time(&self) -> Time {
        Time::Virtual
    }

    async fn reset(&self, _: Manners) -> Control<()> {
        Ok(())
    }

    async fn build(&self, _: Context) -> Result<Cloud, Error> {
        match self.0 {
            Kind::Empty => Ok(Cloud::new("bare")),
            Kind::Opaque => Ok(Cloud::new("bare").with_load_balancers(Arc::new(Yes))),
            Kind::Panics => panic!("no cloud today"),
            Kind::Hangs => std::future::pending().await,
        }
    }

    async fn calls(&self) -> Count {
        Count::default()
    }
}

/// Says yes to everything and does nothing.
struct Yes;

#[async_trait]
impl LoadBalancers for Yes {
    fn describe(&self) -> Description {
        Description::default()
    }

    async fn get(&self, _: &Spec) -> Result<Option<Observed>, Error> {
        Ok(None)
    }

    async fn ensure(&self, _: &Spec, _: &Changes) -> Result<LoadBalancerStatus, Error> {
        Ok(LoadBalancerStatus::default())
    }

    async fn update_backends(&self, _: &Spec, _: &Changes) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, _: &Identity, _: Option<&Service>, _: &Changes) -> Result<(), Error> {
        Ok(())
    }

    async fn list_owned(&self, _: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        Ok(Vec::new())
    }
}

fn report(kind: Kind) -> Report {
    let stand_in: Arc<dyn StandIn> = Arc::new(Bare(kind));
    run(&stand_in)
}

fn kept(report: &Report) -> Vec<&str> {
    let kept = report.findings.iter().filter(|finding| finding.outcome == Outcome::Kept);
    kept.map(|finding| finding.check.as_str()).collect()
}

#[test]
fn a_provider_that_declares_nothing_keeps_no_promise_about_what_it_does_not_have() {
    let report = report(Kind::Empty);
    assert_eq!(kept(&report), ["building_changes_nothing", "background_work_ends_with_the_process"]);
    let broken: Vec<&str> = report.broken().map(|finding| finding.check.as_str()).collect();
    assert_eq!(broken, ["the_cloud_carries_the_name_of_its_provider"]);
    let reasons = report.to_string();
    assert!(reasons.contains("(the cloud provider does not support external load balancers)"), "{reasons}");
}

#[test]
fn a_provider_that_only_says_yes_is_not_believed() {
    let report = report(Kind::Opaque);
    let about_balancers = |id: &&str| !id.starts_with("building") && !id.starts_with("background");
    let believed: Vec<&str> = kept(&report).into_iter().filter(about_balancers).collect();
    assert_eq!(
        believed,
        ["the_cloud_carries_the_name_of_its_provider", "the_name_depends_on_the_service_alone"]
    );
    assert!(report.skipped().count() > 100, "{report}");
}

#[test]
fn a_panic_and_a_hang_are_broken_promises_and_not_the_end_of_the_suite() {
    for (kind, words) in
        [(Kind::Panics, "the provider panicked: no cloud today"), (Kind::Hangs, "not finished within")]
    {
        let report = report(kind);
        assert_eq!(report.broken().count(), report.findings.len());
        let all = report.broken().all(|finding| finding.to_string().contains(words));
        assert!(all, "{report}");
    }
}

#[test]
#[should_panic(expected = "promised: A built cloud carries its provider's name and declares something.")]
fn a_broken_promise_is_named_when_the_test_fails() {
    report(Kind::Empty).assert_conforms();
}

#[test]
fn a_report_survives_its_json_and_is_kept_without_counts() {
    let report = report(Kind::Empty);
    let read: Report = serde_json::from_str(&report.for_the_record()).unwrap();
    assert_eq!(read.findings.len(), report.findings.len());
    assert!(read.findings.iter().all(|finding| finding.calls.is_none()));
    assert_eq!(kept(&read), kept(&report));
}
