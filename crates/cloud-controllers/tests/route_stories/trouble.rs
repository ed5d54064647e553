use k8s_openapi::api::core::v1::Node;
use provider_fake::config::Quotas;
use provider_fake::{Config, Effect, Fault};
use testkit::node;
use tokio::time::sleep;

use crate::scene::{changes, config, is_reached, is_unreached, lists, numbered, routes, stage, start};
use crate::stage::{Stage, secs};

/// Proves: ROUTE-15, ROUTE-27, ROUTE-28, ROUTE-29, ROUTE-32
#[tokio::test(start_paused = true)]
async fn a_failed_create_is_told_once_shown_on_the_node_and_tried_with_patience() {
    let stage = stage();
    let _running = start(&stage);
    sleep(secs(20)).await;
    stage.world.inject(Fault::new("create_route", Effect::Fail)).unwrap();
    stage.server.create(&numbered(1));
    stage.until(secs(2), "the condition", |stage| is_unreached(stage, "n1")).await;
    sleep(secs(240)).await;
    let events = stage.events_about("n1");
    assert_eq!(events.len(), 1, "{events:?}");
    let (kind, reason, message) = &events[0];
    assert_eq!((&**kind, &**reason), ("Warning", "FailedToCreateRoute"));
    assert!(message.contains("10.244.1.0/24 for node n1: "), "{message}");
    let (tries, _) = changes(&stage);
    assert!((8..15).contains(&tries), "{tries} tries in four minutes");
    assert_eq!(stage.server.requests().user_agent("route").writes().count(), 1, "the condition once");
    stage.world.clear_faults();
    stage.until(secs(61), "it recovers by itself", |stage| is_reached(stage, "n1")).await;
    assert_eq!(routes(&stage), ["10.244.1.0/24 n1"]);
}

/// Proves: ROUTE-13, ROUTE-14, ROUTE-37
#[tokio::test(start_paused = true)]
async fn a_failed_list_is_repeated_with_back_off_and_loses_nothing() {
    let stage = stage();
    stage.server.create(&numbered(1));
    stage.world.inject(Fault::new("list_routes", Effect::Fail).about("").within(secs(0), secs(20))).unwrap();
    let _running = start(&stage);
    sleep(secs(19)).await;
    let count = lists(&stage, secs(0));
    assert!((4..8).contains(&count), "{count} lists in 19 s");
    assert_eq!(changes(&stage), (0, 0), "nothing is done blindly");
    // What happens meanwhile is not lost.
    stage.server.create(&numbered(2));
    stage.until(secs(45), "both", |stage| is_reached(stage, "n1") && is_reached(stage, "n2")).await;
}

/// Proves: ROUTE-30
#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_told_and_repeated() {
    let stage = stage();
    let _running = start(&stage);
    for number in [1, 2] {
        stage.server.create(&numbered(number));
    }
    stage.until(secs(5), "both", |stage| is_reached(stage, "n1") && is_reached(stage, "n2")).await;
    stage.world.inject(Fault::new("delete_route", Effect::Fail)).unwrap();
    stage.server.delete::<Node>("", "n2");
    stage.server.modify("", "n1", |node: &mut Node| {
        node.status.as_mut().unwrap().addresses.as_mut().unwrap()[0].address = "10.0.0.99".into();
    });
    stage.until(secs(30), "the event", |stage| stage.reasons("n1") == ["FailedToDeleteRoute"]).await;
    stage.until(secs(5), "the condition", |stage| is_unreached(stage, "n1")).await;
    sleep(secs(120)).await;
    assert_eq!(routes(&stage).len(), 2, "no second route beside the one that could not be removed");
    stage.world.clear_faults();
    stage.until(secs(61), "it recovers", |stage| is_reached(stage, "n1")).await;
    assert_eq!(routes(&stage), ["10.244.1.0/24 n1"]);
    assert_eq!(stage.world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_full_table_is_named_on_the_node_that_finds_no_room() {
    let quotas = Quotas { routes: Some(2), ..Quotas::default() };
    let stage = Stage::new(1, Config { quotas, ..config() });
    let _running = start(&stage);
    for number in 1..4 {
        stage.server.create(&numbered(number));
        sleep(secs(1)).await;
    }
    assert!(is_reached(&stage, "n1") && is_reached(&stage, "n2"));
    stage.until(secs(5), "the condition", |stage| is_unreached(stage, "n3")).await;
    stage.until(secs(5), "the event", |stage| stage.reasons("n3") == ["FailedToCreateRoute"]).await;
    let (_, _, message) = stage.events_about("n3").remove(0);
    assert!(message.ends_with("; make room in the cloud's route table"), "{message}");
    stage.server.delete::<Node>("", "n1");
    stage.until(secs(75), "there is room", |stage| is_reached(stage, "n3")).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttling_cloud_is_given_the_time_that_it_asks_for() {
    let stage = stage();
    let _running = start(&stage);
    sleep(secs(20)).await;
    let fault = Fault::once("create_route", Effect::Throttle).after(secs(40));
    stage.world.inject(fault).unwrap();
    stage.server.create(&numbered(1));
    sleep(secs(39)).await;
    assert_eq!(changes(&stage).0, 1);
    stage.until(secs(30), "then it is reached", |stage| is_reached(stage, "n1")).await;
}

/// Proves: ROUTE-33
#[tokio::test(start_paused = true)]
async fn a_node_without_pod_cidrs_says_so_and_keeps_its_condition() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&node("bare").build());
    stage.server.create(&node("late").build());
    sleep(secs(30)).await;
    stage.server.modify("", "late", |node: &mut Node| {
        let spec = node.spec.get_or_insert_default();
        (spec.pod_cidr, spec.pod_cidrs) = (Some("10.244.7.0/24".into()), Some(vec!["10.244.7.0/24".into()]));
    });
    stage.until(secs(5), "the late one", |stage| is_reached(stage, "late")).await;
    sleep(secs(600)).await;
    assert_eq!(stage.reasons("bare"), ["NoPodCIDR"]);
    assert!(stage.reasons("late").is_empty());
    assert_eq!(crate::scene::condition(&stage, "bare"), None);
    assert_eq!(routes(&stage), ["10.244.7.0/24 late"]);
}
