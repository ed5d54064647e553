//! Addresses that come, pass from one balancer to another, and go.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::{PortKey, Probe, Settings};
use provider_local::proxy::Keeper;

use crate::scene::{DNS, Scene, WEB};
use crate::servers::{Datagrams, Held, ask, eventually, fresh_address, namer, udp_namer};
use crate::wishes::{brisk, port, put, single};

#[tokio::test]
async fn nothing_is_left_of_a_balancer_that_is_deleted() {
    let scene = Scene::new(WEB, 2, Settings::default()).await;
    let udp = udp_namer("dns", SocketAddr::new(fresh_address(), 30_053));
    let mut wish = scene.wish(Settings::default());
    wish.ports.insert(DNS, port([("dns", udp.address)]));
    scene.put(&wish).await;
    let held = Held::open(scene.entrance()).await.unwrap();
    let datagrams = Datagrams::to(SocketAddr::new(scene.address, DNS.port)).await;
    datagrams.ask("hello").await.unwrap();
    put(&scene.keeper, &[]).await.unwrap();
    assert_eq!(ask(scene.entrance()).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(held.end().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(datagrams.ask("anybody?").await.is_err());
    for key in [WEB, DNS] {
        let socket = SocketAddr::new(scene.address, key.port);
        std::net::TcpListener::bind(socket).unwrap();
        std::net::UdpSocket::bind(socket).unwrap();
    }
    assert_eq!(scene.keeper.status().await.balancers.len(), 0);
    assert!(!scene.keeper.metrics().await.contains("shop"));
}

#[tokio::test]
async fn an_address_that_is_taken_away_closes_and_its_connections_drain() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    let (first, second) = (scene.address, fresh_address());
    let mut wish = scene.wish(Settings::default());
    wish.addresses.insert(second);
    scene.put(&wish).await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    wish.addresses.remove(&first);
    scene.put(&wish).await;
    assert_eq!(ask(scene.entrance()).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    held.echo().await.unwrap();
    assert!(ask(SocketAddr::new(second, WEB.port)).await.is_ok());
}

#[tokio::test]
async fn an_address_passes_from_one_balancer_to_another_in_one_step() {
    for key in [WEB, DNS] {
        let scene = Scene::new(key, 1, Settings::default()).await;
        let datagrams = Datagrams::to(scene.entrance()).await;
        if key == DNS {
            datagrams.ask("hello").await.unwrap();
        }
        // The names are in this order so that the new one comes first in every map.
        put(&scene.keeper, &[("a-new-uid", scene.wish(Settings::default()))]).await.unwrap();
        let status = scene.keeper.status().await;
        assert!(status.is_open("a-new-uid"), "{status:?}");
        if key == DNS {
            assert_eq!(datagrams.ask("hello").await.unwrap().rest, "hello");
        } else {
            assert!(ask(scene.entrance()).await.is_ok());
        }
    }
}

#[tokio::test]
async fn one_address_is_shared_by_tcp_and_udp_of_different_services() {
    let tcp = namer("tcp", SocketAddr::new(fresh_address(), 30_080));
    let udp = udp_namer("udp", SocketAddr::new(fresh_address(), 30_080));
    let keeper = Arc::new(Keeper::in_memory());
    let address = fresh_address();
    let one = single(address, PortKey::tcp(4430), [("tcp", tcp.address)], Settings::default());
    let other = single(address, PortKey::udp(4430), [("udp", udp.address)], Settings::default());
    put(&keeper, &[("one", one), ("other", other)]).await.unwrap();
    let entrance = SocketAddr::new(address, 4430);
    assert_eq!(ask(entrance).await.unwrap().name, "tcp");
    assert_eq!(Datagrams::to(entrance).await.ask("hello").await.unwrap().name, "udp");
}

#[tokio::test]
async fn an_address_that_cannot_be_opened_is_told_and_opened_when_it_can_be() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    let address = fresh_address();
    let taken = std::net::TcpListener::bind(SocketAddr::new(address, WEB.port)).unwrap();
    let mut wish = scene.wish(Settings::default());
    wish.addresses = [scene.address, address].into();
    scene.put(&wish).await;
    let status = scene.keeper.status().await;
    let failures: Vec<_> =
        status.balancers["uid"].listeners.iter().filter(|one| one.failure.is_some()).collect();
    assert_eq!((failures.len(), failures[0].listener.address), (1, address));
    assert!(failures[0].failure.as_ref().unwrap().contains("in use"), "{failures:?}");
    assert!(ask(scene.entrance()).await.is_ok(), "the other address is served");
    drop(taken);
    eventually("it is open", || async { scene.keeper.status().await.is_open("uid") }).await;
    assert!(ask(SocketAddr::new(address, WEB.port)).await.is_ok());
}

#[tokio::test]
async fn nothing_goes_on_when_the_data_plane_is_dropped() {
    let settings = Settings { health_check: brisk(Probe::Tcp), ..Settings::default() };
    let Scene { keeper, address, servers, .. } = Scene::new(WEB, 1, settings).await;
    let held = Held::open(SocketAddr::new(address, WEB.port)).await.unwrap();
    drop(keeper);
    assert!(held.end().await.is_err());
    assert!(ask(SocketAddr::new(address, WEB.port)).await.is_err());
    // Nobody asks the server any more whether it lives: in its place, a recorder sees no connection.
    let (name, server) = servers.into_iter().next().unwrap();
    let place = server.address;
    server.end().await;
    let listener = tokio::net::TcpListener::bind(place).await.unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(500), listener.accept()).await;
    assert!(asked.is_err(), "{name} is still asked");
}
