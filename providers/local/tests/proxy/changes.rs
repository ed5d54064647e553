//! What connections notice of a change of the backends.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::{Algorithm, Balancer, Intent, PortKey, Probe, Settings};
use provider_local::proxy::Keeper;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scene::{Scene, WEB};
use crate::servers::{Held, ask, fresh_address};
use crate::wishes::{brisk, port, single};

#[tokio::test]
async fn an_intent_that_changes_other_things_drops_no_connection() {
    let scene = Scene::new(WEB, 3, Settings::default()).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(Held::open(scene.entrance()).await.unwrap());
    }
    let mut wish = scene.wish_without(&["node-2"], Settings { connection_limit: 1, ..Settings::default() });
    wish.addresses.insert(fresh_address());
    wish.ports.insert(PortKey::tcp(8443), port([]));
    let algorithm = Algorithm::LeastConnections;
    scene.put(&wish).await;
    scene.put(&Balancer { name: "renamed".into(), ..wish.clone() }).await;
    scene.put(&scene.wish_without(&["node-2"], Settings { algorithm, ..Settings::default() })).await;
    for held in &mut held {
        held.echo().await.unwrap();
    }
    let draining = scene.keeper.status().await.balancers["uid"].backends.clone();
    let draining: Vec<_> = draining.into_iter().filter(|backend| backend.draining).collect();
    assert_eq!((draining.len(), draining[0].connections), (1, Some(2)), "node-2 left and keeps what it has");
}

#[tokio::test]
async fn a_backend_that_left_drains_for_its_time_and_not_longer() {
    let settings = Settings { drain_timeout: Duration::from_millis(400), ..Settings::default() };
    let scene = Scene::new(WEB, 2, settings.clone()).await;
    let mut held = [Held::open(scene.entrance()).await.unwrap(), Held::open(scene.entrance()).await.unwrap()];
    held.sort_by(|one, other| one.name.cmp(&other.name));
    let [mut leaving, mut staying] = held;
    let left = Instant::now();
    scene.put(&scene.wish_without(&["node-0"], settings)).await;
    leaving.echo().await.unwrap();
    assert_eq!(leaving.end().await.unwrap_err().kind(), ErrorKind::ConnectionReset, "a cut is no clean end");
    assert!(left.elapsed() >= Duration::from_millis(400), "{:?}", left.elapsed());
    staying.echo().await.unwrap();
}

#[tokio::test]
async fn a_backend_that_comes_back_while_it_drains_keeps_its_connections() {
    let settings = Settings { drain_timeout: Duration::from_millis(400), ..Settings::default() };
    let scene = Scene::new(WEB, 1, settings.clone()).await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    scene.put(&scene.wish_without(&["node-0"], settings.clone())).await;
    scene.put(&scene.wish(settings)).await;
    let end = Instant::now() + Duration::from_millis(800);
    while Instant::now() < end {
        held.echo().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = scene.keeper.status().await;
    let backends = &status.balancers["uid"].backends;
    assert_eq!((backends.len(), backends[0].connections, backends[0].draining), (1, Some(1), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_fails_while_backends_come_and_go() {
    let settings = Settings { health_check: brisk(Probe::Tcp), ..Settings::default() };
    let scene = Scene::new(WEB, 3, settings.clone()).await;
    let entrance = scene.entrance();
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        clients.spawn(async move {
            for round in 0..250 {
                ask(entrance).await.map_err(|error| format!("round {round}: {error}"))?;
            }
            Ok::<_, String>(())
        });
    }
    let mut changes = 0;
    while !clients.is_empty() {
        let without: &[&str] = [&["node-0"][..], &["node-1", "node-2"][..], &[][..]][changes % 3];
        scene.put(&scene.wish_without(without, settings.clone())).await;
        changes += 1;
        let pause = tokio::time::sleep(Duration::from_millis(20));
        tokio::pin!(pause);
        tokio::select! {
            () = &mut pause => {}
            Some(finished) = clients.join_next() => finished.unwrap().unwrap(),
        }
    }
    assert!(changes > 5, "only {changes} changes happened under load");
}

#[tokio::test]
async fn one_change_among_a_thousand_balancers_costs_a_small_part_of_them_all() {
    let keeper = Arc::new(Keeper::in_memory());
    let address = fresh_address();
    let nodes: Vec<(String, SocketAddr)> = (0..50_u8)
        .map(|index| (format!("node-{index}"), SocketAddr::from(([192, 0, 2, index], 30_080))))
        .collect();
    let wish = |number: u16| {
        let backends = nodes.iter().map(|(name, socket)| (name.as_str(), *socket));
        single(address, PortKey::udp(20_000 + number), backends, Settings::default())
    };
    let balancers = (0..1000_u16).map(|number| (format!("uid-{number}"), wish(number).into())).collect();
    let mut intent = Intent { balancers, ..Intent::empty() };
    let start = Instant::now();
    intent.revision = keeper.apply(intent.clone()).await.unwrap();
    let all = start.elapsed();
    // The quickest of a few: what else the machine does is not to count.
    let mut one = Duration::MAX;
    for _ in 0..5 {
        Arc::make_mut(intent.balancers.get_mut("uid-500").unwrap()).ports.values_mut().for_each(|port| {
            port.backends.pop_first();
        });
        let start = Instant::now();
        intent.revision = keeper.apply(intent.clone()).await.unwrap();
        one = one.min(start.elapsed());
    }
    println!("1,000 balancers of 50 nodes: {all:?}; one change: {one:?}");
    assert!(one < all / 4, "{all:?}, then {one:?}");
    let status = keeper.status().await;
    assert_eq!(status.balancers.len(), 1000);
    assert_eq!(status.balancers["uid-500"].backends.len(), 45);
    assert!(status.balancers.keys().all(|uid| status.is_open(uid)));
}
