//! Leader election through the real client on the API server in virtual time: the calls that go over the wire, and
//! faults of an API server.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::time::Duration;

use controller_kit::clock::TokioClock;
use controller_kit::leader::{Config, Elector, Ended, KubeLease, Leadership, Metrics, Surroundings, Timing};
use controller_kit::random::Randomness;
use k8s_openapi::api::coordination::v1::Lease;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use testkit::{ApiServer, EPOCH, Fault, Verb, When};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const NAME: &str = "cloud-controller-manager";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<Ended<()>>,
}

/// A candidate whose identity is also its user agent, so that faults and counts can name it.
fn candidate(server: &ApiServer, identity: &str, seed: u64) -> Candidate {
    let config = Config {
        namespace: "kube-system".into(),
        name: NAME.into(),
        identity: identity.into(),
        timing: Timing::default(),
    };
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(server.client_as(identity), "kube-system", NAME)),
        clock: Arc::new(TokioClock::starting_at(EPOCH)),
        random: Randomness::seeded(seed),
        metrics: Metrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let elector = Elector::new(config, surroundings).unwrap();
    let (leadership, stop) = (elector.leadership(), CancellationToken::new());
    let stopping = stop.clone();
    let task = tokio::spawn(async move {
        let told = stopping.clone();
        elector.run(&stopping, |_| async move { told.cancelled().await }).await
    });
    Candidate { leadership, stop, task }
}

impl Candidate {
    async fn leads_within(&self, limit: Duration) -> Duration {
        let started = Instant::now();
        while !self.leadership.may_write() {
            assert!(started.elapsed() < limit, "does not lead after {limit:?}");
            sleep(Duration::from_millis(10)).await;
        }
        started.elapsed()
    }
}

fn holder(server: &ApiServer) -> String {
    let lease: Option<Lease> = server.get("kube-system", NAME);
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

/// Proves: WIRE-10
#[tokio::test(start_paused = true)]
async fn only_get_post_put_and_watch_go_over_the_wire() {
    let server = ApiServer::new(1);
    let a = candidate(&server, "a", 1);
    a.leads_within(secs(1)).await;
    let b = candidate(&server, "b", 2);
    sleep(secs(60)).await;
    let of = |agent: &str, verb: Verb| server.requests().user_agent(agent).verb(verb).count();
    assert_eq!((of("a", Verb::Get), of("a", Verb::Create), of("a", Verb::Watch)), (1, 1, 0));
    assert!((28..=30).contains(&of("a", Verb::Update)), "{} renewals in a minute", of("a", Verb::Update));
    assert_eq!(server.requests().user_agent("b").count(), 2, "a standby looks once and then watches");
    a.stop.cancel();
    b.leads_within(secs(1)).await;
    b.stop.cancel();
    assert_eq!(b.task.await.unwrap(), Ended::Finished(()));
    assert_eq!(server.requests().verb(Verb::Patch).count() + server.requests().verb(Verb::Delete).count(), 0);
    let lease: Lease = server.get("kube-system", NAME).unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some(""), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_role_without_watch_is_asked_once_and_costs_a_look_a_second() {
    let server = ApiServer::new(2);
    server.faults().always(When::watches(), Fault::Forbidden);
    let a = candidate(&server, "a", 1);
    a.leads_within(secs(1)).await;
    let b = candidate(&server, "b", 2);
    sleep(secs(60)).await;
    assert_eq!(server.requests().user_agent("b").verb(Verb::Watch).count(), 1);
    let looks = server.requests().user_agent("b").verb(Verb::Get).count();
    assert!((50..=61).contains(&looks), "{looks} looks in a minute");
    a.stop.cancel();
    a.task.await.unwrap();
    b.leads_within(secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_went_silent_delays_a_hand_over_by_its_patience_only() {
    let server = ApiServer::new(3);
    server
        .faults()
        .always(When::watches(), Fault::StallWatch { after: Duration::ZERO, lasting: secs(86_400) });
    let a = candidate(&server, "a", 1);
    a.leads_within(secs(1)).await;
    let b = candidate(&server, "b", 2);
    sleep(secs(60)).await;
    assert!(a.leadership.may_write() && !b.leadership.may_write());
    a.stop.cancel();
    a.task.await.unwrap();
    b.leads_within(secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_all_the_time_do_not_make_a_standby_busy() {
    let server = ApiServer::new(4);
    server.faults().always(When::watches(), Fault::BreakWatch(Duration::from_millis(1)));
    let a = candidate(&server, "a", 1);
    a.leads_within(secs(1)).await;
    let b = candidate(&server, "b", 2);
    sleep(secs(60)).await;
    let calls = server.requests().user_agent("b").count();
    assert!(calls <= 125, "{calls} calls in a minute");
    a.stop.cancel();
    a.task.await.unwrap();
    b.leads_within(secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_leaves_time_for_another_try_changes_no_leader() {
    let server = ApiServer::new(5);
    let (a, b) = (candidate(&server, "a", 1), candidate(&server, "b", 2));
    sleep(secs(20)).await;
    let before = holder(&server);
    // The renew deadline of 10 s less the 2 s between two tries, whatever the moment it begins at.
    server.faults().down_for(secs(7));
    sleep(secs(60)).await;
    assert_eq!(holder(&server), before);
    assert_ne!(a.leadership.may_write(), b.leadership.may_write());
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_lease_ends_the_leader_and_the_standby_takes_over_after_it() {
    let server = ApiServer::new(6);
    let a = candidate(&server, "a", 1);
    a.leads_within(secs(1)).await;
    let b = candidate(&server, "b", 2);
    sleep(secs(5)).await;
    server.faults().down_for(secs(40));
    let began = Instant::now();
    assert_eq!(a.task.await.unwrap(), Ended::Lost);
    assert!(began.elapsed() < secs(13), "{:?}", began.elapsed());
    sleep(secs(40).saturating_sub(began.elapsed())).await;
    b.leads_within(secs(5)).await;
}

async fn chaos(seed: u64) {
    let (mut rng, server) = (SmallRng::seed_from_u64(seed), ApiServer::new(seed));
    let candidates: Vec<Candidate> = (0..3).map(|n| candidate(&server, &format!("c{n}"), seed ^ n)).collect();
    for _ in 0..rng.random_range(2..8) {
        let when = match rng.random_range(0..3) {
            0 => When::writes(),
            1 => When::reads(),
            _ => When::any(),
        };
        let when = when
            .user_agent(&format!("c{}", rng.random_range(0..3)))
            .with_probability(rng.random_range(0.05..0.6));
        let fault = match rng.random_range(0..8) {
            0 => Fault::InternalError,
            1 => Fault::Throttled(secs(1)),
            2 => Fault::Conflict,
            3 => Fault::Hang,
            4 => Fault::HangAfterApplying,
            5 => Fault::LostAnswer,
            6 => Fault::DelayBetween(Duration::ZERO, secs(8)),
            _ => Fault::BreakWatch(secs(3)),
        };
        server.faults().always(when.until(secs(120)), fault);
    }
    let one_writer = || {
        let writers = candidates.iter().filter(|candidate| candidate.leadership.may_write()).count();
        assert!(writers <= 1, "seed {seed}: {writers} writers at {:?}", server.elapsed());
        writers == 1
    };
    while server.elapsed() < secs(120) {
        sleep(Duration::from_millis(rng.random_range(1..100))).await;
        one_writer();
    }
    let calm = Instant::now();
    let anybody = candidates.iter().any(|candidate| !candidate.task.is_finished());
    while anybody && !one_writer() {
        assert!(calm.elapsed() < secs(30), "seed {seed}: nobody leads after the faults");
        sleep(Duration::from_millis(50)).await;
    }
}

fn in_virtual_time<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(story)
}

#[test]
fn faults_of_the_api_server_never_make_two_writers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    for seed in 0..number("LEADER_SEEDS").unwrap_or(100) {
        in_virtual_time(chaos(seed));
    }
}
