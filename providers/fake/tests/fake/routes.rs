//! Routes: made once, listed only when ours, removed as listed.

use std::time::Duration;

use cloud_provider::ownership::CLUSTER_TAG;
use cloud_provider::{Cloud, Decision, Error, Route};
use k8s_openapi::api::core::v1::NodeAddress;
use provider_fake::objects::RouteEntry;
use provider_fake::{Config, Effect, Fault};

use crate::support::{CLUSTER, cluster, fake, open_gate};

fn route(node: &str, network: &str) -> Route {
    let address = NodeAddress { type_: "InternalIP".into(), address: "10.0.0.1".into() };
    Route::new(network.parse().unwrap()).to_node(node, vec![address])
}

async fn create(cloud: &Cloud, hint: &str, route: &Route) -> Result<(), Error> {
    cloud.routes.as_ref().unwrap().create(&cluster(CLUSTER), hint, route, &open_gate()).await
}

async fn list(cloud: &Cloud) -> Vec<Route> {
    cloud.routes.as_ref().unwrap().list(&cluster(CLUSTER)).await.unwrap()
}

fn planted(name: &str, node: Option<&str>, network: &str) -> RouteEntry {
    RouteEntry {
        id: String::new(),
        name: name.into(),
        destination: network.parse().unwrap(),
        node: node.map(str::to_owned),
        addresses: Vec::new(),
        blackhole: false,
        tags: std::collections::BTreeMap::new(),
    }
}

/// Proves: IFACE-33, IFACE-34
#[tokio::test(start_paused = true)]
async fn both_families_of_a_node_are_made_once_and_listed_as_made() {
    let (world, cloud) = fake(Config { page_size: 1, ..Config::default() });
    for network in ["10.244.1.0/24", "fd00:1::/64"] {
        for _ in 0..2 {
            create(&cloud, "node-uid", &route("a", network)).await.unwrap();
        }
    }
    let listed = list(&cloud).await;
    assert_eq!(listed.len(), 2);
    for (listed, network) in listed.iter().zip(["10.244.1.0/24", "fd00:1::/64"]) {
        assert_eq!(*listed, route("a", network).named(format!("kubernetes-node-uid-{network}")));
    }
    assert_eq!(world.violations(), [""; 0]);
    for route in listed {
        for _ in 0..2 {
            cloud.routes.as_ref().unwrap().delete(&cluster(CLUSTER), &route, &open_gate()).await.unwrap();
        }
    }
    assert_eq!(world.contents().routes, []);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_lagging_list_make_no_second_route() {
    let (world, cloud) = fake(Config { invisible_for: Duration::from_secs(60), ..Config::default() });
    world.inject(Fault::once("create_route", Effect::LoseAnswer)).unwrap();
    create(&cloud, "u", &route("a", "10.244.1.0/24")).await.unwrap_err();
    create(&cloud, "u", &route("a", "10.244.1.0/24")).await.unwrap();
    assert_eq!(world.contents().routes.len(), 1);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_leads_to_an_old_address_is_replaced() {
    let (world, cloud) = fake(Config::default());
    create(&cloud, "u", &route("a", "10.244.1.0/24")).await.unwrap();
    let mut moved = route("a", "10.244.1.0/24");
    moved.target_addresses =
        Some(vec![NodeAddress { type_: "InternalIP".into(), address: "10.0.0.9".into() }]);
    create(&cloud, "u", &moved).await.unwrap();
    let routes = world.contents().routes;
    assert_eq!(routes.len(), 1);
    assert_eq!(routes[0].addresses, [("InternalIP".to_owned(), "10.0.0.9".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_provably_ours_is_listed_or_removed() {
    let pods = "10.244.0.0/16".parse().unwrap();
    let (world, cloud) = fake(Config { pod_networks: vec![pods], ..Config::default() });
    let mut foreign = planted("kubernetes-x", Some("a"), "10.244.9.0/24");
    foreign.tags.insert(CLUSTER_TAG.into(), "cluster-2".into());
    world.plant_route(foreign, Some("cluster-2"));
    world.plant_route(planted("by-hand", Some("stranger"), "10.244.8.0/24"), Some("somebody"));
    world.plant_route(planted("kubernetes-office", None, "192.168.0.0/16"), Some("somebody"));
    let left = planted("kubernetes-old-uid", Some("gone"), "10.244.7.0/24");
    world.plant_route(left, None);

    let listed = list(&cloud).await;
    assert_eq!(listed.iter().map(|route| route.name.as_str()).collect::<Vec<_>>(), ["kubernetes-old-uid"]);
    assert_eq!(listed[0].target_addresses, None, "nothing told is nothing to compare");
    cloud.routes.as_ref().unwrap().delete(&cluster(CLUSTER), &listed[0], &open_gate()).await.unwrap();
    let mut theirs = Route::new("10.244.9.0/24".parse().unwrap()).named("kubernetes-x");
    theirs.target_node = Some("a".into());
    let refused =
        cloud.routes.as_ref().unwrap().delete(&cluster(CLUSTER), &theirs, &open_gate()).await.unwrap_err();
    assert_eq!(refused.decision(), &Decision::NotOwned);
    assert_eq!(world.contents().routes.len(), 3);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stops_before_its_end_is_an_error() {
    for effect in [Effect::Fail, Effect::RepeatPage] {
        let (world, cloud) = fake(Config { page_size: 1, ..Config::default() });
        for network in ["10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"] {
            create(&cloud, "u", &route("a", network)).await.unwrap();
        }
        world.inject(Fault::new("list_routes", effect).on_page(2)).unwrap();
        assert!(cloud.routes.as_ref().unwrap().list(&cluster(CLUSTER)).await.is_err(), "{effect:?}");
    }
}
