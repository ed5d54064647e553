//! A suite that cannot fail is worth nothing: variants of the fake provider, each broken on purpose in one way, must
//! each fail the check that is there for them, and every check must have been seen to fail.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is a finding")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use testkit::conformance::{Outcome, Report, StandIn, checks, run};

#[path = "../conformance/between.rs"]
mod between;
#[path = "../conformance/shown.rs"]
mod shown;
#[allow(dead_code, reason = "only the conformance test itself goes over HTTP")]
#[path = "../conformance/stand_in.rs"]
mod stand_in;
#[allow(dead_code, reason = "only the conformance test itself goes over HTTP")]
#[path = "../conformance/wire.rs"]
mod wire;

mod balancers;
mod deletion;
mod errors;
mod gate;
mod instances;
mod interruption;
mod life;
mod outside;
mod ownership;
mod routes;
mod volumes;

use between::{Bend, Straight};
use outside::{Twist, twisted};
use stand_in::{Around, FakeStandIn};

/// A broken variant of the provider.
struct Flaw {
    /// What is broken, in a few words.
    name: &'static str,
    /// The check that must fail because of it.
    caught_by: &'static str,
    /// The variant.
    variant: Arc<dyn StandIn>,
}

/// Something is wrong between the provider and the cloud.
fn between(name: &'static str, caught_by: &'static str, bend: impl Bend) -> Flaw {
    let variant = FakeStandIn::flawed(Arc::new(bend), Arc::new(|built, _| built));
    Flaw { name, caught_by, variant }
}

/// Something is wrong around the provider.
fn outside(name: &'static str, caught_by: &'static str, twist: impl Twist) -> Flaw {
    let twist: Arc<dyn Twist> = Arc::new(twist);
    built(name, caught_by, Arc::new(move |built, _| built.map(|cloud| twisted(cloud, &twist))))
}

/// Something is wrong with the way in which it is built.
fn built(name: &'static str, caught_by: &'static str, around: Around) -> Flaw {
    Flaw { name, caught_by, variant: FakeStandIn::flawed(Arc::new(Straight), around) }
}

fn flaws() -> Vec<Flaw> {
    [
        life::flaws(),
        instances::flaws(),
        balancers::flaws(),
        deletion::flaws(),
        ownership::flaws(),
        routes::flaws(),
        volumes::flaws(),
        gate::flaws(),
        errors::flaws(),
        interruption::flaws(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The checks that no flaw here breaks, each with the reason. This list may only shrink.
const NEVER_SEEN_TO_FAIL: &[(&str, &str)] =
    &[("an_unreadable_answer_proves_no_absence", "skipped in the process: no bytes are passed there")];

#[test]
fn every_flaw_is_caught_by_the_check_that_is_there_for_it_and_every_check_has_caught_one() {
    let known: BTreeSet<&str> = checks::all().map(|check| check.id).collect();
    let mut catches: BTreeMap<&str, usize> = known.iter().map(|id| (*id, 0)).collect();
    let mut missed = Vec::new();
    let flaws = flaws();
    let count = flaws.len();
    for flaw in flaws {
        assert!(known.contains(flaw.caught_by), "{}: there is no check {}", flaw.name, flaw.caught_by);
        let report = run(&flaw.variant);
        println!(
            "{:62} {:64} and {:2} more",
            flaw.name,
            flaw.caught_by,
            report.broken().count().saturating_sub(1)
        );
        match seen(&report, flaw.caught_by) {
            Some(seen) => println!("    {seen}"),
            None => missed.push(format!("{}: {} did not fail", flaw.name, flaw.caught_by)),
        }
        for finding in report.broken() {
            *catches.get_mut(finding.check.as_str()).unwrap() += 1;
        }
    }
    let idle: BTreeSet<&str> = catches.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    let excused: BTreeSet<&str> = NEVER_SEEN_TO_FAIL.iter().map(|(id, _)| *id).collect();
    println!(
        "{count} flaws, {} checks, of which {} were never seen to fail: {idle:?}",
        known.len(),
        idle.len()
    );
    assert!(missed.is_empty(), "the suite let these pass:\n{}", missed.join("\n"));
    assert_eq!(idle, excused, "checks that no flaw breaks, against those that are excused");
}

/// What the named check saw, cut to a line.
fn seen(report: &Report, check: &str) -> Option<String> {
    report.broken().find(|finding| finding.check == check).map(|finding| match &finding.outcome {
        Outcome::Broken { seen } => seen.chars().take(140).collect(),
        _ => String::new(),
    })
}
