use cloud_provider::Instance;
use proptest::prelude::*;
use rstest::rstest;

use crate::node::labels::{Labels, Policy, at_initialisation, at_refresh, mirror};

/// `a=1 b=2`; a short name stands for a well-known label.
pub(super) fn labels(text: &str) -> Labels {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').unwrap();
        (key_of(key), value.to_owned())
    };
    text.split_whitespace().map(pair).collect()
}

fn key_of(short: &str) -> String {
    match short {
        "zone" => "topology.kubernetes.io/zone",
        "beta-zone" => "failure-domain.beta.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "beta-region" => "failure-domain.beta.kubernetes.io/region",
        "type" => "node.kubernetes.io/instance-type",
        "beta-type" => "beta.kubernetes.io/instance-type",
        other => other,
    }
    .to_owned()
}

pub(super) fn instance() -> Instance {
    Instance::new("fake://a".parse().unwrap())
}

/// Proves: NODE-21, NODE-22, NODE-23
#[test]
fn zone_region_and_type_are_written_under_both_names_whatever_was_there() {
    let (set, _) =
        at_initialisation(&labels("zone=old beta-type=old"), &instance().of_type("m1").located("z", "r"));
    assert_eq!(set, labels("zone=z beta-zone=z region=r beta-region=r type=m1 beta-type=m1"));
}

/// Proves: NODE-24
#[test]
fn what_the_cloud_does_not_know_sets_and_removes_nothing() {
    let (set, dropped) = at_initialisation(&labels("zone=z type=t"), &instance());
    assert!(set.is_empty() && dropped.is_empty());
}

/// Proves: NODE-27
#[rstest]
#[case("rack", "7", true)]
#[case("example.com/rack", "7", true)]
#[case("app.k8snio/x", "1", true)]
#[case("k8snio/x", "1", true)]
#[case("notk8s.io/x", "1", true)]
#[case("topology.kubernetes.io/region", "r", false)]
#[case("k8s.io/x", "1", false)]
#[case("kubernetes.io/x", "1", false)]
#[case("node.k8s.io/x", "1", false)]
#[case("has", "other", false)]
#[case("has", "1", false)]
#[case("-bad", "1", false)]
#[case("a/b/c", "1", false)]
#[case("Upper.Domain/x", "1", false)]
#[case("rack", "a value with spaces", false)]
fn an_additional_label_is_added_where_it_is_the_providers_business(
    #[case] key: &str,
    #[case] value: &str,
    #[case] added: bool,
) {
    let (set, dropped) = at_initialisation(&labels("has=1"), &instance().label(key, value));
    assert_eq!(set.contains_key(key), added);
    let silent = added || (key, value) == ("has", "1");
    assert_eq!(dropped.is_empty(), silent, "only what differs is worth a word: {dropped:?}");
}

#[test]
fn a_zone_that_cannot_be_a_label_is_left_out_instead_of_blocking_the_node() {
    let (set, dropped) = at_initialisation(&Labels::new(), &instance().located("zone one", "r"));
    assert_eq!(set, labels("region=r beta-region=r"));
    assert_eq!(dropped[0].key, "topology.kubernetes.io/zone");
}

/// Proves: NODE-40, NODE-41, NODE-42, NODE-43
#[rstest]
#[case::the_beta_label_makes_its_counterpart("beta-zone=z", "zone=z")]
#[case::and_wins_over_it("beta-zone=z zone=edited beta-region=r beta-type=t", "zone=z region=r type=t")]
#[case::a_missing_one_is_not_made("zone=z", "")]
#[case::agreement_needs_nothing("zone=z beta-zone=z", "")]
#[case::no_labels("", "")]
fn set_once_lets_the_beta_label_win(#[case] current: &str, #[case] set: &str) {
    assert_eq!(mirror(&labels(current), Policy::SetOnce), labels(set));
}

#[rstest]
#[case("zone=z", "beta-zone=z")]
#[case("zone=z beta-zone=old", "beta-zone=z")]
#[case("beta-zone=z", "zone=z")]
#[case("zone=z beta-zone=z", "")]
fn reconcile_lets_the_stable_label_win(#[case] current: &str, #[case] set: &str) {
    assert_eq!(mirror(&labels(current), Policy::Reconcile), labels(set));
}

/// Proves: NODE-26, NODE-28
#[test]
fn set_once_ignores_what_changes_in_the_cloud_later() {
    let moved = instance().located("z2", "r").label("rack", "7");
    let (set, _) = at_refresh(&labels("zone=z1 beta-zone=z1"), &moved, Policy::SetOnce);
    assert_eq!(set, Labels::new());
}

#[test]
fn reconcile_follows_the_cloud_and_takes_the_beta_labels_along() {
    let moved = instance().located("z2", "").label("rack", "7");
    let (set, _) = at_refresh(&labels("zone=z1 beta-zone=z1 region=r"), &moved, Policy::Reconcile);
    assert_eq!(set, labels("zone=z2 beta-zone=z2 beta-region=r rack=7"));
}

fn some_labels() -> impl Strategy<Value = Labels> {
    let keys =
        prop::sample::select(vec!["zone", "beta-zone", "region", "beta-region", "type", "beta-type", "rack"]);
    prop::collection::btree_map(keys.prop_map(key_of), "[ab]", 0..7)
}

proptest! {
    #[test]
    fn labels_that_were_set_need_no_setting(
        current in some_labels(),
        zone in "[ab]?", region in "[ab]?", kind in "[ab]?", rack in "[ab]",
        reconcile: bool,
    ) {
        let policy = if reconcile { Policy::Reconcile } else { Policy::SetOnce };
        let cloud = instance().of_type(kind).located(zone, region).label("rack", rack);
        let (set, _) = at_initialisation(&current, &cloud);
        let mut then = current.clone();
        then.extend(set);
        prop_assert!(at_initialisation(&then, &cloud).0.is_empty());
        for start in [current, then] {
            let (set, _) = at_refresh(&start, &cloud, policy);
            let mut after = start.clone();
            after.extend(set);
            prop_assert!(at_refresh(&after, &cloud, policy).0.is_empty());
            prop_assert!(mirror(&after, policy).is_empty(), "a node event must not undo a refresh: {:?}", after);
        }
    }
}
