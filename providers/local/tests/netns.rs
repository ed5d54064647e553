//! The data plane `proxy` on a rack of network namespaces, as root: what it does between real machines. Without root each
//! test is skipped with a notice.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/load.rs"]
mod load;
#[path = "rack/parts.rs"]
mod parts;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/wishes.rs"]
mod wishes;
#[path = "rack/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::status::Health;
use provider_local::intent::{
    Balancer, ClientAddress, HealthCheck, Intent, PortKey, Probe, ProxyProtocol, Settings,
};
use provider_local::proxy::Keeper;
use testkit::Awake;
use tokio::time::Instant;

use load::Load;
use parts::{Place, Process};
use servers::*;
use wishes::*;
use world::*;

const WEB: SocketAddr = SocketAddr::new(VIP, 80);
const WEB6: SocketAddr = SocketAddr::new(VIP6, 80);
const NAMES: [&str; 3] = ["node-0", "node-1", "node-2"];
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 88, 0, 2));

#[test]
#[ignore = "other tests start it as a process of its own"]
fn plays_a_part_that_another_test_starts() {
    parts::play();
}

/// A rack with a server on each node, and a proxy on the balancer's machine.
struct Scene {
    keeper: Arc<Keeper>,
    _servers: Vec<Server>,
    world: World,
}

impl Scene {
    async fn build() -> Option<Self> {
        let world = World::build().await?;
        let mut servers = Vec::new();
        for (index, node) in world.nodes.iter().enumerate() {
            for address in [node_address(index), node_address6(index)] {
                let socket = node_port(address);
                servers.push(node.run(async move { namer(NAMES[index], socket) }).await);
                servers.push(node.run(async move { udp_namer(NAMES[index], socket) }).await);
            }
        }
        let keeper = world.balancer.run(async { Arc::new(Keeper::in_memory()) }).await;
        Some(Self { keeper, _servers: servers, world })
    }

    async fn put(&self, balancers: Vec<Balancer>) {
        let keeper = Arc::clone(&self.keeper);
        let applied = self.world.balancer.run(async move {
            let named: Vec<_> = ["uid", "other"].into_iter().zip(balancers).collect();
            put(&keeper, &named).await
        });
        applied.await.unwrap();
    }

    async fn ask(&self, to: SocketAddr, from: Option<IpAddr>) -> std::io::Result<Introduction> {
        self.world.client.run(ask_from(to, from)).await
    }

    async fn ask_by_udp(&self, to: SocketAddr) -> std::io::Result<Introduction> {
        self.world.client.run(async move { Datagrams::to(to).await.ask("hello").await }).await
    }
}

fn wish(settings: Settings) -> Balancer {
    single(
        VIP,
        PortKey::tcp(80),
        NAMES.into_iter().zip((0..3).map(|index| node_port(node_address(index)))),
        settings,
    )
}

fn wish6(key: PortKey, settings: Settings) -> Balancer {
    single(VIP6, key, NAMES.into_iter().zip((0..3).map(|index| node_port(node_address6(index)))), settings)
}

#[tokio::test]
async fn connections_are_even_and_nodes_see_the_balancers_address_unless_the_clients_is_kept() {
    let Some(scene) = Scene::build().await else { return };
    scene.put(vec![wish(Settings::default()), wish6(PortKey::tcp(80), Settings::default())]).await;
    for (entrance, own, clients) in [(WEB, "10.77.0.1", "10.88.0.2"), (WEB6, "fd00:77::1", "fd00:88::2")] {
        let mut shares = BTreeMap::new();
        for _ in 0..90 {
            let introduction = scene.ask(entrance, None).await.unwrap();
            assert_eq!(introduction.peer, own);
            *shares.entry(introduction.name).or_insert(0) += 1;
        }
        assert_eq!(shares, NAMES.into_iter().map(|name| (name.to_owned(), 30)).collect(), "at {entrance}");
        assert_ne!(own, clients);
    }
    scene.world.route_answers_to_the_balancer();
    let kept = Settings { client_address: ClientAddress::Kept, ..Settings::default() };
    scene.put(vec![wish(kept.clone()), wish6(PortKey::tcp(80), kept)]).await;
    for _ in 0..6 {
        assert_eq!(scene.ask(WEB, None).await.unwrap().peer, "10.88.0.2");
        assert_eq!(scene.ask(WEB6, None).await.unwrap().peer, "fd00:88::2");
    }
    let other: IpAddr = "10.88.0.3".parse().unwrap();
    assert_eq!(scene.ask(WEB, Some(other)).await.unwrap().peer, "10.88.0.3");
    assert_eq!(scene.keeper.status().await.balancers["uid"].problems, Vec::<String>::new());
}

#[tokio::test]
async fn where_answers_do_not_come_back_the_client_is_served_all_the_same_and_the_status_says_why() {
    let Some(scene) = Scene::build().await else { return };
    // The nodes know another way to the client, past the balancer, and it leads nowhere.
    for node in &scene.world.nodes {
        node.ip("route add blackhole 10.88.0.0/24");
    }
    let kept = Settings { client_address: ClientAddress::Kept, ..Settings::default() };
    scene.put(vec![wish(kept)]).await;
    let six = async || {
        let start = Instant::now();
        for _ in 0..6 {
            assert_eq!(scene.ask(WEB, None).await.unwrap().peer, "10.77.0.1");
        }
        start.elapsed()
    };
    let (finding_out, knowing) = (six().await, six().await);
    assert!(
        knowing < finding_out / 3,
        "{finding_out:?}, then {knowing:?}: it is tried again for every client"
    );
    let problems = scene.keeper.status().await.balancers["uid"].problems.clone();
    assert!(problems[0].ends_with("to clients do not come back through this machine"), "{problems:?}");
}

#[tokio::test]
async fn an_address_may_come_to_the_machine_after_the_intent() {
    let Some(scene) = Scene::build().await else { return };
    let late: [IpAddr; 2] = ["203.0.113.77".parse().unwrap(), "2001:db8::77".parse().unwrap()];
    let mut wish = wish(Settings::default());
    wish.addresses = late.into();
    wish.ports.insert(PortKey::udp(53), wish.ports[&PortKey::tcp(80)].clone());
    scene.put(vec![wish]).await;
    assert!(scene.keeper.status().await.is_open("uid"));
    for address in late {
        scene.world.balancer.ip(&format!("addr add {address} dev lo"));
        assert!(scene.ask(SocketAddr::new(address, 80), None).await.is_ok());
        assert!(scene.ask_by_udp(SocketAddr::new(address, 53)).await.is_ok());
    }
}

#[tokio::test]
async fn source_ranges_are_enforced_between_machines() {
    let Some(scene) = Scene::build().await else { return };
    let source_ranges = ["10.88.0.2/32".parse().unwrap()].into();
    scene.put(vec![wish(Settings { source_ranges, ..Settings::default() })]).await;
    assert!(scene.ask(WEB, Some(CLIENT)).await.is_ok());
    for _ in 0..5 {
        assert!(scene.ask(WEB, Some("10.88.0.3".parse().unwrap())).await.is_err());
    }
}

#[tokio::test]
async fn udp_is_even_over_both_families_and_keeps_the_clients_address_where_asked() {
    let Some(scene) = Scene::build().await else { return };
    let v4 = |settings| Balancer {
        ports: [(PortKey::udp(53), wish(Settings::default()).ports[&PortKey::tcp(80)].clone())].into(),
        settings,
        ..wish(Settings::default())
    };
    scene.put(vec![v4(Settings::default()), wish6(PortKey::udp(53), Settings::default())]).await;
    // All stay, so that none has the port of another, and with it its session.
    let mut clients = Vec::new();
    for address in [VIP, VIP6] {
        let entrance = SocketAddr::new(address, 53);
        let mut shares = BTreeMap::new();
        for _ in 0..30 {
            let ask = async move {
                let client = Datagrams::to(entrance).await;
                let introduction = client.ask("hello").await.unwrap();
                (client, introduction)
            };
            let (client, introduction) = scene.world.client.run(ask).await;
            clients.push(client);
            assert_eq!(introduction.rest, "hello");
            *shares.entry(introduction.name).or_insert(0) += 1;
        }
        assert_eq!(shares, NAMES.into_iter().map(|name| (name.to_owned(), 10)).collect(), "at {entrance}");
    }
    scene.world.route_answers_to_the_balancer();
    let kept = Settings { client_address: ClientAddress::Kept, ..Settings::default() };
    scene.put(vec![v4(kept.clone()), wish6(PortKey::udp(53), kept)]).await;
    assert_eq!(scene.ask_by_udp(SocketAddr::new(VIP, 53)).await.unwrap().peer, "10.88.0.2");
    assert_eq!(scene.ask_by_udp(SocketAddr::new(VIP6, 53)).await.unwrap().peer, "fd00:88::2");
}

#[tokio::test]
async fn the_proxy_header_carries_the_clients_address_to_the_byte() {
    let Some(scene) = Scene::build().await else { return };
    let socket = SocketAddr::new(node_address(0), 30_443);
    let line = "PROXY TCP4 10.88.0.2 203.0.113.10 40000 443\r\n";
    let (_server, mut seen) = scene.world.nodes[0].run(async move { recorder(socket, line.len() + 4) }).await;
    let settings = Settings { proxy_protocol: Some(ProxyProtocol::V1), ..Settings::default() };
    scene.put(vec![single(VIP, PortKey::tcp(443), [("node-0", socket)], settings)]).await;
    let say = async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(CLIENT, 40_000)).unwrap();
        let mut stream = socket.connect(SocketAddr::new(VIP, 443)).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"data").await.unwrap();
        stream
    };
    let _stream = scene.world.client.run(say).await;
    assert_eq!(String::from_utf8(seen.recv().await.unwrap()).unwrap(), format!("{line}data"));
}

#[tokio::test]
async fn a_node_that_dies_is_left_within_three_seconds_and_comes_back() {
    let Some(scene) = Scene::build().await else { return };
    // The pace that a Service gets if it says nothing.
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings)]).await;
    let is = |wanted: fn(&Health) -> bool, node: &'static str| {
        let keeper = Arc::clone(&scene.keeper);
        async move {
            let status = keeper.status().await;
            status.balancers["uid"]
                .backends
                .iter()
                .any(|found| found.backend.node == node && wanted(&found.health))
        }
    };
    for node in NAMES {
        eventually("all are healthy", || is(|health| *health == Health::Healthy, node)).await;
    }
    let load = scene.world.client.run(async { Load::start(WEB, 8) }).await;
    load.goes_on(200).await;
    // The cable is pulled: nothing answers and nothing refuses.
    scene.world.nodes[1].ip("link set eth0 down");
    let dead = Awake::now();
    eventually("the node is left", || is(|health| matches!(health, Health::Unhealthy { .. }), "node-1"))
        .await;
    let found_out = dead.elapsed();
    println!("a dead node was left after {found_out:?}");
    assert!(found_out < Duration::from_secs(3), "{found_out:?}");
    let before = Awake::now();
    for _ in 0..30 {
        let introduction = scene.ask(WEB, None).await.unwrap();
        assert_ne!(introduction.name, "node-1");
    }
    assert!(before.elapsed() < Duration::from_secs(3), "new connections wait for a dead node");
    scene.world.nodes[1].ip("link set eth0 up");
    scene.world.nodes[1].ip("route replace default via 10.77.0.1");
    eventually("the node is back", || is(|health| *health == Health::Healthy, "node-1")).await;
    let outcome = load.end().await;
    // Only a connection that the dead node had already taken can fail, and there is one per client at most.
    assert!(outcome.failures.len() <= 8, "{} good, {:?}", outcome.good, outcome.failures);
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
async fn nothing_is_left_on_the_machine_after_a_delete() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    let mut wish = wish(settings.clone());
    wish.addresses.insert(VIP6);
    wish.ports.insert(PortKey::udp(53), wish.ports[&PortKey::tcp(80)].clone());
    scene.put(vec![wish]).await;
    assert!(scene.ask(WEB, None).await.is_ok());
    assert!(scene.ask_by_udp(SocketAddr::new(VIP, 53)).await.is_ok());
    let held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    assert!(scene.world.sockets().len() >= 6, "{:?}", scene.world.sockets());
    scene.put(vec![]).await;
    assert!(scene.world.client.run(held.end()).await.is_err());
    let world = &scene.world;
    eventually("no socket is left", || async { world.sockets().is_empty() }).await;
    let refused = scene.ask(WEB, None).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn the_feeding_side_is_killed_and_started_again_under_load_between_machines() {
    let Some(scene) = Scene::build().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = Place(directory.path().to_owned());
    let mut wish = wish(Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() });
    let port = wish.ports.get_mut(&PortKey::tcp(80)).unwrap();
    port.backends = std::mem::take(&mut port.backends)
        .into_iter()
        .map(|mut backend| {
            if backend.node == "node-2" {
                backend.node = "flapping".into();
            }
            backend
        })
        .collect();
    let intent = Intent { balancers: [("uid".to_owned(), wish.into())].into(), ..Intent::empty() };
    std::fs::write(place.wish(), serde_json::to_vec(&intent).unwrap()).unwrap();
    let _proxy = Process::start("proxy", &place, Some(&scene.world.balancer.name));
    place.answers().await;
    place.client().apply(intent).await.unwrap();
    let load = scene.world.client.run(async { Load::start(WEB, 8) }).await;
    for _ in 0..3 {
        let before = place.client().intent().await.unwrap().revision;
        let feeder = Process::start("feeder", &place, None);
        eventually("it feeds", || async { place.client().intent().await.unwrap().revision > before + 10 })
            .await;
        load.goes_on(300).await;
        feeder.kill();
        load.goes_on(300).await;
    }
    let outcome = load.end().await;
    assert!(outcome.failures.is_empty(), "{} good, {:?}", outcome.good, outcome.failures);
    assert_eq!(outcome.shares.len(), 3, "{outcome:?}");
}
