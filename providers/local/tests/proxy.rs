//! The data plane `proxy` on the loopback network, without any privilege: what clients and backends see of it.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/wishes.rs"]
mod wishes;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::status::Health;
use provider_local::intent::{
    Affinity, Algorithm, Balancer, ClientAddress, Delivery, Intent, PortKey, Probe, ProxyProtocol, Settings,
    TrafficPolicy,
};
use provider_local::proxy::Keeper;
use tokio::task::JoinSet;
use tokio::time::Instant;

use servers::*;
use wishes::*;

const WEB: PortKey = PortKey { protocol: provider_local::intent::Protocol::Tcp, port: 8080 };
const DNS: PortKey = PortKey { protocol: provider_local::intent::Protocol::Udp, port: 8053 };

/// A proxy with one balancer in front of `count` servers.
struct Scene {
    keeper: Arc<Keeper>,
    address: IpAddr,
    servers: Vec<(String, Server)>,
    key: PortKey,
}

impl Scene {
    async fn new(key: PortKey, count: usize, settings: Settings) -> Self {
        let start = if key == DNS { udp_namer } else { namer };
        let servers = (0..count)
            .map(|index| {
                let name = format!("node-{index}");
                let server = start(&name, SocketAddr::new(fresh_address(), 30_080));
                (name, server)
            })
            .collect();
        let scene = Self { keeper: Arc::new(Keeper::in_memory()), address: fresh_address(), servers, key };
        scene.put(&scene.wish(settings)).await;
        scene
    }

    fn wish(&self, settings: Settings) -> Balancer {
        let backends = self.servers.iter().map(|(name, server)| (name.as_str(), server.address));
        single(self.address, self.key, backends, settings)
    }

    fn wish_without(&self, names: &[&str], settings: Settings) -> Balancer {
        let backends = self.servers.iter().map(|(name, server)| (name.as_str(), server.address));
        single(self.address, self.key, backends.filter(|(name, _)| !names.contains(name)), settings)
    }

    async fn put(&self, balancer: &Balancer) {
        put(&self.keeper, &[("uid", balancer.clone())]).await.unwrap();
    }

    fn entrance(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.key.port)
    }

    /// Who answers `count` connections, one after another.
    async fn shares(&self, count: usize) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for _ in 0..count {
            *shares.entry(ask(self.entrance()).await.unwrap().name).or_default() += 1;
        }
        shares
    }

    async fn health(&self, node: &str) -> Option<Health> {
        let status = self.keeper.status().await;
        let backends = &status.balancers.get("uid")?.backends;
        backends.iter().find(|found| found.backend.node == node).map(|found| found.health.clone())
    }
}

fn shares(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

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
async fn only_the_source_ranges_come_in_and_a_change_of_them_holds_at_once() {
    let only =
        |range: &str| Settings { source_ranges: [range.parse().unwrap()].into(), ..Settings::default() };
    let scene = Scene::new(WEB, 1, only("127.9.1.0/24")).await;
    let (one, other) = (IpAddr::from([127, 9, 1, 1]), IpAddr::from([127, 9, 2, 1]));
    assert_eq!(ask_from(scene.entrance(), Some(one)).await.unwrap().name, "node-0");
    let refused = ask_from(scene.entrance(), Some(other)).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{refused}");
    scene.put(&scene.wish(only("127.9.2.0/24"))).await;
    assert!(ask_from(scene.entrance(), Some(one)).await.is_err());
    assert_eq!(ask_from(scene.entrance(), Some(other)).await.unwrap().name, "node-0");
    let metrics = scene.keeper.metrics().await;
    let line =
        r#"nephos_local_connections_refused_total{namespace="shop",service="web",reason="source_range"} 2"#;
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

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

#[tokio::test]
async fn a_dead_backend_fails_no_client_and_is_found_out() {
    let settings = Settings { health_check: brisk(Probe::Tcp), ..Settings::default() };
    let mut scene = Scene::new(WEB, 3, settings).await;
    assert_eq!(scene.shares(3).await.len(), 3);
    scene.servers.remove(0).1.end().await;
    assert_eq!(scene.shares(60).await.get("node-0"), None, "sixty connections, and none failed");
    eventually("the status says it", || async {
        matches!(scene.health("node-0").await, Some(Health::Unhealthy { .. }))
    })
    .await;
    assert_eq!(scene.health("node-1").await, Some(Health::Healthy));
}

#[tokio::test]
async fn with_local_policy_only_nodes_that_have_a_pod_are_asked() {
    let probe = Probe::Http { port: 32_000, path: "/healthz".into() };
    let traffic_policy = TrafficPolicy::Local;
    let settings = Settings { health_check: brisk(probe), traffic_policy, ..Settings::default() };
    let scene = Scene::new(WEB, 3, settings.clone()).await;
    let checks = |index: usize| SocketAddr::new(scene.servers[index].1.address.ip(), 32_000);
    let with_pod = http(checks(0), "200 OK");
    let _without = http(checks(1), "503 Service Unavailable");
    eventually("all were asked", || async {
        let health =
            [scene.health("node-0").await, scene.health("node-1").await, scene.health("node-2").await];
        matches!(
            health,
            [Some(Health::Healthy), Some(Health::Unhealthy { .. }), Some(Health::Unhealthy { .. })]
        )
    })
    .await;
    assert_eq!(scene.shares(9).await, shares(&[("node-0", 9)]));
    with_pod.end().await;
    eventually("nobody has a pod", || async {
        matches!(scene.health("node-0").await, Some(Health::Unhealthy { .. }))
    })
    .await;
    assert!(ask(scene.entrance()).await.is_err(), "a node without a pod was asked");
    scene.put(&scene.wish(Settings { traffic_policy: TrafficPolicy::Cluster, ..settings })).await;
    assert!(ask(scene.entrance()).await.is_ok(), "with Cluster policy a wrong check takes nothing down");
}

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
async fn the_connection_limit_refuses_what_comes_above_and_frees_what_ends() {
    let scene = Scene::new(WEB, 1, Settings { connection_limit: 2, ..Settings::default() }).await;
    let first = Held::open(scene.entrance()).await.unwrap();
    let _second = Held::open(scene.entrance()).await.unwrap();
    assert!(ask(scene.entrance()).await.is_err());
    drop(first);
    eventually("there is room again", || async { ask(scene.entrance()).await.is_ok() }).await;
    let metrics = scene.keeper.metrics().await;
    assert!(metrics.contains(r#"reason="limit""#) && !metrics.contains(r#"reason="limit"} 0"#), "{metrics}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let scene =
        Scene::new(WEB, 1, Settings { idle_timeout: Duration::from_millis(300), ..Settings::default() })
            .await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    let mut last = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        last = Instant::now();
        held.echo().await.unwrap();
    }
    held.end().await.unwrap();
    assert!(last.elapsed() >= Duration::from_millis(300), "{:?}", last.elapsed());
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
async fn what_a_proxy_cannot_do_is_told_in_the_status() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    let mut wish = scene.wish(Settings::default());
    wish.ports.get_mut(&WEB).unwrap().delivery = Delivery::Unmodified;
    scene.put(&wish).await;
    let problems = scene.keeper.status().await.balancers["uid"].problems.clone();
    assert!(problems[0].starts_with("port TCP/8080 has no node port"), "{problems:?}");
    assert!(ask(scene.entrance()).await.is_err());
    // Backends of the other family cannot see the client's address, privilege or not.
    let v6 = namer("six", "[::1]:0".parse().unwrap());
    let kept = Settings { client_address: ClientAddress::Kept, ..Settings::default() };
    scene.put(&single(scene.address, WEB, [("six", v6.address)], kept)).await;
    assert_eq!(ask(scene.entrance()).await.unwrap().name, "six");
    let problems = scene.keeper.status().await.balancers["uid"].problems.clone();
    assert!(problems[0].contains("different address families"), "{problems:?}");
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
async fn the_counters_say_what_happened() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    scene.shares(3).await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    held.echo().await.unwrap();
    eventually("the short ones are over", || async {
        scene.keeper.status().await.balancers["uid"].backends[0].connections == Some(1)
    })
    .await;
    let metrics = scene.keeper.metrics().await;
    let address = scene.servers[0].1.address;
    let service = r#"namespace="shop",service="web""#;
    let target = format!(r#"{service},port="TCP/8080",node="node-0",address="{address}""#);
    // Each says `node-0` and its client's address, 17 bytes, before the echo.
    for line in [
        format!("nephos_local_connections{{{service}}} 1"),
        format!("nephos_local_connections_accepted_total{{{service}}} 4"),
        format!("nephos_local_received_bytes_total{{{service}}} {}", 3 * 5 + 4),
        format!("nephos_local_sent_bytes_total{{{service}}} {}", 4 * 17 + 3 * 5 + 4),
        format!("nephos_local_backend_up{{{target}}} 1"),
        format!("nephos_local_backend_connections{{{target}}} 1"),
        format!("nephos_local_backend_connections_chosen_total{{{target}}} 4"),
        format!("nephos_local_backend_failures_total{{{target}}} 0"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
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

#[tokio::test]
async fn a_thousand_balancers_of_fifty_nodes_are_in_force_within_two_seconds_and_a_change_soon() {
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
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    Arc::make_mut(intent.balancers.get_mut("uid-500").unwrap()).ports.values_mut().for_each(|port| {
        port.backends.pop_first();
    });
    let start = Instant::now();
    keeper.apply(intent).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    let status = keeper.status().await;
    assert_eq!(status.balancers.len(), 1000);
    assert_eq!(status.balancers["uid-500"].backends.len(), 49);
    assert!(status.balancers.keys().all(|uid| status.is_open(uid)));
}
