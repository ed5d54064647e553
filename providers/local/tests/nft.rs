//! The data plane `nft` on a rack of network namespaces, as root: what the kernel does between real machines. Without root, or
//! without the programs `nft` and `conntrack`, each test is skipped with a notice.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/kernel.rs"]
mod kernel;
#[path = "rack/load.rs"]
mod load;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/wishes.rs"]
mod wishes;
#[path = "rack/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use provider_local::intent::status::Health;
use provider_local::intent::{
    Affinity, Algorithm, Backend, Delivery, HealthCheck, Port, PortKey, Probe, Settings, TrafficPolicy,
};
use tokio::time::Instant;

use kernel::{NAMES, Scene, both, wish, wish_udp};
use load::Load;
use servers::*;
use wishes::*;
use world::*;

const WEB: SocketAddr = SocketAddr::new(VIP, 80);
const WEB6: SocketAddr = SocketAddr::new(VIP6, 80);
const DNS: SocketAddr = SocketAddr::new(VIP, 53);

fn local() -> Settings {
    Settings { traffic_policy: TrafficPolicy::Local, ..Settings::default() }
}

fn thirds(count: usize) -> BTreeMap<String, usize> {
    NAMES.into_iter().map(|name| (name.to_owned(), count)).collect()
}

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
    assert_eq!(before.values().collect::<std::collections::BTreeSet<_>>().len(), 3, "{before:?}");
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
    let source_ranges: std::collections::BTreeSet<_> =
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
async fn clients_on_the_nodes_own_network_and_pods_behind_them_are_served() {
    let Some(scene) = Scene::build().await else { return };
    // A pod on node-0, which the balancer's machine has a route to.
    scene.world.nodes[0].ip("addr add 10.244.0.5/32 dev lo");
    scene.world.balancer.ip("route add 10.244.0.0/24 via 10.77.0.10");
    for settings in [Settings::default(), local()] {
        let policy = settings.traffic_policy;
        scene.put(vec![both(settings)]).await;
        for entrance in [WEB, WEB6] {
            let mut met = BTreeMap::new();
            for _ in 0..6 {
                let introduction = scene.world.nodes[0].run(ask_from(entrance, None)).await.unwrap();
                *met.entry(introduction.name).or_insert(0) += 1;
            }
            assert_eq!(met, thirds(2), "a node as client, itself included, at {entrance} under {policy:?}");
        }
        if policy == TrafficPolicy::Cluster {
            let pod = Some("10.244.0.5".parse().unwrap());
            for _ in 0..6 {
                let introduction = scene.world.nodes[0].run(ask_from(WEB, pod)).await.unwrap();
                assert_eq!(introduction.peer, "10.77.0.1");
            }
        }
    }
}

#[tokio::test]
async fn a_local_service_uses_only_nodes_whose_health_check_port_says_so() {
    let Some(scene) = Scene::build().await else { return };
    let place = |index: usize| SocketAddr::new(node_address(index), 30_999);
    let mut answers = Vec::new();
    for (index, status) in
        ["200 OK", "503 Service Unavailable", "503 Service Unavailable"].into_iter().enumerate()
    {
        answers.push(scene.world.nodes[index].run(async move { http(place(index), status) }).await);
    }
    let check = brisk(Probe::Http { port: 30_999, path: "/healthz".into() });
    scene.put(vec![wish(Settings { health_check: check, ..local() })]).await;
    eventually("it answers", || async { scene.ask(WEB).await.is_ok() }).await;
    for _ in 0..9 {
        assert_eq!(scene.ask(WEB).await.unwrap().name, "node-0");
    }
    // The pod moves.
    for (index, status) in [(0, "503 Service Unavailable"), (2, "200 OK")] {
        std::mem::replace(
            &mut answers[index],
            scene.world.nodes[1].run(async { http("127.0.0.1:0".parse().unwrap(), "200 OK") }).await,
        )
        .end()
        .await;
        answers[index] = scene.world.nodes[index].run(async move { http(place(index), status) }).await;
    }
    eventually("the other node is used", || async {
        scene.ask(WEB).await.is_ok_and(|met| met.name == "node-2")
    })
    .await;
    for server in answers {
        server.end().await;
    }
    // Nobody says that it has a pod: a client is refused at once, and not left to wait.
    eventually("nobody is asked", || async {
        scene.ask(WEB).await.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_dies_is_left_within_three_seconds_and_comes_back() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings)]).await;
    for node in NAMES {
        eventually("all are healthy", || scene.is(node, |health| *health == Health::Healthy)).await;
    }
    scene.world.nodes[1].ip("link set eth0 down");
    let dead = Instant::now();
    eventually("the node is left", || {
        scene.is("node-1", |health| matches!(health, Health::Unhealthy { .. }))
    })
    .await;
    let found_out = dead.elapsed();
    println!("a dead node was left after {found_out:?}");
    assert!(found_out < Duration::from_secs(3), "{found_out:?}");
    eventually("the rules follow", || async { !scene.rules().contains("10.77.0.11") }).await;
    assert!(dead.elapsed() < Duration::from_secs(3), "{:?}", dead.elapsed());
    for _ in 0..30 {
        assert_ne!(scene.ask(WEB).await.unwrap().name, "node-1");
    }
    scene.world.nodes[1].ip("link set eth0 up");
    scene.world.nodes[1].ip("route replace default via 10.77.0.1");
    eventually("the node is back", || async { scene.rules().contains("10.77.0.11") }).await;
}

#[tokio::test]
async fn ten_thousand_connections_during_changes_and_none_fails() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings.clone())]).await;
    let load = scene.world.client.run(async { Load::start(WEB, 8) }).await;
    let mut changes = 0;
    let start = Instant::now();
    while load.done() < 10_000 || changes < 24 {
        assert!(start.elapsed() < Duration::from_secs(120), "only {} connections", load.done());
        let mut wish = wish(settings.clone());
        if changes % 2 == 0 {
            let backends = &mut wish.ports.get_mut(&PortKey::tcp(80)).unwrap().backends;
            backends.retain(|backend| backend.node != NAMES[changes % 3]);
        }
        scene.put(vec![wish]).await;
        changes += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let outcome = load.end().await;
    assert!(outcome.failures.is_empty(), "{} good, {:?}", outcome.good, outcome.failures);
    assert!(
        outcome.good >= 10_000 && outcome.shares.len() == 3 && changes > 20,
        "{changes} changes, {outcome:?}"
    );
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
async fn nothing_is_left_after_a_delete() {
    let Some(scene) = Scene::build().await else { return };
    let mut all = both(Settings::default());
    all.ports.insert(PortKey::udp(53), all.ports[&PortKey::tcp(80)].clone());
    scene.put(vec![all]).await;
    assert!(scene.ask(WEB).await.is_ok() && scene.ask(WEB6).await.is_ok());
    assert!(scene.ask_by_udp(DNS).await.is_ok());
    let _held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    assert!(scene.rules().contains("nephos") && scene.conntrack("").contains("203.0.113.10"));
    scene.put(vec![]).await;
    assert_eq!(scene.rules(), "", "no table is left");
    assert!(!scene.conntrack("").contains("203.0.113.10"), "{}", scene.conntrack(""));
    assert!(!scene.conntrack("-f ipv6").contains("2001:db8::10"), "{}", scene.conntrack("-f ipv6"));
}

#[tokio::test]
async fn cleanup_removes_what_is_ours_and_nothing_else() {
    let Some(scene) = Scene::build().await else { return };
    scene.world.balancer.program("nft add table inet theirs").unwrap();
    scene.put(vec![both(Settings::default())]).await;
    let _held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    // Whoever cleans up has ended the manager, which would put it all back.
    scene.leader.set(false);
    let removed = scene.world.balancer.run(async { provider_local::nft::cleanup().await.unwrap() }).await;
    assert_eq!(removed, ["inet nephos"]);
    assert_eq!(scene.rules(), "table inet theirs {\n}");
    assert!(!scene.conntrack("").contains("203.0.113.10"), "{}", scene.conntrack(""));
}

#[tokio::test]
async fn what_somebody_else_changes_is_put_right_and_told() {
    let Some(scene) = Scene::build().await else { return };
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(60) };
    scene.put(vec![both(Settings { affinity, ..Settings::default() })]).await;
    assert!(scene.ask(WEB).await.is_ok());
    // Several scans pass: what nobody changed is not put right.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(scene.events.all().is_empty(), "{:?}", scene.events.all());
    let whole = scene.shape();
    let damages = [
        "nft flush ruleset",
        "nft delete table inet nephos",
        "nft flush map inet nephos listeners4",
        "nft add rule inet nephos b-uid-tcp-80-4 drop",
        "nft insert rule inet nephos prerouting drop",
        "nft add element inet nephos listeners4 { 203.0.113.10 . tcp . 99 : drop }",
        "nft flush chain inet nephos postrouting",
        "nft add chain inet nephos stranger",
    ];
    for damage in damages {
        let told = scene.events.all().len();
        scene.world.balancer.program(damage).unwrap();
        eventually(damage, || async { scene.shape() == whole }).await;
        eventually("it is told", || async { scene.events.all().len() > told }).await;
        assert!(scene.ask(WEB).await.is_ok(), "after {damage}");
    }
    let event = scene.events.all().pop().unwrap();
    assert_eq!(event.reason, "LoadBalancerDrifted");
    assert!(event.message.ends_with("it was put right"), "{}", event.message);
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

#[tokio::test]
async fn a_service_without_node_ports_is_passed_on_with_the_address_unmodified() {
    let Some(scene) = Scene::build().await else { return };
    // Each node knows the virtual address, as its proxy makes it.
    let mut servers = Vec::new();
    for (index, node) in scene.world.nodes.iter().enumerate() {
        node.ip(&format!("addr add {VIP}/32 dev lo"));
        node.ip(&format!("-6 addr add {VIP6}/128 dev lo nodad"));
        for entrance in [WEB, WEB6] {
            servers.push(node.run(async move { namer(NAMES[index], entrance) }).await);
        }
        servers.push(node.run(async move { udp_namer(NAMES[index], DNS) }).await);
    }
    let mut wish = both(Settings::default());
    let unmodified = |port: u16| Port {
        delivery: Delivery::Unmodified,
        backends: wish.ports[&PortKey::tcp(80)]
            .backends
            .iter()
            .map(|backend| Backend { port, ..backend.clone() })
            .collect(),
    };
    wish.ports = [(PortKey::tcp(80), unmodified(80)), (PortKey::udp(53), unmodified(53))].into();
    scene.put(vec![wish.clone()]).await;
    for (entrance, seen) in [(WEB, "10.88.0.2"), (WEB6, "fd00:88::2")] {
        let mut met = BTreeMap::new();
        for _ in 0..60 {
            let introduction = scene.ask(entrance).await.unwrap();
            assert_eq!(introduction.peer, seen);
            *met.entry(introduction.name).or_insert(0) += 1;
        }
        assert_eq!(met.len(), 3, "{met:?} at {entrance}");
    }
    assert!(scene.ask_by_udp(DNS).await.is_ok());
    assert!(!scene.conntrack("").contains("203.0.113.10"), "nothing of it is remembered");
    // And back to node ports, with a client that goes on.
    let ask = async {
        let client = Datagrams::to(DNS).await;
        client.ask("hello").await.unwrap();
        client
    };
    let client = scene.world.client.run(ask).await;
    scene.put(vec![wish_udp(Settings::default())]).await;
    assert_eq!(
        scene.world.client.run(async move { client.ask("again").await.unwrap() }).await.peer,
        "10.77.0.1"
    );
    scene.put(vec![]).await;
    assert_eq!(scene.rules(), "");
}
