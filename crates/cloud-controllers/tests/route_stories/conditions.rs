use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use testkit::{Fault, Verb, When, node};
use tokio::time::sleep;

use crate::scene::{CLUSTER, condition, is_reached, is_unreached, numbered, planted, routes, stage, start};
use crate::stage::secs;

/// Proves: ROUTE-33
#[tokio::test(start_paused = true)]
async fn a_node_without_pod_cidrs_to_which_routes_led_is_not_reached_any_more() {
    let stage = stage();
    stage.server.create(&node("a").build());
    stage.world.plant_route(planted("kubernetes-a", "a", "10.244.1.0/24", Some(CLUSTER)), Some(CLUSTER));
    let _running = start(&stage);
    stage.until(secs(5), "the condition", |stage| is_unreached(stage, "a")).await;
    stage.until(secs(5), "the route goes", |stage| routes(stage).is_empty()).await;
    sleep(secs(900)).await;
    assert_eq!(stage.server.requests().user_agent("route").writes().count(), 1);
}

/// Proves: ROUTE-35, ROUTE-36
#[tokio::test(start_paused = true)]
async fn the_condition_is_patched_for_this_very_node_and_others_survive() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&numbered(1));
    stage.server.modify("", "n1", |node: &mut Node| {
        let ready = testkit::node("n1").ready().build();
        node.status.as_mut().unwrap().conditions = ready.status.unwrap().conditions;
    });
    stage.until(secs(5), "it is reached", |stage| is_reached(stage, "n1")).await;
    let conditions = stage.node("n1").unwrap().status.unwrap().conditions.unwrap();
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    let patches = stage.server.requests().user_agent("route").writes();
    let patch = patches.iter().next().unwrap();
    assert_eq!((patch.verb, patch.subresource.as_str()), (Verb::Patch, "status"));
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(patch.body["metadata"]["uid"], stage.node("n1").unwrap().metadata.uid.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_written_through_every_trouble_of_the_api_server() {
    for fault in [
        Fault::InternalError,
        Fault::Conflict,
        Fault::LostAnswer,
        Fault::Timeout(secs(2)),
        Fault::HangAfterApplying,
        Fault::Hang,
    ] {
        let stage = stage();
        let patches = When::verb(Verb::Patch).kind("Node").user_agent("route").times(2);
        stage.server.faults().always(patches, fault.clone());
        let _running = start(&stage);
        stage.server.create(&numbered(1));
        stage.until(secs(120), "it is reached", |stage| is_reached(stage, "n1")).await;
        sleep(secs(400)).await;
        assert_eq!(crate::scene::changes(&stage), (1, 0), "{fault:?}: the route is made once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_made_anew_meanwhile_gets_its_own_routes_and_condition() {
    let stage = stage();
    let slow = When::verb(Verb::Patch).kind("Node").user_agent("route").times(1);
    stage.server.faults().always(slow, Fault::Delay(secs(2)));
    let _running = start(&stage);
    stage.server.create(&numbered(1));
    sleep(secs(1)).await;
    stage.server.delete::<Node>("", "n1");
    stage.server.create(&node("n1").internal_ip("10.0.0.2").pod_cidr("10.244.77.0/24").build());
    sleep(Duration::from_millis(2500)).await;
    stage.until(secs(30), "the second", |stage| routes(stage) == ["10.244.77.0/24 n1"]).await;
    stage.until(secs(5), "is reached", |stage| is_reached(stage, "n1")).await;
    assert!(condition(&stage, "n1").is_some());
    assert_eq!(stage.world.violations(), [""; 0]);
}
