//! Virtual addresses on real interfaces, in network namespaces, as root. Without root each test is skipped with a notice.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/lan.rs"]
mod lan;
#[path = "rack/ping.rs"]
mod ping;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::context::{BoxFuture, Leadership};
use provider_local::vip::{Addresses, cleanup, hand_over};
use tokio::time::{sleep, timeout};

use lan::Lan;
use servers::eventually;
use world::Room;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 99, 0, 200));
const VIP6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 0x200));

fn both() -> BTreeSet<IpAddr> {
    [VIP, VIP6].into()
}

async fn open(machine: &Room) -> Addresses {
    machine.run(Addresses::open(None)).await.unwrap()
}

async fn hold(
    machine: &Room,
    addresses: &Addresses,
    wanted: BTreeSet<IpAddr>,
) -> provider_local::vip::Changes {
    let addresses = addresses.clone();
    machine.run(async move { addresses.hold(&wanted).await }).await.unwrap()
}

async fn held(machine: &Room, addresses: &Addresses) -> BTreeSet<IpAddr> {
    let addresses = addresses.clone();
    machine.run(async move { addresses.held().await }).await.unwrap()
}

/// Whether a machine gets an answer from an address.
async fn pings(machine: &Room, ip: IpAddr) -> bool {
    machine.run(ping::ping(ip, None)).await
}

#[tokio::test]
async fn addresses_are_answered_for_and_never_the_source_of_anything_and_go_when_unwanted() {
    let Some(lan) = Lan::build(2).await else { return };
    let [balancer, client] = &lan.machines[..] else { unreachable!() };
    let addresses = open(balancer).await;
    assert_eq!(hold(balancer, &addresses, both()).await.added, both());
    assert_eq!(held(balancer, &addresses).await, both());
    for ip in [VIP, VIP6] {
        assert!(pings(client, ip).await, "{ip}");
        assert_eq!(lan.neighbour(1, ip), Some(lan.hardware(0)), "{ip}");
    }
    for (peer, own) in [(lan::address(1), lan::address(0)), (lan::address6(1), lan::address6(0))] {
        let way = balancer.ip(&format!("route get {peer}"));
        assert!(way.contains(&format!("src {own} ")), "{way}");
    }
    assert!(balancer.ip("-6 addr show dev eth0").contains("deprecated"), "{}", balancer.ip("-6 addr show"));
    assert_eq!(hold(balancer, &addresses, both()).await, provider_local::vip::Changes::default());
    assert_eq!(hold(balancer, &addresses, [VIP6].into()).await.removed, [VIP].into());
    assert!(!pings(client, VIP).await && pings(client, VIP6).await);
    hold(balancer, &addresses, [].into()).await;
    assert!(held(balancer, &addresses).await.is_empty());
}

#[tokio::test]
async fn what_somebody_else_put_there_is_never_touched() {
    let Some(lan) = Lan::build(1).await else { return };
    let balancer = &lan.machines[0];
    let foreign: IpAddr = "10.99.0.77".parse().unwrap();
    balancer.ip("addr add 10.99.0.77/32 dev eth0");
    balancer.ip("addr add 203.0.113.1/24 dev lo");
    balancer.ip("-6 addr add fd00:99::77/128 dev eth0 nodad");
    let before = balancer.ip("-o addr show");
    let addresses = open(balancer).await;
    let changes = hold(balancer, &addresses, [VIP, VIP6, foreign].into()).await;
    assert_eq!((changes.added, changes.theirs), (both(), [foreign].into()));
    assert_ne!(balancer.ip("-o addr show"), before);
    hold(balancer, &addresses, [].into()).await;
    assert_eq!(balancer.ip("-o addr show"), before);
    hold(balancer, &addresses, both()).await;
    let removed = balancer.run(cleanup()).await.unwrap();
    assert_eq!(removed.addresses, both());
    assert_eq!(balancer.ip("-o addr show"), before);
    assert_eq!(balancer.run(cleanup()).await.unwrap().addresses, [].into());
}

#[tokio::test]
async fn an_address_that_somebody_takes_off_is_told_and_can_be_held_again() {
    let Some(lan) = Lan::build(2).await else { return };
    let balancer = &lan.machines[0];
    let addresses = open(balancer).await;
    hold(balancer, &addresses, both()).await;
    let mut disturbed = addresses.disturbed();
    for ip in [VIP, VIP6] {
        disturbed.mark_unchanged();
        balancer.ip(&format!("addr del {ip} dev eth0"));
        tokio::time::timeout(servers::PATIENCE, disturbed.changed()).await.unwrap().unwrap();
        assert!(!held(balancer, &addresses).await.contains(&ip));
        assert_eq!(hold(balancer, &addresses, both()).await.added, [ip].into());
        assert!(pings(&lan.machines[1], ip).await);
    }
    // It is announced again, though this process did so before: the neighbours may have looked elsewhere meanwhile.
    lan.machines[1].ip(&format!("neigh replace {VIP} lladdr 02:00:00:00:00:99 dev eth0 nud stale"));
    balancer.ip(&format!("addr del {VIP} dev eth0"));
    hold(balancer, &addresses, both()).await;
    let there = Some(lan.hardware(0));
    eventually("the neighbour knows", || async { lan.neighbour(1, VIP) == there }).await;
}

#[tokio::test]
async fn an_interface_that_is_not_there_is_told_by_name() {
    let Some(lan) = Lan::build(1).await else { return };
    let balancer = &lan.machines[0];
    let addresses = balancer.run(Addresses::open(Some("eth7"))).await.unwrap();
    let refused = balancer.run(async move { addresses.hold(&[VIP].into()).await }).await.unwrap_err();
    assert!(refused.to_string().contains("eth7"), "{refused}");
}

/// Leads when it is told to.
#[derive(Default)]
struct Lead(AtomicBool);

impl Leadership for Lead {
    fn may_act(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn leads(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

/// One balancer machine with its manager.
struct Manager {
    addresses: Addresses,
    lead: Arc<Lead>,
}

impl Manager {
    async fn start(machine: &Room) -> Self {
        let addresses = open(machine).await;
        let lead = Arc::new(Lead::default());
        let run = hand_over::run(addresses.clone(), Arc::clone(&lead) as _);
        machine.run(async { drop(tokio::spawn(run)) }).await;
        Self { addresses, lead }
    }
}

#[tokio::test]
async fn the_neighbours_follow_the_leader_and_the_former_one_gives_way() {
    let Some(lan) = Lan::build(3).await else { return };
    let [first, second, client] = &lan.machines[..] else { unreachable!() };
    let [one, two] = [Manager::start(first).await, Manager::start(second).await];
    one.lead.0.store(true, Ordering::SeqCst);
    hold(first, &one.addresses, both()).await;
    for ip in both() {
        assert!(pings(client, ip).await);
        assert_eq!(lan.neighbour(2, ip), Some(lan.hardware(0)));
    }
    // The lease passes on, and nobody on the first machine does anything about it.
    one.lead.0.store(false, Ordering::SeqCst);
    two.lead.0.store(true, Ordering::SeqCst);
    assert_eq!(held(first, &one.addresses).await, both());
    hold(second, &two.addresses, both()).await;
    for ip in both() {
        eventually("the client knows", || async { lan.neighbour(2, ip) == Some(lan.hardware(1)) }).await;
        assert!(pings(client, ip).await);
    }
    eventually("the former leader gave way", || async { held(first, &one.addresses).await.is_empty() }).await;
    assert_eq!(held(second, &two.addresses).await, both());
}

/// How long a new address is announced again. From then until the reminder after ten seconds nobody says anything of his own
/// accord, and whom the client believes is the work of what a test does.
const ANNOUNCED: Duration = Duration::from_secs(4);

/// Waits until the client, which is the third machine, believes the first, long before the reminder.
async fn the_first_is_believed(lan: &Lan, ip: IpAddr) {
    let believes = async {
        while !lan.goes_to(2, ip, 0) {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(Duration::from_secs(3), believes).await.is_ok(), "nobody contradicts");
}

#[tokio::test]
async fn a_leader_contradicts_a_machine_that_announces_its_address() {
    let Some(lan) = Lan::build(3).await else { return };
    let [first, second, client] = &lan.machines[..] else { unreachable!() };
    let leader = Manager::start(first).await;
    leader.lead.0.store(true, Ordering::SeqCst);
    hold(first, &leader.addresses, both()).await;
    for ip in both() {
        assert!(pings(client, ip).await);
    }
    sleep(ANNOUNCED).await;
    // Somebody else puts the addresses on its machine for a moment and tells everybody.
    let stranger = open(second).await;
    hold(second, &stranger, both()).await;
    hold(second, &stranger, [].into()).await;
    for ip in both() {
        the_first_is_believed(&lan, ip).await;
        assert!(pings(client, ip).await);
    }
    assert_eq!(held(first, &leader.addresses).await, both());
}

#[tokio::test]
async fn a_leader_contradicts_a_machine_that_came_back_and_speaks_as_its_address() {
    let Some(lan) = Lan::build(3).await else { return };
    let [first, second, client] = &lan.machines[..] else { unreachable!() };
    let leader = Manager::start(first).await;
    hold(first, &leader.addresses, [VIP].into()).await;
    assert!(pings(client, VIP).await);
    sleep(ANNOUNCED).await;
    // A machine has the address from former times and must ask for the way to the client, to whom it speaks as that.
    second.ip(&format!("addr add {VIP}/32 dev eth0"));
    let speak = async || {
        second.ip("neigh flush dev eth0");
        second.run(ping::ping(lan::address(2), Some(VIP))).await
    };
    speak().await;
    assert!(lan.goes_to(2, VIP, 1), "the client is misled while nobody leads");
    leader.lead.0.store(true, Ordering::SeqCst);
    // The second time right after the first was contradicted: no word may be the last that the client hears.
    for _ in 0..2 {
        speak().await;
        the_first_is_believed(&lan, VIP).await;
    }
    assert_eq!(held(first, &leader.addresses).await, [VIP].into());
}
