//! Tables and properties over the pure parts.

use std::time::Duration;

use cloud_provider::{Doubt, Evidence, Existence, Instance, Power};
use k8s_openapi::api::core::v1::Taint;
use proptest::prelude::*;
use rstest::rstest;
use testkit::node;
use tokio::time::Instant;

use super::INSTANCE_GONE;
use super::judge::{Case, Picture, Refusal, Suspicion, Verdict, judge, suspect};
use super::memory::{Breaker as Fuse, Deletions, Memory};
use super::plan::{Sight, is_ready, taints};
use super::settings::{Policy, Settings};

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn found(power: Power) -> Existence {
    Existence::Found(Box::new(Instance::new("fake://a".parse().unwrap()).power(power)))
}

fn absent() -> Existence {
    Existence::Absent(Evidence::NotFound { asked: "GET /a".into() })
}

fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
    Taint { key: key.into(), value: value.map(Into::into), effect: effect.into(), ..Taint::default() }
}

/// Proves: LIFE-5
#[test]
fn ready_is_the_condition_true_and_nothing_else() {
    assert!(is_ready(&node("a").ready().build()));
    assert!(!is_ready(&node("a").not_ready().build()));
    assert!(!is_ready(&node("a").unknown().build()));
    assert!(!is_ready(&node("a").condition("DiskPressure", "True", "x").build()));
}

/// Proves: LIFE-6, LIFE-15, LIFE-16, LIFE-17, LIFE-18
#[test]
fn the_shutdown_taint_comes_with_the_clouds_word_and_goes_with_the_kubelets() {
    let (plain, off) = (node("a").taint("x", "1", "NoExecute").build(), node("a").shut_down().build());
    let expected = vec![taint("x", Some("1"), "NoExecute"), taint(SHUTDOWN, None, "NoSchedule")];
    assert_eq!(taints(&plain, Sight::NotReady(&found(Power::Off))), Some(expected));
    assert_eq!(taints(&off, Sight::NotReady(&found(Power::Off))), None, "it has it");
    assert_eq!(taints(&off, Sight::NotReady(&found(Power::On))), None, "it boots: not ready yet");
    assert_eq!(taints(&off, Sight::NotReady(&Existence::Unknown(Doubt::EmptyInventory))), None);
    assert_eq!(taints(&off, Sight::Ready), Some(vec![]));
    for answer in [found(Power::On), found(Power::Untold), absent(), Existence::NotMine] {
        assert_eq!(taints(&plain, Sight::NotReady(&answer)), None, "{answer:?}");
    }
    assert_eq!(taints(&plain, Sight::Ready), None);
}

/// Proves: LIFE-20
#[test]
fn taints_are_the_same_by_key_and_effect() {
    let valued = node("a").taint(SHUTDOWN, "odd", "NoSchedule").taint("x", "", "NoSchedule").build();
    let expected = vec![taint(SHUTDOWN, None, "NoSchedule"), taint("x", None, "NoSchedule")];
    assert_eq!(taints(&valued, Sight::NotReady(&found(Power::Off))), Some(expected), "replaced in its place");
    let other = node("a").taint(SHUTDOWN, "", "NoExecute").build();
    let added = taints(&other, Sight::NotReady(&found(Power::Off))).unwrap();
    assert_eq!(added.len(), 2, "another effect is another taint");
    assert_eq!(taints(&other, Sight::Ready), None);
}

/// A Node that nothing but the picture can save.
fn ripe() -> Case {
    Case { age: Some(secs(3600)), known_for: secs(3600), has_provider_id: true, allowed: false }
}

/// One of ten Nodes is gone, and the others are seen.
fn plain() -> Picture {
    Picture { nodes: 10, vanished: 1, witnesses: 5, denied: 0, unsure: 0, budget: 2 }
}

fn verdict(case: Case, picture: Picture, settings: &Settings) -> Verdict {
    judge(&case, &picture, suspect(&picture, false, settings).as_ref(), settings)
}

#[rstest]
#[case::one_of_ten(ripe(), plain(), None)]
#[case::too_young_by_its_timestamp(Case { age: Some(secs(59)), ..ripe() }, plain(), Some("too_young"))]
#[case::without_a_timestamp(Case { age: None, ..ripe() }, plain(), Some("too_young"))]
#[case::not_known_for_long(Case { known_for: secs(59), ..ripe() }, plain(), Some("too_young"))]
#[case::never_ours(Case { has_provider_id: false, ..ripe() }, plain(), Some("no_provider_id"))]
#[case::a_healthy_node_is_absent_too(ripe(), Picture { denied: 1, ..plain() }, Some("foreign_inventory"))]
#[case::nobody_is_seen(ripe(), Picture { witnesses: 0, ..plain() }, Some("no_witness"))]
#[case::the_cloud_stutters(ripe(), Picture { unsure: 1, ..plain() }, Some("unsure"))]
#[case::the_cloud_stutters_and_a_person_insists(
    Case { allowed: true, ..ripe() }, Picture { unsure: 1, vanished: 9, ..plain() }, Some("unsure")
)]
#[case::four_of_ten_are_believed(ripe(), Picture { vanished: 4, ..plain() }, None)]
#[case::five_of_ten_are_not(ripe(), Picture { vanished: 5, ..plain() }, Some("too_many"))]
#[case::two_of_three_are_believed(ripe(), Picture { nodes: 3, vanished: 2, ..plain() }, None)]
#[case::the_budget_is_spent(ripe(), Picture { budget: 0, ..plain() }, Some("budget"))]
#[case::a_persons_word_beats_breaker_and_budget(
    Case { allowed: true, ..ripe() }, Picture { vanished: 9, budget: 0, ..plain() }, None
)]
#[case::it_does_not_make_a_node_old(Case { allowed: true, known_for: secs(1), ..ripe() }, plain(), Some("too_young"))]
fn a_node_goes_only_when_everything_speaks_for_it(
    #[case] case: Case,
    #[case] picture: Picture,
    #[case] refused: Option<&str>,
) {
    let verdict = verdict(case, picture, &Settings::default());
    match (&verdict, refused) {
        (Verdict::Delete, None) => {}
        (Verdict::Refuse(refusal), Some(reason)) => assert_eq!(refusal.name(), reason),
        _ => panic!("{verdict:?}"),
    }
}

#[test]
fn an_open_breaker_believes_half_as_much() {
    let (settings, four) = (Settings::default(), Picture { vanished: 4, ..plain() });
    assert_eq!(suspect(&four, false, &settings), None);
    assert_eq!(
        suspect(&four, true, &settings),
        Some(Suspicion::TooMany { vanished: 4, nodes: 10, limit: 2 })
    );
    assert_eq!(suspect(&Picture { vanished: 2, ..plain() }, true, &settings), None);
}

#[test]
fn the_policy_says_what_becomes_of_a_node_that_may_go() {
    for (policy, expected) in [
        (Policy::Delete, Verdict::Delete),
        (Policy::Taint, Verdict::Taint),
        (Policy::Report, Verdict::Report),
    ] {
        let settings = Settings { policy, ..Settings::default() };
        assert_eq!(verdict(ripe(), plain(), &settings), expected);
        let foreign = verdict(ripe(), Picture { denied: 1, ..plain() }, &settings);
        assert_eq!(foreign, Verdict::Refuse(Refusal::Breaker(Suspicion::Foreign(1))));
    }
}

#[rstest]
#[case(1, 2)]
#[case(3, 2)]
#[case(10, 2)]
#[case(11, 3)]
#[case(100, 20)]
#[case(5000, 50)]
fn the_budget_spares_small_clusters_and_caps_large_ones(#[case] nodes: usize, #[case] allowed: usize) {
    assert_eq!(Settings::default().budget.of(nodes), allowed);
}

#[tokio::test(start_paused = true)]
async fn deletions_count_for_their_cloud_and_for_a_window() {
    let (mut deletions, start) = (Deletions::default(), Instant::now());
    deletions.note("aws", "u1", start);
    deletions.note("aws", "u2", start + secs(100));
    deletions.note("aws", "u2", start + secs(200));
    deletions.note("gce", "u3", start + secs(100));
    deletions.forget_before(secs(300), start + secs(299));
    assert_eq!(deletions.of("aws").collect::<Vec<_>>(), ["u1", "u2"], "two tries on one node are one");
    assert_eq!(deletions.of("gce").count(), 1);
    deletions.forget_before(secs(300), start + secs(300));
    assert_eq!(deletions.of("aws").count(), 1);
    assert!(deletions.contains("u2") && !deletions.contains("u1"));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_at_once_and_closes_after_a_while() {
    let (mut fuse, start) = (Fuse::default(), Instant::now());
    let at = |secs_| start + secs(secs_);
    assert_eq!(fuse.look(None, secs(60), at(0)), None);
    assert!(fuse.look(Some(Suspicion::NoWitness), secs(60), at(1)).is_some());
    assert!(fuse.look(None, secs(60), at(60)).is_some(), "plausible for 59 s");
    assert!(fuse.look(None, secs(60), at(61)).is_none());
    assert!(!fuse.is_open());
}

#[tokio::test(start_paused = true)]
async fn memory_is_of_a_uid_and_absence_must_be_unbroken() {
    let (mut memory, settings, start) = (Memory::default(), Settings::default(), Instant::now());
    memory.see([("u1", false)].into_iter(), start);
    assert!(memory.is_due("u1", start));
    memory.answered("u1", true, &settings, start);
    assert!(memory.is_absent("u1") && !memory.is_due("u1", start + secs(2)));
    assert!(memory.is_due("u1", start + secs(3)), "asked again after three seconds");
    memory.answered("u1", false, &settings, start + secs(3));
    assert!(!memory.is_absent("u1"), "one doubtful answer starts it over");
    memory.answered("u1", true, &settings, start + secs(8));
    memory.see([("u1", true)].into_iter(), start + secs(9));
    assert!(!memory.is_absent("u1"), "a kubelet that is well starts it over");
    memory.see([("u2", false)].into_iter(), start + secs(10));
    assert_eq!(memory.known_for("u2", start + secs(15)), secs(5), "a new node of the old name is new");
    assert_eq!(memory.known_for("u1", start + secs(15)), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_away_is_asked_for_less_and_less() {
    let (mut memory, settings, start) = (Memory::default(), Settings::default(), Instant::now());
    memory.see([("u", false)].into_iter(), start);
    let mut looks = 0;
    for second in 0..7200 {
        let now = start + secs(second);
        if memory.is_due("u", now) {
            looks += 1;
            memory.answered("u", false, &settings, now);
        }
    }
    assert!((130..170).contains(&looks), "{looks} questions in two hours; upstream asks 2880 times");
}

fn some_taint() -> impl Strategy<Value = Taint> {
    let key = prop::sample::select(vec![SHUTDOWN, INSTANCE_GONE, "x"]);
    let effect = prop::sample::select(vec!["NoSchedule", "NoExecute"]);
    (key, prop::option::of("[ab]"), effect)
        .prop_map(|(key, value, effect)| taint(key, value.as_deref(), effect))
}

#[test]
fn a_node_that_was_off_for_long_is_out_of_service_until_its_kubelet_is_back() {
    const KEY: &str = "node.kubernetes.io/out-of-service";
    let (plain, ours) = (node("a").build(), taint(KEY, Some("nephos-shutdown"), "NoExecute"));
    let both = vec![taint(SHUTDOWN, None, "NoSchedule"), ours.clone()];
    assert_eq!(taints(&plain, Sight::OutOfService), Some(both.clone()));
    let with = |list: &[Taint]| {
        let mut node = node("a").build();
        node.spec.get_or_insert_default().taints = Some(list.to_vec());
        node
    };
    assert_eq!(taints(&with(&both), Sight::OutOfService), None);
    assert_eq!(
        taints(&with(&both), Sight::NotReady(&found(Power::On))),
        None,
        "it boots: its pods stay away"
    );
    assert_eq!(taints(&with(&both), Sight::Ready), Some(vec![]));
    let persons = taint(KEY, Some("disk-dead"), "NoExecute");
    let theirs = with(&[taint(SHUTDOWN, None, "NoSchedule"), persons.clone()]);
    assert_eq!(taints(&theirs, Sight::OutOfService), None, "a person said so before");
    assert_eq!(taints(&theirs, Sight::Ready), Some(vec![persons]));
}

proptest! {
    /// Proves: LIFE-20
    #[test]
    fn carrying_out_a_plan_leaves_nothing_to_plan(list in prop::collection::vec(some_taint(), 0..5), which in 0..5_usize) {
        let answers = [found(Power::Off), found(Power::On), absent()];
        let sight = match which {
            0 => Sight::Ready,
            1 => Sight::Gone,
            other => Sight::NotReady(&answers[other - 2]),
        };
        let mut node = node("a").build();
        node.spec.get_or_insert_default().taints = Some(list.clone());
        if let Some(wanted) = taints(&node, sight) {
            for foreign in list.iter().filter(|each| each.key == "x") {
                prop_assert!(wanted.contains(foreign), "a foreign taint was lost");
            }
            node.spec.get_or_insert_default().taints = Some(wanted);
        }
        prop_assert_eq!(taints(&node, sight), None);
    }

    /// Whatever the numbers, a deletion needs a witness, a plausible picture and an old Node, unless a person said so.
    #[test]
    fn no_deletion_without_proof(
        age in 0..200_u64, known in 0..200_u64, nodes in 0..50_usize, vanished in 0..50_usize,
        witnesses in 0..3_usize, denied in 0..2_usize, unsure in 0..2_usize, budget in 0..3_usize, id: bool,
    ) {
        let case = Case { age: Some(secs(age)), known_for: secs(known), has_provider_id: id, allowed: false };
        let picture = Picture { nodes, vanished, witnesses, denied, unsure, budget };
        let settings = Settings::default();
        if verdict(case, picture, &settings) == Verdict::Delete {
            prop_assert!(age >= 60 && known >= 60 && id && witnesses > 0 && denied + unsure == 0 && budget > 0);
            prop_assert!(vanished <= settings.breaker.of(nodes));
        }
    }
}
