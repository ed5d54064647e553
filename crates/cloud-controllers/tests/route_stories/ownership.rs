use cloud_controllers::around::gate::Mode;
use cloud_controllers::route::Metrics;
use controller_kit::leader::Leadership;
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::RouteEntry;
use tokio::time::sleep;

use crate::scene::{CLUSTER, changes, is_reached, numbered, planted, routes, stage, start, start_as};
use crate::stage::{Stage, secs};

/// Routes that are none of our business, each for its own reason.
fn strangers() -> Vec<(RouteEntry, Option<&'static str>)> {
    let hole = |route: RouteEntry| RouteEntry { blackhole: true, ..route };
    vec![
        // Outside the pod networks, whoever it leads to.
        (planted("office", "n1", "192.168.0.0/24", None), None),
        (planted("default", "n1", "0.0.0.0/0", None), None),
        (planted("super", "n1", "10.0.0.0/8", Some(CLUSTER)), None),
        (hole(planted("hole-outside", "*", "172.16.0.0/24", None)), None),
        // Another cluster's, of the same name, in the same account, with overlapping pod networks.
        (planted("kubernetes-b1-10.244.1.0/24", "b1", "10.244.1.0/24", Some("uid-2")), Some("uid-2")),
        (hole(planted("kubernetes-b2", "*", "10.244.2.0/24", Some("uid-2"))), Some("uid-2")),
        // The same, made by a manager that knows no tags.
        (planted("kubernetes-b3-10.244.3.0/24", "b3", "10.244.3.0/24", None), Some("uid-2")),
        // Somebody's own, to a machine that is no node, and to nowhere.
        (planted("vpn", "vpn-gateway", "10.244.200.0/24", None), Some("somebody")),
        (planted("kubernetes-nowhere", "*", "10.244.201.0/24", None), Some("somebody")),
    ]
}

/// Proves: ROUTE-20, ROUTE-21
#[tokio::test(start_paused = true)]
async fn no_foreign_route_is_ever_touched() {
    let mut stage = stage();
    for (route, maker) in strangers() {
        stage.world.plant_route(route, maker);
    }
    let before = stage.world.contents().routes;
    let metrics = Metrics::register(&mut stage.registry);
    let _running = start_as(&stage, Leadership::unconditional(), Mode::Act, metrics);
    for number in 1..4 {
        stage.server.create(&numbered(number));
    }
    stage.until(secs(5), "all", |stage| (1..4).all(|number| is_reached(stage, &format!("n{number}")))).await;
    stage.server.delete::<Node>("", "n3");
    sleep(secs(1200)).await;
    let after = stage.world.contents().routes;
    assert!(before.iter().all(|route| after.contains(route)), "{after:?}");
    assert_eq!(after.len(), before.len() + 2);
    assert_eq!(stage.world.violations(), [""; 0]);
    assert_eq!(changes(&stage), (3, 1), "nothing is even tried");
    assert_eq!(stage.metric("route_controller_routes_left_alone"), Some(2.0), "named, and unnamed");
}

#[tokio::test(start_paused = true)]
async fn what_is_tagged_as_ours_goes_though_its_node_was_deleted_while_nobody_watched() {
    let stage = stage();
    stage
        .world
        .plant_route(planted("kubernetes-gone", "gone", "10.244.9.0/24", Some(CLUSTER)), Some(CLUSTER));
    let lost =
        RouteEntry { blackhole: true, ..planted("kubernetes-lost", "*", "10.244.8.0/24", Some(CLUSTER)) };
    stage.world.plant_route(lost, Some(CLUSTER));
    stage.server.create(&numbered(1));
    let _running = start(&stage);
    stage.until(secs(5), "only n1's is left", |stage| routes(stage) == ["10.244.1.0/24 n1"]).await;
    assert_eq!(stage.world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn untagged_routes_of_a_former_manager_are_taken_over_by_node() {
    let stage = stage();
    stage.server.create(&numbered(1));
    stage.server.create(&numbered(2));
    // As the Go manager left them: one is right, one leads to a node of ours from a CIDR that it no longer has.
    stage
        .world
        .plant_route(planted("kubernetes-x-10.244.1.0/24", "n1", "10.244.1.0/24", None), Some(CLUSTER));
    stage
        .world
        .plant_route(planted("kubernetes-y-10.244.50.0/24", "n2", "10.244.50.0/24", None), Some(CLUSTER));
    let _running = start(&stage);
    let done = |stage: &Stage| routes(stage) == ["10.244.1.0/24 n1", "10.244.2.0/24 n2"];
    stage.until(secs(5), "the table is right", done).await;
    assert_eq!(changes(&stage), (1, 1), "the right one was kept");
    stage.server.delete::<Node>("", "n1");
    stage.until(secs(15), "it is ours", |stage| routes(stage) == ["10.244.2.0/24 n2"]).await;
}

/// A successor whose cache is behind sees a route to a node that it does not know, or that has another CIDR there.
#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_behind_costs_no_living_node_its_route() {
    let stage = stage();
    stage.server.create(&numbered(1));
    sleep(secs(1)).await;
    stage.server.faults().travel_back(0, secs(60));
    // All that the former leader did, and this cache does not show.
    for number in [2, 3] {
        stage.server.create(&numbered(number));
        let mut route = planted(
            &format!("kubernetes-{number}"),
            &format!("n{number}"),
            &format!("10.244.{number}.0/24"),
            Some(CLUSTER),
        );
        route.addresses = [("InternalIP".to_owned(), format!("10.0.0.{}", number + 1))].into();
        stage.world.plant_route(route, Some(CLUSTER));
    }
    let _running = start(&stage);
    sleep(secs(30)).await;
    assert_eq!(stage.nodes.len(), 1, "the cache is still behind");
    assert_eq!(routes(&stage), ["10.244.1.0/24 n1", "10.244.2.0/24 n2", "10.244.3.0/24 n3"]);
    assert_eq!(changes(&stage), (1, 0));
    stage.until(secs(300), "it catches up", |stage| is_reached(stage, "n2") && is_reached(stage, "n3")).await;
}
