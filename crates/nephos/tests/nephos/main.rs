//! The binary as people run it, on a real API server: it waits for a server that is late, leads, stands by, hands over,
//! and stops when told to.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

mod crashes;
mod crowd;
mod endings;
mod footprint;
mod handover;
#[path = "../../../../providers/local/tests/rack/load.rs"]
mod load;
mod metrics;
mod migration;
mod networks;
mod nodes;
mod picture;
mod process;
mod proxied;
mod reload;
mod rights;
mod scene;
#[path = "../../../../providers/local/tests/rack/servers.rs"]
mod servers;
mod services;
mod starting;

use std::time::Duration;

use tokio::time::Instant;

use crate::process::Nephos;
use crate::scene::Scene;

/// Generous: the machine may be busy. What is promised is asserted by the figures of each test.
const PATIENCE: Duration = Duration::from_secs(90);

const LEADS: &str = "became leader";

/// Proves: APP-26, APP-31, APP-32, APP-59
#[tokio::test]
async fn a_planned_hand_over_takes_less_than_three_seconds() {
    let scene = Scene::set().await;
    let mut first = scene.nephos(&[]);
    first.wait_for(LEADS, PATIENCE).await;
    let mut second = scene.nephos(&[]);
    second.wait_for("new leader elected", PATIENCE).await;

    let asked = Instant::now();
    first.terminate();
    second.wait_for(LEADS, PATIENCE).await;
    let handed_over = asked.elapsed();
    assert!(handed_over < Duration::from_secs(3), "the standby led {handed_over:?} after SIGTERM");
    assert_eq!(first.exit_code(PATIENCE).await, Some(0));

    second.terminate();
    assert_eq!(second.exit_code(PATIENCE).await, Some(0));
    assert_eq!(
        scene.election_events().await,
        ["became leader", "became leader", "stopped leading", "stopped leading"]
    );
    println!("planned hand-over after {handed_over:?}");
    scene.end().await;
}

/// Proves: APP-28
#[tokio::test]
async fn a_crashed_leader_is_followed_within_its_lease_and_four_seconds() {
    let scene = Scene::set().await;
    let mut first = scene.nephos(&[]);
    first.wait_for(LEADS, PATIENCE).await;
    let mut second = scene.nephos(&[]);
    second.wait_for("new leader elected", PATIENCE).await;

    let crashed = Instant::now();
    first.kill();
    second.wait_for(LEADS, PATIENCE).await;
    let followed = crashed.elapsed();
    assert!(followed < Duration::from_secs(19), "the standby led {followed:?} after the crash");
    println!("crash hand-over after {followed:?}");
    second.terminate();
    assert_eq!(second.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// Proves: LEG-23
#[tokio::test]
async fn an_api_server_that_appears_half_a_minute_later_is_waited_for_and_said_once() {
    let scene = Scene::set().await;
    scene.cluster.api_server().stop().await.expect("the API server stops");
    let mut nephos = scene.nephos(&[]);
    nephos.wait_for("Waiting for the API server", PATIENCE).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(nephos.is_running(), "it gave up:\n{}", nephos.log());
    scene.cluster.api_server().start().await.expect("the API server starts again");
    nephos.wait_for(LEADS, PATIENCE).await;
    assert_eq!(nephos.count("Waiting for the API server"), 1, "{}", nephos.log());
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// Proves: APP-30
#[tokio::test]
async fn a_standby_outlives_an_api_server_that_is_away_for_a_minute_and_a_leader_does_not() {
    let scene = Scene::set().await;
    let mut leader = scene.nephos(&[]);
    leader.wait_for(LEADS, PATIENCE).await;
    let mut standby = scene.nephos(&[]);
    standby.wait_for("new leader elected", PATIENCE).await;

    let before = standby.lines();
    scene.cluster.api_server().stop().await.expect("the API server stops");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(leader.exit_code(PATIENCE).await, Some(1), "a leader that cannot renew ends");
    assert!(standby.is_running(), "the standby gave up:\n{}", standby.log());
    let said = standby.lines() - before;
    assert!((1..=3).contains(&said), "the standby said {said} lines in a minute:\n{}", standby.log());

    scene.cluster.api_server().start().await.expect("the API server starts again");
    standby.wait_for(LEADS, PATIENCE).await;
    standby.terminate();
    assert_eq!(standby.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// Proves: APP-36
#[tokio::test]
async fn without_election_it_works_at_once_and_writes_no_lease() {
    let scene = Scene::set().await;
    let mut nephos = scene.nephos(&["--leader-elect=false"]);
    nephos.wait_for("Built the cloud provider", PATIENCE).await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    let client = scene.cluster.admin().await.expect("an administrator's client");
    let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> =
        kube::Api::namespaced(client, "kube-system");
    assert!(leases.get_opt("cloud-controller-manager").await.expect("reading the lease").is_none());
    scene.end().await;
}

#[tokio::test]
async fn what_cannot_work_is_named_at_once_and_ends_with_one() {
    let mut nephos = Nephos::start(&[
        "run".to_owned(),
        "--cloud-provider=fkae".to_owned(),
        "--leader-elect-lease-duration=5s".to_owned(),
    ]);
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(1));
    for part in ["did you mean \"fake\"", "renew deadline"] {
        assert!(nephos.log().contains(part), "{part} is missing in:\n{}", nephos.log());
    }
}
