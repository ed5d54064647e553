use std::time::Duration;

use cloud_controllers::around::gate::Mode;
use cloud_controllers::route::Metrics;
use controller_kit::leader::Leadership;
use k8s_openapi::api::core::v1::Node;
use provider_fake::{Effect, Fault};
use testkit::node;
use tokio::time::sleep;

use crate::scene::{changes, config, is_reached, lists, numbered, routes, stage, start, start_as};
use crate::stage::{Stage, secs};

fn many(number: usize) -> Node {
    let cidr = format!("10.244.{}.{}/30", number / 64, number % 64 * 4);
    let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
    node(&format!("n{number}")).internal_ip(&ip).pod_cidr(&cidr).build()
}

fn all_reached(stage: &Stage, count: usize) -> bool {
    (0..count).all(|number| is_reached(stage, &format!("n{number}")))
}

/// Proves: ROUTE-8, ROUTE-12, COST-11
#[tokio::test(start_paused = true)]
async fn a_thousand_idle_nodes_cost_nothing_but_the_audit() {
    let stage = Stage::new(1, provider_fake::Config { latency: Duration::from_millis(20), ..config() });
    let running = start(&stage);
    for number in 0..1000 {
        stage.server.create(&many(number));
    }
    stage.until(secs(120), "all are reached", |stage| all_reached(stage, 1000)).await;
    assert_eq!(changes(&stage), (1000, 0), "each route is made once");
    assert_eq!(
        stage.server.requests().user_agent("route").writes().count(),
        1000,
        "each condition is written once"
    );
    sleep(secs(60)).await;

    let (mark, since) = (stage.world.age(), stage.server.elapsed());
    let calls = stage.world.counters().total();
    sleep(secs(600)).await;
    assert_eq!(lists(&stage, mark), 2, "an audit each five minutes");
    assert_eq!(stage.world.counters().total() - calls, 2, "and no other call to the cloud");
    assert!(stage.server.requests().user_agent("route").since(since).is_empty(), "nor to the API server");

    // A successor that finds all in order writes nothing either.
    drop(running);
    let (mark, since) = (stage.world.age(), stage.server.elapsed());
    let _successor = start(&stage);
    sleep(secs(299)).await;
    assert_eq!((lists(&stage, mark), changes(&stage)), (1, (1000, 0)));
    assert!(stage.server.requests().user_agent("route").since(since).is_empty());
    assert_eq!(stage.world.violations(), [""; 0]);
}

/// Proves: ROUTE-10
#[tokio::test(start_paused = true)]
async fn heartbeats_labels_and_other_conditions_cost_nothing() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&numbered(1));
    stage.until(secs(5), "it is reached", |stage| is_reached(stage, "n1")).await;
    sleep(secs(1)).await;
    let (calls, since) = (stage.world.counters().total(), stage.server.elapsed());
    for beat in 0..20 {
        stage.server.modify("", "n1", |node: &mut Node| {
            node.metadata.labels = Some([("beat".to_owned(), beat.to_string())].into());
            let beat = testkit::node("n1").condition("Ready", "True", &format!("Beat{beat}")).build();
            let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions.retain(|condition| condition.type_ != "Ready");
            conditions.extend(beat.status.unwrap().conditions.unwrap());
        });
        sleep(secs(10)).await;
    }
    assert_eq!(stage.world.counters().total(), calls);
    assert!(stage.server.requests().user_agent("route").since(since).is_empty());
}

/// Proves: ROUTE-34
#[tokio::test(start_paused = true)]
async fn a_cni_with_a_reason_of_its_own_is_corrected_once_and_then_left_in_peace() {
    let stage = stage();
    let _running = start(&stage);
    stage.server.create(&numbered(1));
    stage.until(secs(5), "it is reached", |stage| is_reached(stage, "n1")).await;
    sleep(secs(1)).await;
    let since = stage.server.elapsed();
    for _ in 0..12 {
        stage.server.modify("", "n1", |node: &mut Node| {
            let condition =
                testkit::node("n1").condition("NetworkUnavailable", "False", "CalicoIsUp").build();
            node.status.as_mut().unwrap().conditions = condition.status.unwrap().conditions;
        });
        sleep(secs(300)).await;
    }
    assert_eq!(stage.server.requests().user_agent("route").since(since).count(), 0);
}

/// Proves: ROUTE-38, ROUTE-39
#[tokio::test(start_paused = true)]
async fn passes_are_counted_by_outcome_and_trigger() {
    let mut stage = stage();
    let metrics = Metrics::register(&mut stage.registry);
    let _running = start_as(&stage, Leadership::unconditional(), Mode::Act, metrics);
    let count = |stage: &Stage, outcome: &str, trigger: &str| {
        let labels = format!("{{outcome=\"{outcome}\",trigger=\"{trigger}\"}}");
        stage.metric(&format!("route_controller_route_sync_total{labels}")).unwrap_or_default()
    };
    sleep(secs(1)).await;
    assert!((count(&stage, "noop", "periodic") - 1.0).abs() < f64::EPSILON);
    stage.server.create(&numbered(1));
    stage.until(secs(5), "it is reached", |stage| is_reached(stage, "n1")).await;
    assert!((count(&stage, "changed", "node_change") - 1.0).abs() < f64::EPSILON);
    stage.server.delete::<Node>("", "n1");
    stage.until(secs(20), "its route goes", |stage| routes(stage).is_empty()).await;
    stage.until(secs(1), "it is counted", |stage| count(stage, "changed", "node_change") > 1.5).await;
    stage.world.inject(Fault::once("list_routes", Effect::Fail)).unwrap();
    sleep(secs(301)).await;
    assert!((count(&stage, "error", "periodic") - 1.0).abs() < f64::EPSILON);
    assert_eq!(stage.metric("route_controller_routes"), Some(0.0));
    assert_eq!(stage.metric(r#"route_controller_failures_total{operation="list"}"#), Some(1.0));
}

/// Proves: ROUTE-9
#[tokio::test(start_paused = true)]
async fn watches_that_break_and_history_that_is_forgotten_change_nothing() {
    let stage = stage();
    let _running = start(&stage);
    for number in 0..20 {
        stage.server.create(&numbered(number));
        match number % 3 {
            0 => stage.server.faults().break_watches(),
            1 => stage.server.faults().drop_watches(),
            _ => stage.server.faults().forget_history(),
        };
        if number % 4 == 3 {
            stage.server.delete::<Node>("", &format!("n{}", number - 1));
        }
        sleep(Duration::from_millis(150)).await;
    }
    let left = |stage: &Stage| (0..20).filter(|number| stage.node(&format!("n{number}")).is_some()).count();
    let exact = |stage: &Stage| {
        routes(stage).len() == left(stage)
            && (0..20).filter(|number| is_reached(stage, &format!("n{number}"))).count() == left(stage)
    };
    assert_eq!(left(&stage), 15);
    stage.until(secs(60), "the same end", exact).await;
    assert_eq!(stage.world.violations(), [""; 0]);
}
