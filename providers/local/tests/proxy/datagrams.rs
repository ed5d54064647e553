//! UDP: sessions that are kept, moved and forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use provider_local::intent::Settings;

use crate::scene::{DNS, Scene, shares};
use crate::servers::{Datagrams, eventually};

#[tokio::test]
async fn udp_clients_keep_their_backend_and_are_answered_from_the_address_they_asked() {
    let scene = Scene::new(DNS, 3, Settings::default()).await;
    let mut used = BTreeMap::new();
    let mut clients = Vec::new();
    for _ in 0..9 {
        let client = Datagrams::to(scene.entrance()).await;
        let first = client.ask("one").await.unwrap();
        assert_eq!(first.rest, "one");
        for text in ["two", "three"] {
            assert_eq!(client.ask(text).await.unwrap().name, first.name);
        }
        // Kept, so that no other has the same port.
        clients.push(client);
        *used.entry(first.name).or_insert(0) += 1;
    }
    assert_eq!(used, shares(&[("node-0", 3), ("node-1", 3), ("node-2", 3)]));
    let large = "x".repeat(60_000);
    assert_eq!(Datagrams::to(scene.entrance()).await.ask(&large).await.unwrap().rest, large);
}

#[tokio::test]
async fn after_a_backend_left_the_next_datagram_reaches_another() {
    let scene = Scene::new(DNS, 2, Settings::default()).await;
    let client = Datagrams::to(scene.entrance()).await;
    let first = client.ask("before").await.unwrap().name;
    scene.put(&scene.wish_without(&[&first], Settings::default())).await;
    let second = client.ask("after").await.unwrap().name;
    assert_ne!(first, second);
    assert_eq!(client.ask("still").await.unwrap().name, second);
}

#[tokio::test]
async fn a_udp_backend_whose_port_is_closed_is_left_after_one_lost_datagram() {
    let mut scene = Scene::new(DNS, 2, Settings::default()).await;
    let client = Datagrams::to(scene.entrance()).await;
    let first = client.ask("before").await.unwrap().name;
    let index = scene.servers.iter().position(|(name, _)| *name == first).unwrap();
    scene.servers.remove(index).1.end().await;
    assert!(client.ask("into the void").await.is_err());
    assert_ne!(client.ask("elsewhere").await.unwrap().name, first);
}

#[tokio::test]
async fn an_idle_udp_client_is_forgotten() {
    let settings = Settings { udp_idle_timeout: Duration::from_millis(200), ..Settings::default() };
    let scene = Scene::new(DNS, 1, settings).await;
    let client = Datagrams::to(scene.entrance()).await;
    client.ask("hello").await.unwrap();
    let sessions = || async { scene.keeper.status().await.balancers["uid"].backends[0].connections };
    assert_eq!(sessions().await, Some(1));
    eventually("the session is over", || async { sessions().await == Some(0) }).await;
    assert_eq!(client.ask("again").await.unwrap().rest, "again");
}

#[tokio::test]
async fn udp_obeys_source_ranges_and_the_limit() {
    let nobody = Settings { source_ranges: ["192.0.2.0/24".parse().unwrap()].into(), ..Settings::default() };
    let scene = Scene::new(DNS, 1, nobody).await;
    assert!(Datagrams::to(scene.entrance()).await.ask("let me in").await.is_err());
    scene.put(&scene.wish(Settings { connection_limit: 1, ..Settings::default() })).await;
    let client = Datagrams::to(scene.entrance()).await;
    client.ask("first").await.unwrap();
    assert!(Datagrams::to(scene.entrance()).await.ask("second").await.is_err());
    assert_eq!(client.ask("first again").await.unwrap().rest, "first again");
}
