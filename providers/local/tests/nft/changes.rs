//! What clients notice of a change of the backends, or of the manager.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use provider_local::intent::status::Health;
use provider_local::intent::{Affinity, HealthCheck, PortKey, Probe, Settings};
use tokio::time::Instant;

use crate::kernel::{NAMES, Scene, wish, wish_udp};
use crate::load::Load;
use crate::servers::{Datagrams, Held, eventually, udp_namer};
use crate::wishes::{brisk, port};
use crate::world::node_address;
use crate::{DNS, WEB, local, thirds};

#[tokio::test]
async fn udp_is_even_and_a_client_that_never_falls_silent_follows_a_change_at_once() {
    let Some(scene) = Scene::build().await else { return };
    scene.put(vec![wish_udp(local())]).await;
    let mut shares = BTreeMap::new();
    let mut clients = Vec::new();
    for _ in 0..30 {
        let ask = async {
            let client = Datagrams::to(DNS).await;
            let introduction = client.ask("hello").await.unwrap();
            (client, introduction)
        };
        let (client, introduction) = scene.world.client.run(ask).await;
        assert_eq!(introduction.peer, "10.88.0.2");
        clients.push(client);
        *shares.entry(introduction.name).or_insert(0) += 1;
    }
    assert_eq!(shares, thirds(10));
    let client = clients.pop().unwrap();
    let (client, before) = scene
        .world
        .client
        .run(async move {
            let name = client.ask("again").await.unwrap().name;
            (client, name)
        })
        .await;
    let mut without = wish_udp(local());
    without.ports.get_mut(&PortKey::udp(53)).unwrap().backends.retain(|backend| backend.node != before);
    scene.put(vec![without]).await;
    let (client, after) = scene
        .world
        .client
        .run(async move {
            let name = client.ask("and now").await.unwrap().name;
            (client, name)
        })
        .await;
    assert_ne!(after, before, "the very next datagram goes elsewhere");
    // Another node port is another backend too.
    let mut moved = wish_udp(local());
    let elsewhere = SocketAddr::new(node_address(0), 30_099);
    let _server = scene.world.nodes[0].run(async move { udp_namer("moved", elsewhere) }).await;
    moved.ports.insert(PortKey::udp(53), port([("node-0", elsewhere)]));
    scene.put(vec![moved]).await;
    let last = scene.world.client.run(async move { client.ask("and here").await.unwrap().name }).await;
    assert_eq!(last, "moved");
}

#[tokio::test]
async fn ten_thousand_connections_during_changes_and_none_fails() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings.clone())]).await;
    let load = scene.world.client.run(async { Load::start(WEB, 8) }).await;
    load.through_changes(async |gone| {
        let mut wish = wish(settings.clone());
        if let Some(gone) = gone {
            let backends = &mut wish.ports.get_mut(&PortKey::tcp(80)).unwrap().backends;
            backends.retain(|backend| backend.node != NAMES[gone]);
        }
        scene.put(vec![wish]).await;
    })
    .await;
}

#[tokio::test]
async fn a_tcp_connection_outlives_its_backend_for_the_drain_timeout() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { drain_timeout: Duration::from_secs(2), ..Settings::default() };
    scene.put(vec![wish(settings.clone())]).await;
    let held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    let name = held.name.clone();
    let mut without = wish(settings);
    without.ports.get_mut(&PortKey::tcp(80)).unwrap().backends.retain(|backend| backend.node != name);
    scene.put(vec![without]).await;
    let left = Instant::now();
    assert!(scene.conntrack("-p tcp").contains("ESTABLISHED"));
    eventually("its time is over", || async { !scene.conntrack("-p tcp").contains("ESTABLISHED") }).await;
    assert!(left.elapsed() > Duration::from_millis(1500), "after {:?}", left.elapsed());
    assert!(scene.world.client.run(held.end()).await.is_err(), "it is cut");
}

#[tokio::test]
async fn a_restart_touches_nothing_and_a_standby_changes_nothing() {
    let Some(mut scene) = Scene::build().await else { return };
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(600) };
    let settings = Settings { affinity, health_check: brisk(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings)]).await;
    let place = scene.ask(WEB).await.unwrap().name;
    // One client, so that it does not run out of ports.
    let load = scene.world.client.run(async { Load::start(WEB, 1) }).await;
    load.goes_on(200).await;
    let before = scene.handles();
    for _ in 0..3 {
        scene.restart(true).await;
        load.goes_on(200).await;
        eventually("it looked", || scene.is("node-0", |health| *health == Health::Healthy)).await;
        assert_eq!(scene.ask(WEB).await.unwrap().name, place, "the client is still known");
    }
    let outcome = load.end().await;
    assert!(outcome.failures.is_empty(), "{} good, {:?}", outcome.good, outcome.failures);
    assert_eq!(scene.handles(), before, "not one rule was made anew");
    scene.restart(false).await;
    scene.world.balancer.program("nft flush ruleset").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.rules(), "", "a standby repairs nothing");
    scene.leader.set(true);
    eventually("the new leader does", || async { scene.ask(WEB).await.is_ok() }).await;
}
