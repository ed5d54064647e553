//! The correlator against client-go's rules, in virtual time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use tokio::time::{Instant, advance};

use super::correlator::{Correlator, Write};
use super::*;

fn occurrence(name: &str, reason: &str, message: &str) -> Occurrence {
    Occurrence {
        component: "service-controller".into(),
        about: ObjectReference {
            kind: Some("Service".into()),
            api_version: Some("v1".into()),
            namespace: Some("ns".into()),
            name: Some(name.into()),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectReference::default()
        },
        kind: Kind::Normal,
        reason: reason.into(),
        message: message.into(),
        time: "2026-11-15T10:00:00Z".parse().unwrap(),
    }
}

fn correlate(correlator: &mut Correlator, occurrence: &Occurrence) -> Option<Write> {
    correlator.correlate(occurrence, Instant::now(), || "fallback".to_owned())
}

fn created(write: Option<Write>) -> Event {
    match write {
        Some(Write::Create(event)) => event,
        other => panic!("expected a new event, got {other:?}"),
    }
}

fn patched(write: Option<Write>) -> (serde_json::Value, Event) {
    match write {
        Some(Write::Patch { patch, event }) => (patch, event),
        other => panic!("expected a patch, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_event_carries_all_that_kubectl_shows() {
    let event = created(correlate(&mut Correlator::new(), &occurrence("web", "EnsuredLoadBalancer", "done")));
    let json = serde_json::to_value(&event).unwrap();
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "web.18e82f9c55524000", "namespace": "ns"},
        "involvedObject":
            {"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": "ns", "uid": "uid-of-web"},
        "reason": "EnsuredLoadBalancer", "message": "done", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-11-15T10:00:00Z", "lastTimestamp": "2026-11-15T10:00:00Z",
        "source": {"component": "service-controller"},
        "reportingComponent": "service-controller", "reportingInstance": "",
    });
    assert_eq!(json, expected);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_raises_the_count_by_a_patch() {
    let mut correlator = Correlator::new();
    let first = created(correlate(&mut correlator, &occurrence("web", "r", "m")));
    let again = Occurrence { time: "2026-11-15T10:05:00Z".parse().unwrap(), ..occurrence("web", "r", "m") };
    let (patch, event) = patched(correlate(&mut correlator, &again));
    let expected = serde_json::json!({"count": 2, "lastTimestamp": "2026-11-15T10:05:00Z", "message": "m"});
    assert_eq!(patch, expected);
    assert_eq!(event.metadata.name, first.metadata.name);
    assert_eq!(event.first_timestamp, first.first_timestamp);
}

#[tokio::test(start_paused = true)]
async fn two_events_of_one_instant_have_two_names() {
    let mut correlator = Correlator::new();
    let one = created(correlate(&mut correlator, &occurrence("web", "r", "one")));
    let two = created(correlate(&mut correlator, &occurrence("web", "r", "two")));
    assert_ne!(one.metadata.name, two.metadata.name);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_server_would_refuse_is_replaced() {
    for name in ["UPPER", "a/b", &"x".repeat(250), ""] {
        let event = created(correlate(&mut Correlator::new(), &occurrence(name, "r", "m")));
        assert_eq!(event.metadata.name.as_deref(), Some("fallback"), "{name}");
    }
}

/// Proves: RT-6
#[tokio::test(start_paused = true)]
async fn the_tenth_similar_message_starts_a_combined_event() {
    let mut correlator = Correlator::new();
    for number in 1..10 {
        let event = created(correlate(&mut correlator, &occurrence("web", "r", &format!("m{number}"))));
        assert_eq!(event.message, Some(format!("m{number}")));
    }
    let combined = created(correlate(&mut correlator, &occurrence("web", "r", "m10")));
    assert_eq!(combined.message.as_deref(), Some("(combined from similar events): m10"));
    let (patch, event) = patched(correlate(&mut correlator, &occurrence("web", "r", "m11")));
    assert_eq!(patch["message"], "(combined from similar events): m11");
    assert_eq!((event.count, event.metadata.name), (Some(2), combined.metadata.name));
    let other = created(correlate(&mut correlator, &occurrence("web", "another reason", "m12")));
    assert_eq!(other.message.as_deref(), Some("m12"));
    advance(Duration::from_secs(601)).await;
    let later = created(correlate(&mut correlator, &occurrence("web", "r", "m13")));
    assert_eq!(later.message.as_deref(), Some("m13"), "the window is over");
}

/// Proves: RT-6
#[tokio::test(start_paused = true)]
async fn an_object_may_be_talked_about_25_times_and_then_once_in_five_minutes() {
    let mut correlator = Correlator::new();
    let mut speak = |name: &str| correlate(&mut correlator, &occurrence(name, "r", "m")).is_some();
    assert_eq!((0..40).filter(|_| speak("web")).count(), 25);
    assert!(speak("other"), "another object has its own budget");
    advance(Duration::from_secs(299)).await;
    assert!(!speak("web"));
    advance(Duration::from_secs(2)).await;
    assert!(speak("web"));
    assert!(!speak("web"));
    let (patch, _) = patched({
        advance(Duration::from_secs(301)).await;
        correlate(&mut correlator, &occurrence("web", "r", "m"))
    });
    assert_eq!(patch["count"], 44, "what was filtered still counts");
}
