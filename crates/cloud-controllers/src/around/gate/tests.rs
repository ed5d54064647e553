use std::future::pending;
use std::time::Duration;

use cloud_provider::{Decision, Error};
use controller_kit::clock::TokioClock;
use controller_kit::leader::{Config, Elector, KubeLease, Metrics as LeaderMetrics, Surroundings, Timing};
use controller_kit::metrics::encode;
use controller_kit::random::Randomness;
use futures::FutureExt;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use testkit::{ApiServer, EPOCH};
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use super::*;

fn clock() -> Arc<TokioClock> {
    Arc::new(TokioClock::starting_at(EPOCH))
}

fn gate(leadership: Leadership, mode: Mode) -> LeaseGate {
    LeaseGate::new("fake", leadership, mode, DecisionLog::new(clock()), &Metrics::unregistered())
}

fn seconds(seconds: i64) -> Timestamp {
    EPOCH + jiff::SignedDuration::from_secs(seconds)
}

async fn make(changes: &Changes, name: &str) -> Result<(), Error> {
    changes.make(Change::create("route", name), |_| async { Ok(()) }).await
}

fn lines(log: &DecisionLog) -> Vec<String> {
    let skip_time = |entry: Entry| entry.to_string().split_once(' ').unwrap().1.to_owned();
    log.entries().into_iter().map(skip_time).collect()
}

/// A process that won the lease, and whose renewals then stop as if it were frozen.
async fn frozen_leader(server: &ApiServer) -> Leadership {
    let config = Config {
        namespace: "kube-system".into(),
        name: "ccm".into(),
        identity: "a".into(),
        timing: Timing::default(),
    };
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(server.client(), "kube-system", "ccm")),
        clock: clock(),
        random: Randomness::seeded(1),
        metrics: LeaderMetrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let mut elector = Elector::new(config, surroundings).unwrap();
    assert!(elector.acquire(&CancellationToken::new()).await);
    elector.leadership()
}

#[tokio::test(start_paused = true)]
async fn the_gate_closes_at_the_instant_the_lease_may_be_anothers() {
    let server = ApiServer::new(1);
    let leadership = frozen_leader(&server).await;
    let gate = gate(leadership.clone(), Mode::Act);
    let end = leadership.valid_until().unwrap();
    let changes = gate.changes();
    advance(end - (Instant::now() + Duration::from_millis(1))).await;
    make(&changes, "in-time").await.unwrap();

    // One whose first attempt starts in time and whose retry would not.
    let retried = changes.make(Change::create("route", "retried"), |permit| async move {
        permit.check()?;
        advance(end - Instant::now()).await;
        permit.check()
    });
    assert_eq!(retried.await.unwrap_err().decision(), &Decision::Fenced);
    assert_eq!(Instant::now(), end);
    let started = changes.make(Change::create("route", "late"), |_| async { unreachable!("fenced") });
    let late: Result<(), _> = started.await;
    assert_eq!(late.unwrap_err().decision(), &Decision::Fenced);
    assert_eq!(
        lines(gate.log()),
        [
            "create route in-time (made)",
            "create route retried (failed: Fenced)",
            "create route late (not made: the lease may be another's)",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_standby_starts_nothing() {
    let server = ApiServer::new(1);
    let _leader = frozen_leader(&server).await;
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(server.client(), "kube-system", "ccm")),
        clock: clock(),
        random: Randomness::seeded(2),
        metrics: LeaderMetrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let config = Config {
        namespace: "kube-system".into(),
        name: "ccm".into(),
        identity: "b".into(),
        timing: Timing::default(),
    };
    let standby = Elector::new(config, surroundings).unwrap();
    let gate = gate(standby.leadership(), Mode::Act);
    assert_eq!(make(&gate.changes(), "r").await.unwrap_err().decision(), &Decision::Fenced);
}

#[tokio::test(start_paused = true)]
async fn observe_mode_records_and_makes_nothing() {
    let gate = gate(Leadership::unconditional(), Mode::Observe);
    let changes = gate.changes_for("service shop/web");
    let result: Result<(), Error> = changes
        .make(Change::create("load balancer", "a1").detail("2 ports"), |_| async { unreachable!("recorded") })
        .await;
    assert_eq!(result.unwrap_err().decision(), &Decision::Recorded);
    assert_eq!(
        gate.log().entries()[0].to_string(),
        format!("{EPOCH} create load balancer a1: 2 ports (not made: observe mode) for service shop/web")
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_has_decisions_in_the_order_of_asking_and_outcomes_as_they_come() {
    let gate = gate(Leadership::unconditional(), Mode::Act);
    let changes = gate.changes();
    let slow = changes.make(Change::create("route", "slow"), |_| async {
        sleep(Duration::from_secs(9)).await;
        Ok::<_, Error>(())
    });
    let quick = changes.make(Change::create("route", "quick"), |_| async {
        Err::<(), _>(Error::quota_exceeded("creating route quick"))
    });
    let mut slow = Box::pin(slow);
    assert!(slow.as_mut().now_or_never().is_none());
    assert!(quick.await.is_err());
    let mut cancelled =
        Box::pin(changes.make(Change::create("route", "cut"), |_| pending::<Result<(), Error>>()));
    assert!(cancelled.as_mut().now_or_never().is_none());
    assert_eq!(
        lines(gate.log()),
        [
            "create route slow (under way)",
            "create route quick (failed: QuotaExceeded)",
            "create route cut (under way)"
        ]
    );
    drop(cancelled);
    slow.await.unwrap();
    assert_eq!(
        lines(gate.log()),
        [
            "create route slow (made)",
            "create route quick (failed: QuotaExceeded)",
            "create route cut (interrupted)"
        ]
    );
    let first = &gate.log().entries()[0];
    assert_eq!((first.number, first.at), (0, EPOCH));
    assert_eq!(first.verdict, Verdict::Ended(Outcome::Made, seconds(9)));
}

#[tokio::test(start_paused = true)]
async fn the_log_forgets_the_oldest_and_an_end_that_comes_after_harms_nobody() {
    let log = DecisionLog::remembering(3, clock());
    let metrics = Metrics::unregistered();
    let gate = LeaseGate::new("fake", Leadership::unconditional(), Mode::Act, log.clone(), &metrics);
    let changes = gate.changes();
    let mut old = Box::pin(changes.make(Change::create("route", "old"), |_| async {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, Error>(())
    }));
    assert!(old.as_mut().now_or_never().is_none());
    for name in ["a", "b", "c", "d"] {
        make(&changes, name).await.unwrap();
    }
    old.await.unwrap();
    assert_eq!(lines(&log), ["create route b (made)", "create route c (made)", "create route d (made)"]);
    assert_eq!(log.entries().iter().map(|entry| entry.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(log.decisions(), 5);
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_counted_by_what_became_of_it() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let log = DecisionLog::new(clock());
    let acting = LeaseGate::new("fake", Leadership::unconditional(), Mode::Act, log.clone(), &metrics);
    let observing = LeaseGate::new("fake", Leadership::unconditional(), Mode::Observe, log, &metrics);
    make(&acting.changes(), "a").await.unwrap();
    make(&acting.changes(), "b").await.unwrap();
    make(&observing.changes(), "c").await.unwrap_err();
    let text = encode(&registry).unwrap();
    let count = |outcome: &str| {
        let labels = format!(r#"provider="fake",verb="create",kind="route",outcome="{outcome}""#);
        let line = format!("nephos_cloud_changes_total{{{labels}}} ");
        text.lines().find_map(|each| each.strip_prefix(&line).map(str::to_owned))
    };
    assert_eq!((count("made").as_deref(), count("recorded").as_deref()), (Some("2"), Some("1")));
}
