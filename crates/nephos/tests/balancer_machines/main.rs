//! Two balancer machines with the data plane `nft` and one lease of a real API server, in network namespaces, as root: what
//! clients notice when a manager is killed, when a machine dies, and when one hands over to the other. Without root, or without
//! the programs `nft` and `conntrack`, each test is skipped with a notice.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../../../../providers/local/tests/rack/lan.rs"]
mod lan;
#[path = "../../../../providers/local/tests/rack/load.rs"]
mod load;
#[path = "../nephos/process.rs"]
#[allow(dead_code, reason = "another test target uses the rest")]
mod process;
mod scene;
#[path = "../../../../providers/local/tests/rack/servers.rs"]
mod servers;
#[path = "../../../../providers/local/tests/rack/world.rs"]
mod world;

use std::time::Duration;

use testkit::Awake;

use load::Load;
use scene::{CLIENT, LEASE, Scene, VIP, WEB};
use servers::{Held, eventually};

const CLIENTS: usize = 2;

#[tokio::test]
async fn kill_9_of_the_leaders_manager_under_load_loses_no_connection() {
    let Some(scene) = Scene::build().await else { return };
    let (first, second) = scene.start().await;
    scene.know_each_other().await;
    let client = &scene.lan.machines[CLIENT];
    let held = client.run(async { Held::open(WEB).await.unwrap() }).await;
    let load = client.run(async { Load::start(WEB, CLIENTS) }).await;
    load.goes_on(200).await;

    first.kill();
    let killed = load.done();
    eventually("the other machine takes over", || async { scene.lan.goes_to(CLIENT, VIP, 1) }).await;
    let without = load.done() - killed;
    assert!(without > 100, "only {without} connections without a manager");
    load.goes_on(500).await;
    let held = client.run(async move { echoes(held).await.unwrap() }).await;

    // A manager that comes back stands by, and its machine gives the address up.
    let back = scene.manager(0);
    eventually("the first machine gives way", || async { !scene.has_address(0) }).await;
    load.goes_on(200).await;
    let outcome = load.end().await;
    println!("{without} connections without a manager, {} in all", outcome.good);
    assert_eq!(outcome.failures, Vec::<String>::new(), "{} good", outcome.good);
    client.run(async move { echoes(held).await.unwrap() }).await;
    scene.end([back, second]).await;
}

#[tokio::test]
async fn the_addresses_of_a_dead_machine_move_within_the_lease_and_four_seconds() {
    let Some(scene) = Scene::build().await else { return };
    let (first, second) = scene.start().await;
    scene.know_each_other().await;
    scene.lan.cable(0, false);
    first.kill();
    let died = Awake::now();
    assert!(!scene.serves().await, "the machine is dead");
    eventually("the other machine serves", || scene.serves()).await;
    let outage = died.elapsed();
    println!(
        "new connections succeeded {outage:?} after the death of the machine; the lease lasts {LEASE:?}"
    );
    assert!(outage < LEASE + Duration::from_secs(4), "{outage:?}");
    assert_eq!(scene.lan.neighbour(CLIENT, VIP), Some(scene.lan.hardware(1)));

    // It comes back with its old address on it, and with a manager that stands by.
    scene.lan.cable(0, true);
    let back = scene.manager(0);
    let gap = scene.longest_gap_until_given_way(0, 1).await;
    println!("and {gap:?} without a good one when it came back");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");
    assert!(scene.has_address(1));
    scene.end([back, second]).await;
}

#[tokio::test]
async fn a_planned_hand_over_interrupts_new_connections_for_less_than_three_seconds() {
    let Some(scene) = Scene::build().await else { return };
    let (first, second) = scene.start().await;
    scene.know_each_other().await;
    first.terminate();
    let gap = scene.longest_gap_until(1).await;
    println!("the longest time without a good new connection was {gap:?}");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");

    // And back, while nothing but the managers change.
    let back = scene.manager(0);
    eventually("the first machine gives way", || async { !scene.has_address(0) }).await;
    second.terminate();
    let gap = scene.longest_gap_until(0).await;
    println!("and on the way back {gap:?}");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");
    scene.end([back, second]).await;
}

/// A connection that is still as it was.
async fn echoes(mut held: Held) -> std::io::Result<Held> {
    for _ in 0..3 {
        held.echo().await?;
    }
    Ok(held)
}
