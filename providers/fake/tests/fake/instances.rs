//! Bulk look-up over a cloud that lags, breaks, lies and shows strangers.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::well_known::annotations::PROVIDED_NODE_IP;
use cloud_provider::{CloudConfig, Decision, Doubt, Evidence, Existence, Freshness, NodeRef, Power};
use k8s_openapi::api::core::v1::NodeAddress;
use provider_fake::objects::Machine;
use provider_fake::{Config, Effect, Fault, NAME, Operation, PROVIDER, World};

use crate::support::{context, fake, node_ref, node_with_id};

fn inventory(names: &[&str]) -> Config {
    let instances = names.iter().map(|name| Machine::new(*name)).collect();
    Config { adopt: false, page_size: 2, instances, ..Config::default() }
}

async fn ask(
    config: Config,
    faults: Vec<Fault>,
    nodes: &[NodeRef],
    freshness: Freshness,
) -> (World, Vec<Existence>) {
    let (world, cloud) = fake(config);
    for fault in faults {
        world.inject(fault).unwrap();
    }
    let answers = cloud.instances.unwrap().lookup(nodes, freshness).await.unwrap();
    assert_eq!(answers.len(), nodes.len());
    (world, answers)
}

fn addresses(existence: &Existence) -> Vec<(String, String)> {
    let Existence::Found(found) = existence else { panic!("not found: {existence:?}") };
    found.addresses.iter().map(|each| (each.type_.clone(), each.address.clone())).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(type_, address)| ((*type_).to_owned(), (*address).to_owned())).collect()
}

/// Proves: IFACE-28, IFACE-29
#[tokio::test(start_paused = true)]
async fn with_nothing_but_a_latency_every_node_is_an_instance() {
    let config = CloudConfig::from_bytes("fake.yaml", "latency: 20ms");
    let cloud = (PROVIDER.build)(context("c1").with_config(Some(config))).await.unwrap();
    let mut told = node_ref("told");
    told.annotations.insert(PROVIDED_NODE_IP.into(), "10.0.0.1, fd00::1".into());
    let mut registered = node_with_id("registered", "fake://i-7");
    for (type_, address) in [("InternalIP", "10.0.0.2"), ("ExternalIP", "192.0.2.9"), ("Hostname", "x")] {
        registered.addresses.push(NodeAddress { type_: type_.into(), address: address.into() });
    }
    let nodes = [told, registered, node_ref("bare"), node_with_id("foreign", "aws:///z/i-1")];

    let started = tokio::time::Instant::now();
    let answers = cloud.instances.unwrap().lookup(&nodes, Freshness::Now).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(20), "one call for all of them");

    let both = pairs(&[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "told")]);
    assert_eq!(addresses(&answers[0]), both);
    assert_eq!(addresses(&answers[1]), pairs(&[("InternalIP", "10.0.0.2"), ("Hostname", "registered")]));
    assert_eq!(addresses(&answers[2]), pairs(&[("InternalIP", "10.128.0.1"), ("Hostname", "bare")]));
    assert!(matches!(answers[3], Existence::NotMine));
    let ids: Vec<String> = answers[..3]
        .iter()
        .map(|answer| match answer {
            Existence::Found(found) => {
                assert_eq!(found.zone.as_deref(), Some("fake-1a"));
                assert_eq!(found.region.as_deref(), Some("fake-1"));
                assert_eq!(found.instance_type.as_deref(), Some("fake.small"));
                found.provider_id.as_ref().unwrap().to_string()
            }
            other => panic!("not found: {other:?}"),
        })
        .collect();
    assert_eq!(ids, ["fake://told", "fake://i-7", "fake://bare"]);
    assert_eq!(PROVIDER.name, NAME);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_instance_that_was_removed_stays_away_and_a_stopped_one_stays_stopped() {
    let (world, cloud) = fake(Config::default());
    let instances = cloud.instances.unwrap();
    let nodes = [node_with_id("a", "fake://a"), node_with_id("b", "fake://b"), node_with_id("c", "fake://c")];
    instances.lookup(&nodes, Freshness::Now).await.unwrap();
    assert!(world.remove_machine("b") && world.set_stopped("c", true));

    let mut moved = nodes.to_vec();
    for node in &mut moved {
        node.annotations.insert(PROVIDED_NODE_IP.into(), "10.9.9.9".into());
    }
    let answers = instances.lookup(&moved, Freshness::Now).await.unwrap();
    assert_eq!(addresses(&answers[0])[0].1, "10.9.9.9", "it is brought up to date");
    assert!(matches!(&answers[1], Existence::Absent(Evidence::NotFound { .. })), "{:?}", answers[1]);
    assert!(matches!(&answers[2], Existence::Found(found) if found.power == Power::Off));
}

#[tokio::test(start_paused = true)]
async fn five_nodes_cost_as_many_calls_as_there_are_pages() {
    let names = ["a", "b", "c", "d", "e"];
    let nodes: Vec<NodeRef> = names.iter().map(|name| node_ref(name)).collect();
    let (world, answers) = ask(inventory(&names), vec![], &nodes, Freshness::Recent).await;
    assert!(answers.iter().all(|answer| matches!(answer, Existence::Found(_))));
    assert_eq!(world.counters().total(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_nodes_cost_no_call() {
    let (world, answers) = ask(inventory(&["a"]), vec![], &[], Freshness::Now).await;
    assert!(answers.is_empty());
    assert_eq!(world.counters().total(), 0);
}

/// Proves: IFACE-21, IFACE-24
#[tokio::test(start_paused = true)]
async fn absence_is_confirmed_by_a_call_of_its_own_before_it_can_cost_a_node_its_life() {
    let nodes = [node_with_id("a", "fake://a"), node_with_id("gone", "fake://gone")];
    let (world, answers) = ask(inventory(&["a"]), vec![], &nodes, Freshness::Now).await;
    let Existence::Absent(Evidence::NotFound { asked }) = &answers[1] else { panic!("{:?}", answers[1]) };
    assert_eq!(asked, "GET /v1/instances/gone");
    assert_eq!(world.counters().of(Operation::GetInstance), 1, "only for the one that is missing");
    let (_, answers) = ask(inventory(&["a"]), vec![], &nodes, Freshness::Recent).await;
    assert!(matches!(&answers[1], Existence::Absent(Evidence::NotListed { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_instance_too_young_for_lists_is_found_by_its_id() {
    let (world, cloud) = fake(Config { invisible_for: Duration::from_secs(60), ..inventory(&["old"]) });
    world.add_machine(Machine::new("young"));
    let nodes = [node_with_id("young", "fake://young")];
    let answers = cloud.instances.unwrap().lookup(&nodes, Freshness::Now).await.unwrap();
    assert!(matches!(&answers[0], Existence::Found(_)), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_or_goes_in_circles_proves_presence_and_no_absence() {
    for effect in [Effect::Fail, Effect::RepeatPage, Effect::Unauthorized] {
        let nodes = [node_with_id("a", "fake://a"), node_with_id("gone", "fake://gone")];
        let faults = vec![Fault::new("list_instances", effect).on_page(2)];
        let (_, answers) = ask(inventory(&["a", "b", "c", "d"]), faults, &nodes, Freshness::Now).await;
        assert!(matches!(&answers[0], Existence::Found(_)), "{effect:?}");
        assert!(
            matches!(&answers[1], Existence::Unknown(Doubt::Incomplete(_))),
            "{effect:?}: {:?}",
            answers[1]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_inventory_is_never_an_absence() {
    let nodes = [node_with_id("a", "fake://a"), node_ref("b")];
    let faults = vec![Fault::new("reads", Effect::Empty)];
    let (world, answers) = ask(inventory(&["a", "b"]), faults, &nodes, Freshness::Now).await;
    assert!(answers.iter().all(|answer| matches!(answer, Existence::Unknown(Doubt::EmptyInventory))));
    assert_eq!(world.counters().of(Operation::GetInstance), 0, "and nobody is asked one by one");
}

#[tokio::test(start_paused = true)]
async fn an_instance_on_two_pages_is_one_and_two_of_one_name_are_ambiguous() {
    let faults = vec![Fault::new("list_instances", Effect::Duplicate)];
    let (_, answers) = ask(inventory(&["a", "b"]), faults, &[node_ref("a")], Freshness::Now).await;
    assert!(matches!(&answers[0], Existence::Found(_)));

    let mut config = inventory(&["a"]);
    config.instances.push(Machine::new("a").with_id("clone"));
    let (_, answers) = ask(config, vec![], &[node_ref("a")], Freshness::Now).await;
    assert!(matches!(&answers[0], Existence::Unknown(Doubt::Ambiguous(ids)) if ids.len() == 2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_an_error_with_the_clouds_decision() {
    let after = Some(Duration::from_secs(3));
    let cases = [
        (Fault::new("*", Effect::Forbidden), Decision::Unauthorized),
        (Fault::new("*", Effect::Throttle).after(Duration::from_secs(3)), Decision::Throttled { after }),
        (Fault::new("*", Effect::Fail), Decision::Other),
    ];
    for (fault, decision) in cases {
        let (world, cloud) = fake(inventory(&["a"]));
        world.inject(fault).unwrap();
        let refused = cloud.instances.unwrap().lookup(&[node_ref("a")], Freshness::Now).await.unwrap_err();
        assert_eq!(refused.decision(), &decision);
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_are_listed_with_their_addresses() {
    let clusters = [("blue".to_owned(), "https://192.0.2.1".to_owned())].into();
    let (_, cloud) = fake(Config { clusters, ..Config::default() });
    let clusters = Arc::clone(cloud.clusters.as_ref().unwrap());
    assert_eq!(clusters.list().await.unwrap(), ["blue"]);
    assert_eq!(clusters.control_plane_address("blue").await.unwrap(), "https://192.0.2.1");
    let missing = clusters.control_plane_address("red").await.unwrap_err();
    assert_eq!(missing.decision(), &Decision::NotFound);
}
