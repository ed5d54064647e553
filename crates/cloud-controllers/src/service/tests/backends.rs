use std::sync::Arc;

use controller_kit::cache::Change;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use testkit::{EPOCH, node};

use crate::service::backends::{Backends, is_eligible, triggers};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn going(mut node: Node) -> Node {
    node.metadata.deletion_timestamp = Some(Time(EPOCH));
    node
}

/// Proves: SVC-46, SVC-47, SVC-48, NAMES-1
#[rstest]
#[case(node("a").ready().build(), true)]
#[case(node("a").not_ready().build(), true)]
#[case(node("a").build(), true)]
#[case(node("a").uninitialized().build(), true)]
#[case(node("a").unschedulable().build(), true)]
#[case(node("a").label(EXCLUDE, "").build(), false)]
#[case(node("a").label(EXCLUDE, "true").build(), false)]
#[case(node("a").label(EXCLUDE, "no").build(), false)]
#[case(node("a").label(EXCLUDE, "fAlse").build(), false)]
#[case(node("a").label(EXCLUDE, "false").build(), true)]
#[case(node("a").label(EXCLUDE, "0").build(), true)]
#[case(node("a").label(EXCLUDE, "f").build(), true)]
#[case(node("a").label(EXCLUDE, "F").build(), true)]
#[case(node("a").label(EXCLUDE, "FALSE").build(), true)]
#[case(node("a").label(EXCLUDE, "False").build(), true)]
#[case(node("a").taint("ToBeDeletedByClusterAutoscaler", "1700000000", "NoSchedule").build(), false)]
#[case(node("a").taint("ToBeDeletedByClusterAutoscaler", "", "NoExecute").build(), false)]
#[case(going(node("a").ready().build()), false)]
fn readiness_does_not_matter_and_exclusion_taint_and_deletion_do(#[case] node: Node, #[case] eligible: bool) {
    assert_eq!(is_eligible(&node), eligible);
}

/// Proves: SVC-45, WEAK-23
#[rstest]
#[case::excluded(|node: &mut Node| node.metadata.labels = Some([(EXCLUDE.to_owned(), String::new())].into()), true)]
#[case::provider_id(|node: &mut Node| node.spec.get_or_insert_default().provider_id = Some("fake://b".into()), true)]
#[case::address(|node: &mut Node| node.status.get_or_insert_default().addresses.get_or_insert_default()[0].address = "10.0.0.2".into(), true)]
#[case::label(|node: &mut Node| node.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()), false)]
#[case::readiness(|node: &mut Node| node.status.get_or_insert_default().conditions = None, false)]
#[case::deletion(|node: &mut Node| node.metadata.deletion_timestamp = Some(Time(EPOCH)), false)]
#[case::taint(|node: &mut Node| node.spec.get_or_insert_default().taints = testkit::node("x").taint("ToBeDeletedByClusterAutoscaler", "", "NoSchedule").build().spec.unwrap().taints, false)]
fn only_what_a_balancer_is_set_up_with_triggers(#[case] edit: fn(&mut Node), #[case] matters: bool) {
    let old = node("a").provider_id("fake://a").internal_ip("10.0.0.1").ready().build();
    let mut new = old.clone();
    edit(&mut new);
    assert_ne!(old, new);
    assert_eq!(triggers(&Change::Updated { old: Arc::new(old), new: Arc::new(new) }), matters);
}

/// Proves: SVC-44
#[test]
fn a_node_that_comes_or_goes_triggers() {
    let node = Arc::new(node("a").build());
    assert!(triggers(&Change::Added(Arc::clone(&node))));
    assert!(triggers(&Change::Deleted(node)));
    assert!(!triggers(&Change::Synced));
}

#[test]
fn two_sets_are_equal_if_a_balancer_would_be_set_up_alike() {
    let set = |nodes: Vec<Node>| Backends::among(nodes.into_iter().map(Arc::new));
    let (a, b) = (node("a").internal_ip("10.0.0.1"), node("b").internal_ip("10.0.0.2"));
    let both = set(vec![a.clone().build(), b.clone().build()]);
    assert!(both == set(vec![b.clone().ready().build(), a.clone().label("x", "y").build()]), "another order");
    assert!(both != set(vec![a.clone().build()]));
    assert!(both != set(vec![a.build(), b.external_ip("192.0.2.1").build()]));
    assert_eq!(both.nodes().len(), 2);
}
