//! Two balancer machines and one lease, in network namespaces, as root: what clients notice when a manager ends, when a
//! machine dies, and when one hands over to the other. Without root each test is skipped with a notice.
//!
//! The managers are processes of their own, made of what holds, announces and hands over the addresses; the lease is a file in
//! place of the API server's, and what forwards is one fixed table in the kernel.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/lan.rs"]
mod lan;
#[path = "rack/lease.rs"]
mod lease;
#[path = "rack/load.rs"]
mod load;
#[path = "rack/parts.rs"]
mod parts;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/world.rs"]
mod world;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::Leadership as _;
use provider_local::cleanup;
use provider_local::vip::hear::Ear;
use provider_local::vip::{Addresses, hand_over};
use testkit::Awake;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use lan::Lan;
use lease::{DURATION, Lease};
use load::Load;
use parts::{Place, Process};
use servers::*;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 99, 0, 200));
const WEB: SocketAddr = SocketAddr::new(VIP, 80);
const NODE_PORT: u16 = 30_080;
const CLIENTS: usize = 8;

/// The machines of the network.
const CLIENT: usize = 2;
const NODES: [usize; 2] = [3, 4];

#[test]
#[ignore = "other tests start it as a process of its own"]
fn plays_a_part_that_another_test_starts() {
    let Ok(name) = std::env::var("NEPHOS_TEST_PART") else { return };
    let place = PathBuf::from(std::env::var("NEPHOS_TEST_PLACE").unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(manage(&name, &place));
}

/// A manager: wants the lease, makes this machine balance while it has it, and ends when it is asked to, or loses the
/// lease. It never takes anything back.
async fn manage(name: &str, place: &Path) {
    let lease = Lease::want(&place.join("lease"), name);
    let addresses = Addresses::open(None).await.unwrap();
    let handing_over = tokio::spawn(hand_over::run(addresses.clone(), Arc::clone(&lease) as _));
    std::fs::write(place.join(format!("{name}.ready")), "").unwrap();
    let work = async {
        lease.leads().await;
        let loaded = Command::new("nft").arg("-f").arg(place.join("table.nft")).status().unwrap();
        assert!(loaded.success());
        addresses.hold(&[VIP].into()).await.unwrap();
        while lease.may_act() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let mut asked = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        () = work => {}
        _ = asked.recv() => lease.release(),
        ended = handing_over => panic!("{ended:?}"),
    }
}

/// Each connection to the next node, from the balancer's own address, because client and nodes are neighbours.
fn table(backends: &[SocketAddr]) -> String {
    let [one, two] = backends else { unreachable!() };
    format!(
        "table ip balance\ndelete table ip balance\ntable ip balance {{\n\
         chain in {{ type nat hook prerouting priority dstnat; ip daddr {VIP} tcp dport 80 \
         dnat to numgen inc mod 2 map {{ 0 : {} . {NODE_PORT}, 1 : {} . {NODE_PORT} }}; }}\n\
         chain out {{ type nat hook postrouting priority srcnat; ct status dnat masquerade; }}\n}}\n",
        one.ip(),
        two.ip()
    )
}

/// Two machines that may balance, a client, two nodes, and a directory that the managers share.
struct Scene {
    _servers: Vec<Server>,
    place: Place,
    _folder: tempfile::TempDir,
    lan: Lan,
}

impl Scene {
    async fn build() -> Option<Self> {
        let lan = Lan::build(5).await?;
        if Command::new("nft").arg("--version").output().is_err() {
            // Past the test runner, which hides what a passing test prints.
            let _ = writeln!(
                std::io::stderr(),
                "NOTICE: a test of hand-over was SKIPPED: install the package nftables"
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = Place(folder.path().to_owned());
        let (mut servers, mut backends) = (Vec::new(), Vec::new());
        for (node, name) in NODES.into_iter().zip(["node-0", "node-1"]) {
            let socket = SocketAddr::new(lan::address(node), NODE_PORT);
            servers.push(lan.machines[node].run(async move { namer(name, socket) }).await);
            backends.push(socket);
        }
        std::fs::write(place.0.join("table.nft"), table(&backends)).unwrap();
        Some(Self { _servers: servers, place, _folder: folder, lan })
    }

    /// Starts the manager of a machine.
    fn manager(&self, machine: usize) -> Process {
        Process::start(&format!("manager-{machine}"), &self.place, Some(&self.lan.machines[machine].name))
    }

    /// Starts both, the first one first.
    async fn start(&self) -> [Process; 2] {
        let first = self.manager(0);
        eventually("the first machine serves", || self.serves()).await;
        assert_eq!(self.lan.neighbour(CLIENT, VIP), Some(self.lan.hardware(0)));
        [first, self.manager(1)]
    }

    /// Waits until the second machine heard of the first, as it does every few seconds.
    async fn know_each_other(&self) {
        let ready = self.place.0.join("manager-1.ready");
        eventually("the second manager listens", || async { ready.exists() }).await;
        let hear = async {
            let ear = Ear::open().unwrap();
            let (mut address, mut machine) = (false, false);
            while !(address && machine) {
                let heard = ear.next(&[].into()).await.unwrap();
                address |= heard.ip == Some(VIP);
                machine |= heard.own == Some(lan::address(0));
            }
        };
        timeout(PATIENCE, self.lan.machines[1].run(hear)).await.unwrap();
    }

    /// Whether a new connection succeeds quickly.
    async fn serves(&self) -> bool {
        let ask = timeout(Duration::from_millis(250), ask(WEB));
        self.lan.machines[CLIENT].run(ask).await.is_ok_and(|answer| answer.is_ok())
    }

    /// The tables of a machine.
    fn tables(&self, machine: usize) -> String {
        let arguments = ["netns", "exec", &self.lan.machines[machine].name, "nft", "list", "tables"];
        let output = Command::new("ip").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    async fn has_address(&self, machine: usize) -> bool {
        let held = async { Addresses::open(None).await.unwrap().held().await.unwrap() };
        self.lan.machines[machine].run(held).await.contains(&VIP)
    }

    /// The longest time without a good connection until the client's packets go to a machine.
    async fn longest_gap_until(&self, machine: usize) -> Result<Duration, String> {
        let has_moved = async || self.lan.goes_to(CLIENT, VIP, machine);
        self.lan.longest_gap(async || self.serves().await, has_moved).await
    }

    /// The same until a machine that came back with the address has given way to the other.
    async fn longest_gap_until_given_way(&self, back: usize, to: usize) -> Result<Duration, String> {
        let has_moved = async || !self.has_address(back).await && self.lan.goes_to(CLIENT, VIP, to);
        self.lan.longest_gap(async || self.serves().await, has_moved).await
    }
}

#[tokio::test]
async fn a_killed_manager_costs_no_connection_also_when_the_other_machine_takes_over() {
    let Some(scene) = Scene::build().await else { return };
    let [first, _second] = scene.start().await;
    scene.know_each_other().await;
    let client = &scene.lan.machines[CLIENT];
    let mut held = client.run(async { Held::open(WEB).await.unwrap() }).await;
    let load = client.run(async { Load::start(WEB, CLIENTS) }).await;
    load.goes_on(200).await;
    first.kill();
    // Nobody may take over while the lease of the dead is good: what is served until then, is served without a manager.
    let killed = load.done();
    eventually("the other takes over", || async { scene.lan.goes_to(CLIENT, VIP, 1) }).await;
    let without = load.done() - killed;
    assert!(without > 100, "only {without} connections without a manager");
    load.goes_on(500).await;
    let outcome = load.end().await;
    println!(
        "{without} connections without a manager, {} in all, {} failed",
        outcome.good,
        outcome.failures.len()
    );
    assert_eq!(outcome.failures, Vec::<String>::new(), "{} good", outcome.good);

    // The first machine still has what its manager left, until a manager comes back and hears who has it now.
    assert!(scene.has_address(0).await && scene.has_address(1).await);
    let _back = scene.manager(0);
    let gap = scene.longest_gap_until_given_way(0, 1).await;
    assert!(
        gap < Ok(Duration::from_secs(3)),
        "{gap:?} without a good connection while the first machine gave way"
    );
    assert!(scene.has_address(1).await);
    // A connection that was open all the while goes on through the first machine, for as long as that lives.
    let moved = Instant::now();
    while moved.elapsed() < Duration::from_secs(40) {
        held = client.run(async { held.echo().await.map(|()| held) }).await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    // And nothing of it all is left when nobody is to balance here any more.
    assert!(scene.tables(1).contains("nephos-hand-over"), "{}", scene.tables(1));
    scene.lan.machines[1].run(cleanup::remove()).await.unwrap();
    assert_eq!(scene.tables(1), "table ip balance\n");
    assert!(!scene.has_address(1).await);
}

#[tokio::test]
async fn the_connections_of_a_dead_machine_end_soon() {
    let Some(scene) = Scene::build().await else { return };
    let [first, _second] = scene.start().await;
    scene.know_each_other().await;
    let client = &scene.lan.machines[CLIENT];
    let mut held = client.run(async { Held::open(WEB).await.unwrap() }).await;
    scene.lan.cable(0, false);
    first.kill();
    eventually("the other machine serves", || scene.serves()).await;
    let moved = Instant::now();
    let ended = async move {
        loop {
            if held.echo().await.is_err_and(|error| error.kind() != std::io::ErrorKind::TimedOut) {
                return;
            }
        }
    };
    timeout(Duration::from_secs(90), client.run(ended)).await.unwrap();
    println!("a connection through the dead machine ended {:?} after the move", moved.elapsed());
}

#[tokio::test]
async fn a_dead_machine_is_replaced_within_the_lease_and_four_seconds() {
    let Some(scene) = Scene::build().await else { return };
    let [first, _second] = scene.start().await;
    scene.lan.cable(0, false);
    let dead = Awake::now();
    first.kill();
    assert!(!scene.serves().await);
    eventually("the other machine serves", || scene.serves()).await;
    let outage = dead.elapsed();
    println!(
        "new connections succeeded {outage:?} after the death of the machine, the lease lasts {DURATION:?}"
    );
    assert!(outage < DURATION + Duration::from_secs(4), "{outage:?}");
    assert_eq!(scene.lan.neighbour(CLIENT, VIP), Some(scene.lan.hardware(1)));
    // It comes back with its old address on it, and with a manager that stands by.
    scene.lan.cable(0, true);
    let _back = scene.manager(0);
    let gap = scene.longest_gap_until_given_way(0, 1).await;
    println!("and {gap:?} without a good one when it came back");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");
    assert!(scene.has_address(1).await);
}

#[tokio::test]
async fn a_planned_hand_over_interrupts_new_connections_for_less_than_three_seconds() {
    let Some(scene) = Scene::build().await else { return };
    let [first, second] = scene.start().await;
    scene.know_each_other().await;
    first.terminate();
    let (gap, ended) = tokio::join!(scene.longest_gap_until(1), first.ended());
    assert!(ended.unwrap().success());
    println!("the longest time without a good new connection was {gap:?}");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");
    // And back, while nothing but the managers change.
    let _first = scene.manager(0);
    eventually("the first machine gives way", || async { !scene.has_address(0).await }).await;
    second.terminate();
    let gap = scene.longest_gap_until(0).await;
    println!("and on the way back {gap:?}");
    assert!(gap < Ok(Duration::from_secs(3)), "{gap:?}");
}
