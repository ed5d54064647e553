//! Whole clients in virtual time: the same seed gives the identical run, and simulated hours cost seconds.

#![expect(clippy::unwrap_used, reason = "all of this is test code, also outside functions that are tests")]

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use testkit::{ApiServer, Fault, Verb, When, lease, node};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A second between tries: kube's own back-off draws its jitter from no seed of ours.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// Labels every node that it sees, and says how often it heard of one.
fn labeller(server: &ApiServer) -> JoinHandle<()> {
    let nodes: Api<Node> = Api::all(server.client_as("labeller"));
    tokio::spawn(async move {
        let events = watcher(nodes.clone(), watcher::Config::default()).backoff(Steady).applied_objects();
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let Some(name) = event.ok().and_then(|node| node.metadata.name) else { continue };
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
            _ = nodes.patch(&name, &PatchParams::default(), &patch).await;
        }
    })
}

/// Renews a lease every two seconds, as a leader does: with a PUT, and a GET only after something went wrong.
fn renewer(server: &ApiServer) -> JoinHandle<()> {
    let leases: Api<Lease> = Api::namespaced(server.client_as("leader"), "kube-system");
    let server = server.clone();
    tokio::spawn(async move {
        let mut known: Option<Lease> = None;
        loop {
            sleep(Duration::from_secs(2)).await;
            let current = match known.take() {
                Some(lease) => lease,
                None => match leases.get("leader").await {
                    Ok(lease) => lease,
                    Err(_) => continue,
                },
            };
            let held: Lease = lease("kube-system", "leader").held_by("me", server.now()).build();
            let renewed = Lease { metadata: current.metadata, ..held };
            known = leases.replace("leader", &PostParams::default(), &renewed).await.ok();
        }
    })
}

/// Ten troubled minutes, written down.
fn trace_of(seed: u64) -> String {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let server = ApiServer::new(seed);
        server.create(&lease("kube-system", "leader").build());
        server
            .faults()
            .always(When::any().with_probability(0.05), Fault::Unavailable)
            .always(When::writes().with_probability(0.05), Fault::LostAnswer)
            .always(When::watches().with_probability(0.5), Fault::DropWatch(Duration::from_secs(30)))
            .always(
                When::any().with_probability(0.2),
                Fault::DelayBetween(Duration::from_millis(5), Duration::from_secs(2)),
            );
        // Several of each, so that the order in which the server wakes them shows.
        let clients: Vec<JoinHandle<()>> =
            (0..4).flat_map(|_| [labeller(&server), renewer(&server)]).collect();
        for index in 0..20 {
            server.create(&node(&format!("n{index}")).build());
            sleep(Duration::from_secs(30)).await;
        }
        clients.iter().for_each(JoinHandle::abort);
        server.trace().to_string()
    })
}

#[test]
fn the_same_seed_gives_the_identical_trace_and_another_seed_another() {
    let trace = trace_of(7);
    assert!(trace.contains("answer lost") && trace.contains("503"), "the faults must have struck:\n{trace}");
    assert_same(&trace, &trace_of(7));
    assert_ne!(trace, trace_of(8));
}

fn thread_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.try_into().unwrap(), spent.tv_nsec.try_into().unwrap())
}

/// Names the first line that differs: the whole traces are too long to read.
fn assert_same(one: &str, other: &str) {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let differs = one.iter().zip(&other).position(|(one, other)| one != other);
    if let Some(at) = differs {
        let around = |lines: &[&str]| lines[at.saturating_sub(8)..(at + 4).min(lines.len())].join("\n");
        panic!("line {at} differs:\n{}\n--- and ---\n{}", around(&one), around(&other));
    }
    assert_eq!(one.len(), other.len(), "one trace goes on after the other has ended");
}

/// Everything runs on this one thread, so its processor time is what the simulation costs, whatever the neighbours do.
#[test]
fn a_thousand_simulated_minutes_cost_less_than_three_seconds() {
    let started = thread_time();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let requests = runtime.block_on(async {
        let server = ApiServer::new(1);
        server.create(&lease("kube-system", "leader").build());
        server.create(&node("a").build());
        let nodes: Api<Node> = Api::all(server.client());
        let watching = tokio::spawn(async move {
            let events = watcher(nodes, watcher::Config::default()).default_backoff();
            events.try_for_each(|_| async { Ok(()) }).await
        });
        let renewing = renewer(&server);
        sleep(Duration::from_secs(60_000)).await;
        watching.abort();
        renewing.abort();
        let requests = server.requests();
        // Every renewal takes a millisecond, and the watch is renewed every 290 seconds.
        assert!(requests.clone().verb(Verb::Update).count() > 29_900);
        assert!(requests.clone().verb(Verb::Watch).count() > 200);
        requests.count()
    });
    let took = thread_time().saturating_sub(started);
    println!("1,000 simulated minutes and {requests} requests took {took:.2?}");
    assert!(took < Duration::from_secs(3), "took {took:?}");
}
