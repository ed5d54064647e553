//! Routes in the kernel's table, in network namespaces, as root. Without root each test is skipped with a notice.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/lan.rs"]
mod lan;
#[path = "rack/ping.rs"]
mod ping;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/world.rs"]
mod world;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use cloud_provider::context::{EventSink, EventType, Subject};
use cloud_provider::{
    Change, Changes, Cloud, ClusterId, ClusterIdentity, Context, Gate, Outcome, Refusal, Route, Routes,
};
use k8s_openapi::api::core::v1::NodeAddress;
use provider_local::{NAME, cleanup, routes, vip};

use lan::Lan;
use servers::eventually;
use world::Room;

/// Lets everything through.
struct Open;

impl Gate for Open {
    fn admit(&self, _: &Change) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_start(&self) -> bool {
        true
    }

    fn ended(&self, _: &Change, _: Outcome) {}
}

#[derive(Default)]
struct Told(Mutex<Vec<(Subject, String)>>);

impl EventSink for Told {
    fn record(&self, subject: &Subject, _: EventType, reason: &str, _: &str) {
        self.0.lock().unwrap().push((subject.clone(), reason.to_owned()));
    }
}

/// The router's slot, and who hears of what it does.
struct Slot {
    routes: Arc<dyn Routes>,
    told: Arc<Told>,
    cluster: ClusterIdentity,
}

impl Slot {
    async fn of(router: &Room, cluster: &str) -> Self {
        let told = Arc::new(Told::default());
        let mut context = Context::inert();
        context.events = Arc::clone(&told) as _;
        let cloud = router.run(async move { routes::offer(Cloud::new(NAME), &context) }).await;
        let cluster = ClusterIdentity::new("kubernetes", ClusterId::Configured(cluster.to_owned()));
        Self { routes: cloud.routes.unwrap(), told, cluster }
    }

    async fn create(&self, node: usize, destination: &str) {
        let addresses = [lan::address(node), lan::address6(node)]
            .map(|ip| NodeAddress { type_: "InternalIP".into(), address: ip.to_string() });
        let name = format!("node-{node}");
        let route = Route::new(destination.parse().unwrap()).to_node(&name, addresses.to_vec());
        let changes = Changes::through(Arc::new(Open));
        self.routes.create(&self.cluster, &format!("uid-{node}"), &route, &changes).await.unwrap();
    }

    async fn list(&self) -> Vec<Route> {
        self.routes.list(&self.cluster).await.unwrap()
    }
}

/// The first pod of a node.
fn pod(node: usize) -> [IpAddr; 2] {
    let node = u8::try_from(node).unwrap();
    [IpAddr::from([10, 244, node, 2]), IpAddr::from([0xfd44, u16::from(node), 0, 0, 0, 0, 0, 2])]
}

fn networks(node: usize) -> [String; 2] {
    [format!("10.244.{node}.0/24"), format!("fd44:{node}::/64")]
}

/// Gives each node, which is every machine but the router, a pod network and the router as its way to all others.
fn start_pods(lan: &Lan) {
    for (index, machine) in lan.machines.iter().enumerate().skip(1) {
        let [v4, v6] = pod(index);
        machine.ip("link add name cni0 type bridge");
        machine.ip("link set cni0 up");
        machine.ip(&format!("addr add {v4}/24 dev cni0"));
        machine.ip(&format!("-6 addr add {v6}/64 dev cni0 nodad"));
        machine.ip(&format!("route add default via {}", lan::address(0)));
        machine.ip(&format!("-6 route add default via {}", lan::address6(0)));
    }
}

#[tokio::test]
async fn pods_of_different_nodes_reach_each_other_through_the_routes() {
    let Some(lan) = Lan::build(3).await else { return };
    start_pods(&lan);
    let slot = Slot::of(&lan.machines[0], "one").await;
    for (here, there) in [(1, 2), (2, 1)] {
        for (from, to) in pod(here).into_iter().zip(pod(there)) {
            assert!(
                !lan.machines[here].run(ping::ping(to, Some(from))).await,
                "{from} to {to} without routes"
            );
        }
    }
    for node in [1, 2] {
        for network in networks(node) {
            slot.create(node, &network).await;
            slot.create(node, &network).await;
        }
    }
    assert_eq!(slot.list().await.len(), 4);
    for (here, there) in [(1, 2), (2, 1)] {
        for (from, to) in pod(here).into_iter().zip(pod(there)) {
            assert!(lan.machines[here].run(ping::ping(to, Some(from))).await, "{from} to {to}");
        }
    }
    let changes = Changes::through(Arc::new(Open));
    for route in slot.list().await {
        slot.routes.delete(&slot.cluster, &route, &changes).await.unwrap();
    }
    assert_eq!(slot.list().await.len(), 0);
    let left = lan.machines[0].ip("route show") + &lan.machines[0].ip("-6 route show");
    assert!(!left.contains("244") && !left.contains("fd44"), "{left}");
}

#[tokio::test]
async fn only_routes_with_our_number_and_our_cluster_are_ever_listed_or_touched() {
    let Some(lan) = Lan::build(3).await else { return };
    let router = &lan.machines[0];
    let [v4, v6] = [lan::address(2), lan::address6(2)];
    router.ip(&format!("route add 10.244.1.0/24 via {v4}"));
    router.ip(&format!("route add 10.244.3.0/24 via {v4} proto 79"));
    router.ip(&format!("-6 route add fd44:1::/64 via {v6}"));
    router.ip(&format!("route add 10.244.4.0/24 via {v4} proto 78 table 100"));
    let all = || ["route show table all", "-6 route show table all"].map(|arguments| router.ip(arguments));
    let before = all();
    let (slot, other) = (Slot::of(router, "one").await, Slot::of(router, "two").await);
    for network in networks(1) {
        slot.create(1, &network).await;
        assert_eq!(other.list().await, []);
    }
    other.create(2, "10.245.0.0/24").await;
    assert_eq!((slot.list().await.len(), other.list().await.len()), (2, 1));
    let changes = Changes::through(Arc::new(Open));
    for destination in ["10.244.3.0/24", "10.245.0.0/24"] {
        let foreign = Route::new(destination.parse().unwrap());
        slot.routes.delete(&slot.cluster, &foreign, &changes).await.unwrap();
    }
    let with_ours = all();
    for route in slot.list().await {
        slot.routes.delete(&slot.cluster, &route, &changes).await.unwrap();
    }
    assert_ne!(all(), with_ours);
    assert_eq!(other.list().await.len(), 1);
    router.run(cleanup::remove()).await.unwrap();
    assert_eq!(all(), before);
}

#[tokio::test]
async fn a_route_that_somebody_removes_is_back_at_once_with_an_event() {
    let Some(lan) = Lan::build(2).await else { return };
    let router = &lan.machines[0];
    let slot = Slot::of(router, "one").await;
    for network in networks(1) {
        slot.create(1, &network).await;
    }
    let is_whole = || async { slot.list().await.len() == 2 };
    router.ip("route flush proto 78");
    eventually("the IPv4 route is back", is_whole).await;
    router.ip("-6 route flush proto 78");
    eventually("the IPv6 route is back", is_whole).await;
    // The kernel does not tell that it forgets the routes of an interface that goes down.
    router.ip("link set eth0 down");
    assert!(!is_whole().await);
    router.ip("link set eth0 up");
    router.ip(&format!("-6 addr replace {}/64 dev eth0 nodad", lan::address6(0)));
    eventually("the routes are back", is_whole).await;
    let told = slot.told.0.lock().unwrap();
    let about = Subject::Node { name: "node-1".into(), uid: "uid-1".into() };
    assert!(
        told.len() >= 4 && told.iter().all(|told| *told == (about.clone(), "RouteRepaired".into())),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_node_that_is_no_neighbour_is_told() {
    let Some(lan) = Lan::build(1).await else { return };
    let slot = Slot::of(&lan.machines[0], "one").await;
    let address = NodeAddress { type_: "InternalIP".into(), address: "172.31.0.9".into() };
    let route = Route::new("10.244.9.0/24".parse().unwrap()).to_node("far", vec![address]);
    let changes = Changes::through(Arc::new(Open));
    let refused = slot.routes.create(&slot.cluster, "uid", &route, &changes).await.unwrap_err();
    assert!(refused.report().contains("in a network that this machine is in"), "{}", refused.report());
}

#[tokio::test]
async fn cleanup_removes_all_of_ours_and_nothing_else() {
    let Some(lan) = Lan::build(2).await else { return };
    let router = &lan.machines[0];
    router.ip("addr add 10.99.0.77/32 dev eth0");
    router.ip(&format!("route add 10.243.0.0/24 via {} metric 7", lan::address(1)));
    let all = || {
        ["-o addr show", "-6 -o addr show", "route show table all", "-6 route show table all"]
            .map(|arguments| router.ip(arguments))
    };
    let before = all();
    let slot = Slot::of(router, "one").await;
    for network in networks(1) {
        slot.create(1, &network).await;
    }
    let wanted = ["10.99.0.200".parse().unwrap(), "fd00:99::200".parse().unwrap()].into();
    let hold = async move { vip::Addresses::open(None).await.unwrap().hold(&wanted).await.unwrap() };
    router.run(hold).await;
    drop(slot);
    let found = router.run(async { cleanup::Found::look().await.unwrap() }).await;
    assert_eq!((found.addresses.len(), found.routes.len()), (2, 2));
    assert_eq!(router.run(cleanup::remove()).await.unwrap(), found);
    assert_eq!(all(), before);
    let nothing = router.run(cleanup::remove()).await.unwrap();
    assert_eq!(nothing.to_string(), "nothing of ours\n");
}
