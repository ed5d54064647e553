//! The recorder and its writer on an API server in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use controller_kit::clock::TokioClock;
use controller_kit::events::{self, Metrics, QUEUE, Recorder, recorder, reference};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use k8s_openapi::api::core::v1::{Event, Node, ObjectReference, Service};
use prometheus_client::registry::Registry;
use testkit::{ApiServer, EPOCH, Fault, Verb, When, node, service};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

struct Setting {
    server: ApiServer,
    recorder: Recorder,
    stop: Shutdown,
    writer: JoinHandle<()>,
    registry: Registry,
}

fn setting(seed: u64) -> Setting {
    let server = ApiServer::new(seed);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let clock = Arc::new(TokioClock::starting_at(EPOCH));
    let (recorder, writer) =
        recorder("cloud-node-controller", server.client(), clock, Randomness::seeded(seed), &metrics);
    let stop = Shutdown::new();
    let stopping = stop.clone();
    let writer = tokio::spawn(async move { writer.run(&stopping, Duration::from_secs(3)).await });
    Setting { server, recorder, stop, writer, registry }
}

impl Setting {
    fn node(&self, name: &str) -> ObjectReference {
        reference(&self.server.create(&node(name).build()))
    }

    fn dropped(&self, reason: &str) -> u64 {
        let text = controller_kit::metrics::encode(&self.registry).unwrap();
        let line = format!(r#"event_recorder_dropped_total{{reason="{reason}"}} "#);
        text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
    }

    fn messages(&self) -> Vec<(String, i32)> {
        let events = self.server.list::<Event>().into_iter();
        let mut all: Vec<_> = events.map(|event| (event.message.unwrap(), event.count.unwrap())).collect();
        all.sort();
        all
    }
}

/// Proves: WIRE-12
#[tokio::test(start_paused = true)]
async fn events_of_nodes_land_in_default_and_those_of_services_beside_them() {
    let setting = setting(1);
    let about_node = setting.node("n1");
    let of_service: Service =
        setting.server.create(&service("dns").namespace("kube-system").port(53).build());
    setting.recorder.normal(&about_node, "Synced", "Node synced successfully");
    setting.recorder.for_component("service-controller").warning(
        &reference(&of_service),
        "SyncLoadBalancerFailed",
        "no quota",
    );
    sleep(Duration::from_secs(1)).await;
    let mut events = setting.server.list::<Event>();
    events.sort_by_key(|event| event.metadata.namespace.clone());
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let source = event.source.as_ref().unwrap().component.as_deref().unwrap();
            let namespace = event.metadata.namespace.as_deref().unwrap();
            let object = event.involved_object.kind.as_deref().unwrap();
            (namespace, object, event.type_.as_deref().unwrap(), event.reason.as_deref().unwrap(), source)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("default", "Node", "Normal", "Synced", "cloud-node-controller"),
            ("kube-system", "Service", "Warning", "SyncLoadBalancerFailed", "service-controller"),
        ]
    );
    assert!(events[0].metadata.name.as_deref().unwrap().starts_with("n1."));
    assert_eq!(events[0].involved_object.uid, about_node.uid);
    assert_eq!(events[0].involved_object.namespace, None);
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_one_event_with_a_count() {
    let setting = setting(2);
    let about = setting.node("n1");
    for _ in 0..5 {
        setting.recorder.normal(&about, "r", "again");
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(setting.messages(), [("again".to_owned(), 5)]);
    let requests = setting.server.requests().kind("Event");
    assert_eq!(requests.clone().verb(Verb::Create).count(), 1);
    let patch = requests.verb(Verb::Patch).last().unwrap().clone();
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(patch.body["count"], 5);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_written_anew_with_its_count() {
    let setting = setting(3);
    let about = setting.node("n1");
    setting.recorder.normal(&about, "r", "m");
    sleep(Duration::from_secs(1)).await;
    let name = setting.server.list::<Event>()[0].metadata.name.clone().unwrap();
    setting.server.delete::<Event>("default", &name);
    setting.recorder.normal(&about, "r", "m");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(setting.messages(), [("m".to_owned(), 2)]);
}

/// Proves: RT-6
#[tokio::test(start_paused = true)]
async fn an_absent_server_is_tried_twelve_times_ten_seconds_apart() {
    let setting = setting(4);
    let about = setting.node("n1");
    setting.server.faults().always(When::any().kind("Event"), Fault::Refused);
    setting.recorder.normal(&about, "r", "m");
    sleep(Duration::from_secs(300)).await;
    let times: Vec<Duration> =
        setting.server.requests().kind("Event").iter().map(|request| request.at).collect();
    assert_eq!(times.len(), 12);
    assert!(
        times[1].saturating_sub(times[0]) < Duration::from_secs(10),
        "the first pause is shortened at random"
    );
    for pair in times[1..].windows(2) {
        assert_eq!(pair[1].saturating_sub(pair[0]).as_secs(), 10);
    }
    assert_eq!(setting.dropped("undelivered"), 1);
    setting.server.faults().clear();
    setting.recorder.normal(&about, "r", "m2");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(setting.messages(), [("m2".to_owned(), 1)], "and it goes on");
}

#[tokio::test(start_paused = true)]
async fn an_outage_loses_nothing() {
    let setting = setting(5);
    let about: Vec<_> = (0..20).map(|number| setting.node(&format!("n{number}"))).collect();
    setting.server.faults().down_for(Duration::from_secs(45));
    for about in &about {
        setting.recorder.normal(about, "r", about.name.clone().unwrap());
    }
    sleep(Duration::from_secs(70)).await;
    assert_eq!(setting.messages().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_double_an_event() {
    let setting = setting(6);
    let about = setting.node("n1");
    setting.server.faults().once(When::verb(Verb::Create).kind("Event"), Fault::LostAnswer);
    setting.recorder.normal(&about, "r", "m");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(setting.messages(), [("m".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_no_reason_to_try_again() {
    let setting = setting(7);
    let about = setting.node("n1");
    setting.server.faults().always(When::any().kind("Event"), Fault::Forbidden);
    setting.recorder.normal(&about, "r", "m");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(setting.server.requests().kind("Event").count(), 1);
    assert_eq!(setting.dropped("rejected"), 1);
}

/// Proves: RT-6
#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_the_queue_holds_a_thousand() {
    let setting = setting(8);
    let about = setting.node("n1");
    setting.server.faults().always(When::any().kind("Event"), Fault::Hang);
    setting.recorder.normal(&about, "r", "the one that is being written");
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    for number in 0..QUEUE + 25 {
        setting.recorder.normal(&about, "r", number.to_string());
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(setting.dropped("queue_full"), 25);
}

#[tokio::test(start_paused = true)]
async fn stopping_writes_what_waits() {
    let setting = setting(9);
    for number in 0..10 {
        let about = setting.node(&format!("n{number}"));
        setting.recorder.normal(&about, "r", format!("m{number}"));
    }
    setting.stop.trigger();
    setting.writer.await.unwrap();
    assert_eq!(setting.server.list::<Event>().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_a_server_that_is_away() {
    let setting = setting(10);
    let about = setting.node("n1");
    setting.server.faults().always(When::any().kind("Event"), Fault::Hang);
    for number in 0..5 {
        setting.recorder.normal(&about, "r", format!("m{number}"));
    }
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    setting.stop.trigger();
    let dropped_before = setting.dropped("undelivered");
    let Setting { writer, registry, .. } = setting;
    writer.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(dropped_before, 0);
    let text = controller_kit::metrics::encode(&registry).unwrap();
    assert!(text.contains(r#"event_recorder_dropped_total{reason="undelivered"} 5"#), "{text}");
}

#[test]
fn a_reference_names_the_object_completely() {
    let mut object = node("n1").build();
    object.metadata.uid = Some("u".into());
    object.metadata.resource_version = Some("7".into());
    let about = events::reference::<Node>(&object);
    let expected = serde_json::json!(
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "resourceVersion": "7"}
    );
    assert_eq!(serde_json::to_value(about).unwrap(), expected);
}
