//! What operators see: hand-overs, crashes, cuts, deletions, jumps of the clock.

use std::time::Duration;

use controller_kit::leader::{Ended, Lease, Metrics, Record};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::candidate::{Candidate, Setup, eventually};
use crate::store::{Faults, Server};

const SLOW: Faults = Faults {
    refuse: 0,
    lose_answer: 0,
    hang: 0,
    conflict: 0,
    latency: Duration::from_millis(20),
    forbid_watch: false,
    cut: false,
};
const NO_WATCH: Faults = Faults { forbid_watch: true, ..SLOW };

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A leader called `a` and, a while later, a standby called `b`.
async fn pair(server: &Server, standby: Faults) -> (Candidate, Candidate) {
    let a = Setup::named("a").with(SLOW).start(server);
    eventually(secs(1), "a leads", || a.leads()).await;
    let b = Setup::named("b").with(standby).start(server);
    sleep(secs(31)).await;
    assert!(a.leads() && !b.leads());
    (a, b)
}

/// Proves: APP-26, APP-27, APP-31, APP-34
#[tokio::test(start_paused = true)]
async fn a_first_candidate_creates_the_lease_and_says_so() {
    let (server, mut registry) = (Server::new(), Registry::default());
    let setup = Setup { metrics: Metrics::register(&mut registry), ..Setup::named("host_1") };
    let a = setup.start(&server);
    eventually(secs(1), "a leads", || a.leads()).await;
    sleep(secs(3)).await;
    let object = server.lease().unwrap().as_json().clone();
    assert_eq!(object["metadata"]["namespace"], "kube-system");
    assert_eq!(
        object["spec"],
        json!({
            "holderIdentity": "host_1", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-11-15T10:00:00.000000Z", "renewTime": "2026-11-15T10:00:02.000000Z",
        })
    );
    let status = |registry: &Registry| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let series = |value: u8| {
        vec![
            format!("leader_election_master_status{{name=\"cloud-controller-manager\"}} {value}"),
            "leader_election_slowpath_total{name=\"cloud-controller-manager\"} 0".to_owned(),
        ]
    };
    assert_eq!(status(&registry), series(1));
    a.stop.cancel();
    assert_eq!(a.task.await.unwrap(), Ended::Finished(()));
    assert_eq!(status(&registry), series(0));
    assert_eq!(*a.notices.lock().unwrap(), ["host_1 became leader", "host_1 stopped leading"]);
}

/// Proves: APP-29
#[tokio::test(start_paused = true)]
async fn a_leader_renews_every_two_seconds_with_one_call() {
    let server = Server::new();
    let a = Setup::named("a").start(&server);
    sleep(secs(61)).await;
    let calls = a.connection.calls.lock().unwrap().clone();
    assert_eq!(calls[..2], ["get", "create"]);
    assert_eq!(calls[2..], ["update"; 30]);
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_within_three_seconds_with_and_without_a_watch() {
    for (standby, limit) in [(SLOW, Duration::from_millis(200)), (NO_WATCH, secs(3))] {
        let server = Server::new();
        let (a, b) = pair(&server, standby).await;
        a.stop.cancel();
        eventually(secs(1), "a released", || server.holder().is_empty()).await;
        assert!(!a.leads());
        let took = eventually(limit, "b leads after the release", || b.leads()).await;
        assert_eq!(a.task.await.unwrap(), Ended::Finished(()), "took {took:?}");
        let record = server.lease().unwrap().record();
        assert_eq!((record.holder.as_str(), record.transitions), ("b", 1));
        assert_eq!(*b.notices.lock().unwrap(), ["new leader elected: a", "b became leader"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_while_the_last_work_drains_and_released_only_then() {
    let server = Server::new();
    let a = Setup { drain: secs(40), ..Setup::named("a") }.start(&server);
    let b = Setup::named("b").start(&server);
    eventually(secs(1), "a leads", || a.leads()).await;
    a.stop.cancel();
    let told = Instant::now();
    eventually(secs(60), "a released", || {
        assert_eq!(a.leads(), server.holder() == "a", "{:?} after being told", told.elapsed());
        server.holder() != "a"
    })
    .await;
    assert!(told.elapsed() >= secs(40));
    eventually(secs(1), "b leads", || b.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_a_standby_leads_within_the_lease_and_four_seconds() {
    for standby in [SLOW, NO_WATCH] {
        let server = Server::new();
        let (a, b) = pair(&server, standby).await;
        a.crash();
        let crashed = Instant::now();
        eventually(secs(19), "b leads after the crash", || b.leads()).await;
        // Counted from the last renewal, which is at most one retry period before the crash.
        assert!(crashed.elapsed() >= secs(12), "{:?}", crashed.elapsed());
        assert!(!a.leads(), "the fence of a dead process is closed by then");
    }
}

/// Proves: APP-29, APP-30
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_up_before_the_standby_takes_over() {
    let server = Server::new();
    let (a, b) = pair(&server, SLOW).await;
    a.connection.faults.lock().unwrap().cut = true;
    let cut = Instant::now();
    let ended = a.task.await.unwrap();
    assert_eq!(ended, Ended::Lost);
    // At most one retry period until the first failing renewal, then the renew deadline.
    assert!(
        cut.elapsed() >= secs(10) && cut.elapsed() <= Duration::from_millis(12_100),
        "{:?}",
        cut.elapsed()
    );
    assert!(!a.leadership.may_write() && !b.leads());
    eventually(secs(7), "b leads", || b.leads()).await;
    assert_eq!(a.notices.lock().unwrap().last().unwrap(), "a stopped leading");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_name_stops_at_once() {
    let server = Server::new();
    let a = Setup::named("a").start(&server);
    eventually(secs(1), "a leads", || a.leads()).await;
    let lease = server.lease().unwrap();
    server.put(&lease.with_record(&Record { holder: "kubectl".into(), ..lease.record() }));
    let written = Instant::now();
    assert_eq!(a.task.await.unwrap(), Ended::Lost);
    assert!(written.elapsed() <= Duration::from_millis(2_100), "{:?}", written.elapsed());
    assert_eq!(server.holder(), "kubectl", "and does not write over it");
}

#[tokio::test(start_paused = true)]
async fn a_lease_deleted_under_its_leader_is_put_back_and_nobody_takes_over() {
    let server = Server::new();
    let (a, b) = pair(&server, SLOW).await;
    server.delete();
    eventually(secs(3), "the lease is back", || server.holder() == "a").await;
    sleep(secs(60)).await;
    assert!(a.leads() && !b.leads());
    assert!(b.notices.lock().unwrap().iter().all(|notice| !notice.contains("became")));
}

/// Proves: APP-28
#[tokio::test(start_paused = true)]
async fn jumps_of_the_wall_clock_change_nothing() {
    let server = Server::new();
    let (a, b) = pair(&server, SLOW).await;
    for jump in [3600, -7200, 86_400 * 400, -86_400 * 800] {
        a.clock.jump(jump);
        b.clock.jump(-jump);
        for _ in 0..300 {
            sleep(Duration::from_millis(100)).await;
            assert!(a.leads() && !b.leads());
        }
    }
    assert_eq!(server.lease().unwrap().record().transitions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_with_its_claim_in_flight_does_not_leave_the_lease_behind() {
    let server = Server::new();
    let slow = Faults { latency: secs(4), ..Faults::default() };
    // The claim has landed and its answer is still on the way.
    let a = Setup::named("a").with(slow).start(&server);
    eventually(secs(30), "a's claim landed", || server.holder() == "a").await;
    assert!(!a.leads());
    a.connection.faults.lock().unwrap().latency = Duration::ZERO;
    a.stop.cancel();
    assert_eq!(a.task.await.unwrap(), Ended::NeverLed);
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_with_a_renewal_in_flight_releases_and_the_renewal_does_not_bring_it_back() {
    for hanging in [false, true] {
        let server = Server::new();
        let (a, b) = pair(&server, SLOW).await;
        // The next renewal travels for seconds, or lands up to 40 s late.
        *a.connection.faults.lock().unwrap() =
            Faults { latency: secs(4), hang: if hanging { 100 } else { 0 }, ..Faults::default() };
        let calls = a.connection.calls.lock().unwrap().len();
        eventually(secs(3), "a renewal is under way", || a.connection.calls.lock().unwrap().len() > calls)
            .await;
        *a.connection.faults.lock().unwrap() = SLOW;
        a.stop.cancel();
        assert_eq!(a.task.await.unwrap(), Ended::Finished(()));
        eventually(secs(1), "b leads", || b.leads()).await;
        for _ in 0..600 {
            sleep(Duration::from_millis(100)).await;
            assert!(b.leads() && server.holder() == "b");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_told_to_stop_ends_at_once_and_touches_nothing() {
    let server = Server::new();
    let (a, b) = pair(&server, SLOW).await;
    let told = Instant::now();
    b.stop.cancel();
    assert_eq!(b.task.await.unwrap(), Ended::NeverLed);
    assert!(told.elapsed() < Duration::from_millis(10));
    assert!(a.leads());
}

/// What a Go manager leaves when it dies, and when it releases.
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_go_manager_is_respected_then_taken_over_with_its_metadata() {
    let go = |holder: &str, renew: &str, seconds: u32| {
        Lease::from_json(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "cloud-controller-manager", "namespace": "kube-system", "uid": "u", "annotations": { "x": "y" },
            },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 41,
                "acquireTime": "2026-11-15T09:00:00.000000Z", "renewTime": renew, "strategy": "Oldest",
            },
        }))
    };
    let server = Server::new();
    server.put(&go("cp-1_go", "2026-11-15T09:59:00.123456Z", 15));
    let a = Setup::named("a").start(&server);
    sleep(secs(10)).await;
    server.put(&go("cp-1_go", "2026-11-15T09:59:02.123456Z", 15));
    sleep(Duration::from_millis(14_900)).await;
    assert!(!a.leads(), "fifteen seconds from the renewal it saw");
    server.put(&go("", "2026-11-15T09:59:03.000000Z", 1));
    eventually(Duration::from_millis(50), "a leads at once after Go's release", || a.leads()).await;
    let object = server.lease().unwrap().as_json().clone();
    assert_eq!(object["spec"]["leaseTransitions"], 42);
    assert_eq!(
        (&object["spec"]["strategy"], &object["metadata"]["annotations"]["x"]),
        (&json!("Oldest"), &json!("y"))
    );
}
