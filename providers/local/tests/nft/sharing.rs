//! Which node a connection goes to, and who is let in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use provider_local::intent::{Affinity, Algorithm, Backend, PortKey, Settings};
use tokio::time::Instant;

use crate::kernel::{NAMES, Scene, both, wish};
use crate::servers::{Held, eventually};
use crate::wishes::backend;
use crate::world::{node_address, node_port};
use crate::{WEB, WEB6, local, thirds};

#[tokio::test]
async fn connections_are_even_and_the_clients_address_is_kept_where_the_policy_says_so() {
    let Some(scene) = Scene::build().await else { return };
    for (settings, own, own6) in
        [(Settings::default(), "10.77.0.1", "fd00:77::1"), (local(), "10.88.0.2", "fd00:88::2")]
    {
        scene.put(vec![both(settings)]).await;
        for (entrance, seen) in [(WEB, own), (WEB6, own6)] {
            let mut shares = BTreeMap::new();
            for _ in 0..90 {
                let introduction = scene.ask(entrance).await.unwrap();
                assert_eq!(introduction.peer, seen);
                *shares.entry(introduction.name).or_insert(0) += 1;
            }
            assert_eq!(shares, thirds(30), "at {entrance}");
        }
    }
}

#[tokio::test]
async fn shares_follow_the_weights_and_zero_takes_none() {
    let Some(scene) = Scene::build().await else { return };
    let mut wish = wish(Settings::default());
    let weights = [5, 1, 0];
    let port = wish.ports.get_mut(&PortKey::tcp(80)).unwrap();
    port.backends = (0..3)
        .map(|index| Backend {
            weight: weights[index],
            ..backend(NAMES[index], node_port(node_address(index)))
        })
        .collect();
    scene.put(vec![wish]).await;
    let mut shares = BTreeMap::new();
    for _ in 0..60 {
        *shares.entry(scene.ask(WEB).await.unwrap().name).or_insert(0) += 1;
    }
    assert_eq!(shares, [("node-0".to_owned(), 50), ("node-1".to_owned(), 10)].into());
}

#[tokio::test]
async fn a_client_is_kept_to_its_backend_until_the_timeout_or_until_the_backend_leaves() {
    let Some(scene) = Scene::build().await else { return };
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(3) };
    let settings = Settings { affinity, ..Settings::default() };
    scene.put(vec![both(settings.clone())]).await;
    let mut places = Vec::new();
    for (entrance, from) in [(WEB, Some("10.88.0.2")), (WEB, Some("10.88.0.3")), (WEB6, None)] {
        let from: Option<IpAddr> = from.map(|from| from.parse().unwrap());
        let first = scene.ask_from(entrance, from).await.unwrap().name;
        for _ in 0..15 {
            assert_eq!(scene.ask_from(entrance, from).await.unwrap().name, first);
        }
        places.push(first);
    }
    assert_ne!(places[0], places[1], "another client is somebody else");
    let mut without = both(settings.clone());
    for port in without.ports.values_mut() {
        port.backends.retain(|backend| backend.node != places[0]);
    }
    scene.put(vec![without]).await;
    let moved = scene.ask(WEB).await.unwrap().name;
    assert_ne!(moved, places[0]);
    scene.put(vec![both(settings)]).await;
    for _ in 0..5 {
        assert_eq!(scene.ask(WEB).await.unwrap().name, moved, "a client that moved stays where it is");
    }
    // The memory ends, and the round goes on: within a few connections somebody else is met.
    let start = Instant::now();
    eventually("the client is free again", || async {
        tokio::time::sleep(Duration::from_millis(3200)).await;
        scene.ask(WEB).await.unwrap().name != moved
    })
    .await;
    assert!(start.elapsed() > Duration::from_secs(3));
}

#[tokio::test]
async fn source_hash_keeps_a_client_and_moves_only_those_whose_backend_left() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { algorithm: Algorithm::SourceHash, ..Settings::default() };
    scene.put(vec![wish(settings.clone())]).await;
    let places = |clients: std::ops::Range<u8>| async {
        let mut places = BTreeMap::new();
        for last in clients {
            let from = IpAddr::from([10, 88, 0, last]);
            places.insert(last, scene.ask_from(WEB, Some(from)).await.unwrap().name);
        }
        places
    };
    for last in 20..60 {
        scene.world.client.ip(&format!("addr add 10.88.0.{last}/24 dev eth0"));
    }
    let before = places(20..60).await;
    assert_eq!(places(20..60).await, before);
    assert_eq!(before.values().collect::<BTreeSet<_>>().len(), 3, "{before:?}");
    let mut without = wish(settings);
    without.ports.get_mut(&PortKey::tcp(80)).unwrap().backends.retain(|backend| backend.node != "node-1");
    scene.put(vec![without]).await;
    for (client, place) in places(20..60).await {
        assert!(before[&client] == place || before[&client] == "node-1", "{client} moved for nothing");
    }
}

#[tokio::test]
async fn source_ranges_and_the_limit_are_enforced_on_new_connections() {
    let Some(scene) = Scene::build().await else { return };
    let source_ranges: BTreeSet<_> =
        ["10.88.0.2/32".parse().unwrap(), "10.88.0.0/30".parse().unwrap(), "10.99.0.0/16".parse().unwrap()]
            .into();
    scene.put(vec![both(Settings { source_ranges, ..Settings::default() })]).await;
    assert!(scene.ask_from(WEB, Some("10.88.0.2".parse().unwrap())).await.is_ok());
    scene.world.client.ip("addr add 10.88.0.9/24 dev eth0");
    assert!(scene.ask_from(WEB, Some("10.88.0.9".parse().unwrap())).await.is_err());
    assert!(scene.ask(WEB6).await.is_err(), "ranges of IPv4 let nobody of IPv6 in");
    scene.put(vec![wish(Settings { connection_limit: 2, ..Settings::default() })]).await;
    let held =
        scene.world.client.run(async { (Held::open(WEB).await.unwrap(), Held::open(WEB).await.unwrap()) });
    let (first, _second) = held.await;
    assert!(scene.ask(WEB).await.is_err(), "the third is one too many");
    drop(first);
    eventually("there is room again", || async { scene.ask(WEB).await.is_ok() }).await;
}
