//! Which backend a connection goes to, and what it sees of the client.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::{Affinity, Algorithm, PortKey, ProxyProtocol, Settings};
use provider_local::proxy::Keeper;

use crate::scene::{Scene, WEB, shares};
use crate::servers::{Held, ask, ask_from, connect, eventually, fresh_address, namer, recorder};
use crate::wishes::{put, single};

#[tokio::test]
async fn connections_are_shared_evenly_and_the_backend_sees_the_balancers_own_address() {
    let scene = Scene::new(WEB, 3, Settings::default()).await;
    assert_eq!(scene.shares(300).await, shares(&[("node-0", 100), ("node-1", 100), ("node-2", 100)]));
    assert_eq!(ask(scene.entrance()).await.unwrap().peer, "127.0.0.1");
}

#[tokio::test]
async fn weights_are_shares_and_zero_takes_nothing_new() {
    let scene = Scene::new(WEB, 3, Settings::default()).await;
    let mut wish = scene.wish(Settings::default());
    let weighted = wish.ports[&WEB].backends.iter().cloned().map(|mut backend| {
        backend.weight = match backend.node.as_str() {
            "node-0" => 3,
            "node-1" => 1,
            _ => 0,
        };
        backend
    });
    wish.ports.get_mut(&WEB).unwrap().backends = weighted.collect();
    scene.put(&wish).await;
    assert_eq!(scene.shares(40).await, shares(&[("node-0", 30), ("node-1", 10)]));
}

#[tokio::test]
async fn least_connections_goes_where_the_fewest_are() {
    let settings = Settings { algorithm: Algorithm::LeastConnections, ..Settings::default() };
    let scene = Scene::new(WEB, 2, settings).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(Held::open(scene.entrance()).await.unwrap());
    }
    let (on_first, on_second): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.name == "node-0");
    assert_eq!((on_first.len(), on_second.len()), (5, 5));
    drop(on_first);
    eventually("node-0 is empty", || async {
        let status = scene.keeper.status().await;
        status.balancers["uid"]
            .backends
            .iter()
            .any(|one| one.backend.node == "node-0" && one.connections == Some(0))
    })
    .await;
    for _ in 0..5 {
        assert_eq!(Held::open(scene.entrance()).await.unwrap().name, "node-0");
    }
}

#[tokio::test]
async fn a_client_stays_with_its_backend_by_affinity_or_by_hash() {
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(60) };
    for settings in [
        Settings { affinity, ..Settings::default() },
        Settings { algorithm: Algorithm::SourceHash, ..Settings::default() },
    ] {
        let scene = Scene::new(WEB, 3, settings).await;
        let mut used = BTreeMap::new();
        for client in 1..=24 {
            let client = IpAddr::from([127, 9, 9, client]);
            let first = ask_from(scene.entrance(), Some(client)).await.unwrap().name;
            for _ in 0..3 {
                assert_eq!(ask_from(scene.entrance(), Some(client)).await.unwrap().name, first);
            }
            *used.entry(first).or_insert(0) += 1;
        }
        assert_eq!(used.len(), 3, "all backends are used: {used:?}");
    }
}

#[tokio::test]
async fn ipv6_is_served_by_ipv6_and_by_ipv4_backends() {
    let free = std::net::TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
    let v6 = namer("six", "[::1]:0".parse().unwrap());
    let v4 = namer("four", SocketAddr::new(fresh_address(), 30_080));
    let keeper = Arc::new(Keeper::in_memory());
    let key = PortKey::tcp(free.port());
    let backends = [("six", v6.address), ("four", v4.address)];
    put(&keeper, &[("uid", single(free.ip(), key, backends, Settings::default()))]).await.unwrap();
    let mut names = vec![ask(free).await.unwrap().name, ask(free).await.unwrap().name];
    names.sort();
    assert_eq!(names, ["four", "six"]);
}

#[tokio::test]
async fn the_backend_reads_the_clients_address_from_the_proxy_header() {
    let (server, mut seen) = recorder(SocketAddr::new(fresh_address(), 30_080), 28);
    let keeper = Arc::new(Keeper::in_memory());
    let entrance = SocketAddr::new(fresh_address(), WEB.port);
    let client = IpAddr::from([127, 9, 3, 7]);
    for version in [ProxyProtocol::V1, ProxyProtocol::V2] {
        let settings = Settings { proxy_protocol: Some(version), ..Settings::default() };
        let wish = single(entrance.ip(), WEB, [("node-0", server.address)], settings);
        put(&keeper, &[("uid", wish)]).await.unwrap();
        let stream = connect(entrance, Some(client)).await.unwrap();
        let port = stream.local_addr().unwrap().port();
        // Nothing was sent by the client: the header must not wait for it.
        let bytes = seen.recv().await.unwrap();
        let expected = match version {
            ProxyProtocol::V1 => {
                format!("PROXY TCP4 127.9.3.7 {} {port} 8080\r\n", entrance.ip()).into_bytes()[..28].to_vec()
            }
            ProxyProtocol::V2 => {
                let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
                bytes.extend([127, 9, 3, 7]);
                let IpAddr::V4(v4) = entrance.ip() else { panic!("an IPv4 address") };
                bytes.extend(v4.octets());
                bytes.extend(port.to_be_bytes());
                bytes.extend(8080_u16.to_be_bytes());
                bytes
            }
        };
        assert_eq!(bytes, expected);
    }
}
