use cloud_controllers::around::gate::Mode;
use cloud_controllers::route::{ALIAS, Metrics, NAME, RUNNING_NAME};
use controller_kit::leader::Leadership;
use k8s_openapi::api::core::v1::{Event, Node};
use provider_fake::{Effect, Fault, Operation};
use testkit::node;
use tokio::time::sleep;

use crate::scene::{changes, is_reached, lists, numbered, routes, stage, start, start_as};
use crate::stage::secs;

/// Proves: ROUTE-10, ROUTE-16, ROUTE-26, ROUTE-31, ROUTE-32, COST-12
#[tokio::test(start_paused = true)]
async fn a_new_node_costs_its_routes_one_patch_and_no_list() {
    let stage = stage();
    let _running = start(&stage);
    sleep(secs(20)).await;
    let mark = stage.world.age();
    stage.server.create(
        &node("a").internal_ip("10.0.0.7").pod_cidr("10.244.1.0/24").pod_cidr("fd00:10:0:1::/64").build(),
    );
    let took = stage.until(secs(5), "it is reached", |stage| is_reached(stage, "a")).await;
    assert!(took < secs(1), "{took:?}");
    assert_eq!(routes(&stage), ["10.244.1.0/24 a", "fd00:10:0:1::/64 a"]);
    assert_eq!((changes(&stage), lists(&stage, mark)), ((2, 0), 0));
    let made = &stage.world.contents().routes[0];
    let uid = stage.node("a").unwrap().metadata.uid.unwrap();
    assert_eq!(made.name, format!("kubernetes-{uid}-10.244.1.0/24"), "the hint is the UID");
    assert!(made.addresses.iter().eq([&("InternalIP".to_owned(), "10.0.0.7".to_owned())]));
    sleep(secs(200)).await;
    let writes = stage.server.requests().user_agent("route").writes();
    assert_eq!(writes.count(), 1, "{writes}");
    assert!(stage.events_about("a").is_empty());
    assert_eq!(stage.world.violations(), [""; 0]);
}

/// Proves: ROUTE-16
#[tokio::test(start_paused = true)]
async fn a_node_that_no_cloud_has_looked_at_waits_for_its_addresses() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&node("a").uninitialized().hostname("a").pod_cidr("10.244.1.0/24").build());
    stage.server.create(&node("b").uninitialized().pod_cidr("10.244.2.0/24").build());
    sleep(secs(400)).await;
    assert_eq!((changes(&stage), crate::scene::condition(&stage, "a")), ((0, 0), None));
    // Its addresses come before the taint goes: the route is there when the first pod may come.
    stage.server.modify("", "a", |node: &mut Node| {
        let told = testkit::node("a").internal_ip("10.0.0.7").hostname("a").build();
        node.status.as_mut().unwrap().addresses = told.status.unwrap().addresses;
    });
    stage.until(secs(1), "it is reached", |stage| is_reached(stage, "a")).await;
    // A cloud that knows no addresses takes the taint all the same.
    stage.server.modify("", "b", |node: &mut Node| node.spec.as_mut().unwrap().taints = None);
    stage.until(secs(1), "it is reached", |stage| is_reached(stage, "b")).await;
    assert_eq!(changes(&stage), (2, 0));
}

/// Proves: ROUTE-16, ROUTE-20
#[tokio::test(start_paused = true)]
async fn the_routes_of_deleted_nodes_go_with_one_list_for_all_of_them() {
    let stage = stage();
    let _running = start(&stage);
    for number in 0..40 {
        stage.server.create(&numbered(number));
    }
    stage
        .until(secs(30), "all", |stage| (0..40).all(|number| is_reached(stage, &format!("n{number}"))))
        .await;
    sleep(secs(30)).await;
    let mark = stage.world.age();
    for number in 1..40 {
        stage.server.delete::<Node>("", &format!("n{number}"));
    }
    let took = stage.until(secs(10), "one is left", |stage| routes(stage) == ["10.244.0.0/24 n0"]).await;
    assert!(took < secs(3), "{took:?}");
    assert_eq!(lists(&stage, mark), 1);
    assert_eq!(changes(&stage), (40, 39));
    assert_eq!(stage.world.violations(), [""; 0]);
}

/// Proves: ROUTE-11, ROUTE-12
#[tokio::test(start_paused = true)]
async fn however_much_changes_lists_keep_their_distance() {
    let stage = stage();
    let _running = start(&stage);
    sleep(secs(60)).await;
    let mark = stage.world.age();
    for round in 0..120 {
        stage.server.create(&numbered(round));
        sleep(secs(1)).await;
        stage.server.delete::<Node>("", &format!("n{round}"));
    }
    let count = lists(&stage, mark);
    assert!((10..=13).contains(&count), "{count} lists in two minutes of constant change");
    stage.until(secs(20), "nothing is left", |stage| routes(stage).is_empty()).await;
}

/// Proves: ROUTE-18, ROUTE-25
#[tokio::test(start_paused = true)]
async fn a_node_with_new_addresses_has_its_route_replaced_old_before_new() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&numbered(1));
    stage.until(secs(5), "it is reached", |stage| is_reached(stage, "n1")).await;
    stage.server.modify("", "n1", |node: &mut Node| {
        node.status.as_mut().unwrap().addresses.as_mut().unwrap()[0].address = "10.0.0.99".into();
    });
    let moved = |stage: &crate::stage::Stage| {
        let routes = stage.world.contents().routes;
        routes.len() == 1 && routes[0].addresses.iter().any(|(_, address)| address == "10.0.0.99")
    };
    stage.until(secs(15), "the route follows", moved).await;
    let changed = |call: &provider_fake::world::Call| call.operation.is_write().then_some(call.operation);
    let order: Vec<Operation> = stage.world.calls().iter().filter_map(changed).collect();
    assert_eq!(order, [Operation::CreateRoute, Operation::DeleteRoute, Operation::CreateRoute]);
    sleep(secs(60)).await;
    assert!(is_reached(&stage, "n1"));
    assert_eq!(stage.server.requests().user_agent("route").writes().count(), 1, "it was reached all along");
    assert_eq!(stage.world.violations(), [""; 0]);
}

/// Proves: ROUTE-20, ROUTE-22, ROUTE-23
#[tokio::test(start_paused = true)]
async fn what_somebody_broke_by_hand_the_audit_repairs() {
    let stage = stage();
    let _running = start(&stage);
    for number in 0..4 {
        stage.server.create(&numbered(number));
    }
    stage.until(secs(5), "all", |stage| (0..4).all(|number| is_reached(stage, &format!("n{number}")))).await;
    let healthy = routes(&stage);
    let made = stage.world.contents().routes;
    // One is gone, one is a black hole, one is doubled, and one leads to the wrong node.
    assert!(stage.world.remove_route(&made[0].id) && stage.world.remove_route(&made[1].id));
    let tagged = |route: &provider_fake::objects::RouteEntry| provider_fake::objects::RouteEntry {
        id: String::new(),
        ..route.clone()
    };
    stage.world.plant_route(
        provider_fake::objects::RouteEntry { blackhole: true, ..tagged(&made[1]) },
        Some(crate::scene::CLUSTER),
    );
    stage.world.plant_route(
        provider_fake::objects::RouteEntry { name: "kubernetes-second".into(), ..tagged(&made[2]) },
        Some(crate::scene::CLUSTER),
    );
    stage.world.plant_route(
        provider_fake::objects::RouteEntry {
            name: "kubernetes-wrong".into(),
            node: Some("n0".into()),
            ..tagged(&made[3])
        },
        Some(crate::scene::CLUSTER),
    );
    assert_ne!(routes(&stage), healthy);
    let repaired = |stage: &crate::stage::Stage| {
        routes(stage) == healthy && stage.world.contents().routes.iter().all(|route| !route.blackhole)
    };
    stage.until(secs(310), "it is repaired", repaired).await;
    assert_eq!(stage.world.violations(), [""; 0]);
}

/// Proves: ROUTE-24
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_nobody_else_and_calls_are_bounded() {
    let stage = stage();
    let _running = start(&stage);
    sleep(secs(20)).await;
    stage.world.inject(Fault::once("create_route", Effect::Hang)).unwrap();
    stage.server.create(&numbered(0));
    sleep(secs(1)).await;
    for number in 1..200 {
        stage.server.create(&numbered(number));
    }
    stage
        .until(secs(10), "all others", |stage| {
            (1..200).all(|number| is_reached(stage, &format!("n{number}")))
        })
        .await;
    assert!(!is_reached(&stage, "n0"));
    stage.until(secs(120), "it too, after the deadline", |stage| is_reached(stage, "n0")).await;
    assert!(stage.world.counters().max_in_flight <= 16, "{}", stage.world.counters().max_in_flight);
    assert_eq!(routes(&stage).len(), 200);
    assert_eq!(stage.world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn in_observe_mode_nothing_is_written_anywhere() {
    let stage = stage();
    stage.world.plant_route(
        crate::scene::planted("kubernetes-old", "gone", "10.244.9.0/24", Some(crate::scene::CLUSTER)),
        Some(crate::scene::CLUSTER),
    );
    let _running = start_as(&stage, Leadership::unconditional(), Mode::Observe, Metrics::unregistered());
    stage.server.create(&numbered(1));
    sleep(secs(900)).await;
    assert_eq!(changes(&stage), (0, 0));
    assert!(stage.server.requests().user_agent("route").writes().is_empty());
    assert!(stage.events_about("n1").is_empty());
}

/// Proves: ROUTE-7
#[tokio::test(start_paused = true)]
async fn it_goes_by_upstreams_names() {
    assert_eq!((NAME, ALIAS, RUNNING_NAME), ("node-route-controller", "route", "route"));
    let stage = stage();
    let _running = start(&stage);
    stage.world.inject(Fault::new("create_route", Effect::Fail)).unwrap();
    stage.server.create(&numbered(1));
    stage.until(secs(5), "the event", |stage| !stage.events_about("n1").is_empty()).await;
    let event = stage.server.list::<Event>().remove(0);
    assert_eq!(event.source.unwrap().component.as_deref(), Some("route_controller"));
    assert_eq!(event.involved_object.api_version.as_deref(), Some("v1"));
    assert_eq!(event.involved_object.uid, stage.node("n1").unwrap().metadata.uid);
}
