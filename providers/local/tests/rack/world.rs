//! A rack on one machine, of network namespaces: a client, the balancer's machine, three nodes.
//!
//! ```text
//!   client 10.88.0.2, .3 ── 10.88.0.1 balancer 10.77.0.1 ── bridge ── 10.77.0.10, .11, .12 node-0, node-1, node-2
//! ```
//!
//! The same with `fd00:88::` and `fd00:77::`. The balancer is everybody's gateway and has the virtual addresses.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "what sets a test up stops it where it stands; several targets share it"
)]

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, MutexGuard};

/// The virtual addresses.
pub(crate) const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 10));
pub(crate) const VIP6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10));
/// The port of every node.
pub(crate) const NODE_PORT: u16 = 30_080;

/// One rack at a time: the time that things take is part of what is tested.
static ONE: Mutex<()> = Mutex::const_new(());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A rack. Nothing of it is left when it is dropped.
pub(crate) struct World {
    prefix: String,
    pub(crate) client: Room,
    pub(crate) balancer: Room,
    pub(crate) nodes: Vec<Room>,
    _alone: MutexGuard<'static, ()>,
}

/// One machine of the rack: a namespace, and threads that live in it.
pub(crate) struct Room {
    /// The namespace.
    pub(crate) name: String,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// A turn and a prefix for the names of namespaces; `None`, with a notice that nobody can miss, where they are not
/// allowed.
pub(crate) async fn a_place() -> Option<(MutexGuard<'static, ()>, String)> {
    let alone = ONE.lock().await;
    if let Err(why) = is_allowed() {
        // Past the test runner, which hides what a passing test prints.
        let _ = writeln!(std::io::stderr(), "NOTICE: a test in network namespaces was SKIPPED: {why}");
        return None;
    }
    sweep();
    Some((alone, format!("nph-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))))
}

impl World {
    /// Builds a rack; `None`, with a notice that nobody can miss, where that is not allowed.
    pub(crate) async fn build() -> Option<Self> {
        let (alone, prefix) = a_place().await?;
        let room = |role: &str| Room::new(format!("{prefix}-{role}"));
        let world = Self {
            client: room("client"),
            balancer: room("lb"),
            nodes: (0..3).map(|index| room(&format!("node-{index}"))).collect(),
            prefix: prefix.clone(),
            _alone: alone,
        };
        world.wire();
        Some(world)
    }

    fn wire(&self) {
        let balancer = &self.balancer;
        balancer.ip("link add name br0 type bridge");
        balancer.ip("link set br0 up");
        balancer.ip("addr add 10.77.0.1/24 dev br0");
        balancer.ip("-6 addr add fd00:77::1/64 dev br0 nodad");
        balancer.ip(&format!("addr add {VIP}/32 dev lo"));
        balancer.ip(&format!("-6 addr add {VIP6}/128 dev lo"));
        balancer.ip(&format!("link add name front type veth peer name eth0 netns {}", self.client.name));
        balancer.ip("link set front up");
        balancer.ip("addr add 10.88.0.1/24 dev front");
        balancer.ip("-6 addr add fd00:88::1/64 dev front nodad");
        self.client.ip("link set eth0 up");
        self.client.ip("addr add 10.88.0.2/24 dev eth0");
        self.client.ip("addr add 10.88.0.3/24 dev eth0");
        self.client.ip("-6 addr add fd00:88::2/64 dev eth0 nodad");
        self.client.ip("route add default via 10.88.0.1");
        self.client.ip("-6 route add default via fd00:88::1");
        for (index, node) in self.nodes.iter().enumerate() {
            balancer.ip(&format!("link add name port{index} type veth peer name eth0 netns {}", node.name));
            balancer.ip(&format!("link set port{index} master br0 up"));
            node.ip("link set eth0 up");
            node.ip(&format!("addr add {}/24 dev eth0", node_address(index)));
            node.ip(&format!("-6 addr add {}/64 dev eth0 nodad", node_address6(index)));
            node.ip("route add default via 10.77.0.1");
            node.ip("-6 route add default via fd00:77::1");
        }
    }

    /// Has the answers of nodes to the clients' own addresses taken in by the balancer, as `IP_TRANSPARENT` needs it.
    pub(crate) fn route_answers_to_the_balancer(&self) {
        for (family, any) in [("-4", "0.0.0.0/0"), ("-6", "::/0")] {
            for protocol in ["tcp", "udp"] {
                let rule = format!(
                    "{family} rule add pref 100 iif br0 ipproto {protocol} sport {NODE_PORT} lookup 100"
                );
                self.balancer.ip(&rule);
            }
            self.balancer.ip(&format!("{family} route add local {any} dev lo table 100"));
        }
    }

    /// Lines of `ss` about TCP and UDP sockets of the balancer's machine, but for those that only wait to be forgotten.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.balancer.name, "ss", "-Htuna", "exclude", "time-wait"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for room in [&mut self.client, &mut self.balancer].into_iter().chain(&mut self.nodes) {
            room.close();
        }
        remove(&self.prefix);
    }
}

/// Removes the namespaces whose names begin like this.
pub(crate) fn remove(prefix: &str) {
    for name in names_of(prefix) {
        let _ = ip(&format!("netns del {name}"));
    }
}

impl Room {
    pub(crate) fn new(name: String) -> Self {
        ip(&format!("netns add {name}")).unwrap();
        let path = format!("/run/netns/{name}");
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(move || {
                let namespace = fs::File::open(&path).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            })
            .build()
            .unwrap();
        let room = Self { name, runtime: Some(runtime) };
        room.ip("link set lo up");
        room
    }

    /// Ends all that runs on this machine.
    pub(crate) fn close(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Runs something on this machine.
    pub(crate) async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.as_ref().unwrap().spawn(task).await.unwrap()
    }

    /// A program on this machine: what it wrote, or its complaint.
    pub(crate) fn program(&self, line: &str) -> Result<String, String> {
        let output =
            Command::new("ip").args(["netns", "exec", &self.name]).args(line.split(' ')).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// An `ip` command on this machine, and what it says.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        ip(&format!("-n {} {arguments}", self.name)).unwrap()
    }
}

/// The address of a node.
pub(crate) fn node_address(index: usize) -> IpAddr {
    IpAddr::from([10, 77, 0, 10 + u8::try_from(index).unwrap()])
}

/// The IPv6 address of a node.
pub(crate) fn node_address6(index: usize) -> IpAddr {
    IpAddr::from([0xfd00, 0x77, 0, 0, 0, 0, 0, 0x10 + u16::try_from(index).unwrap()])
}

/// Where a node serves.
pub(crate) fn node_port(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, NODE_PORT)
}

fn is_allowed() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it needs root".into());
    }
    let probe = format!("nph-{}-probe", std::process::id());
    ip(&format!("netns add {probe}")).map_err(|why| format!("network namespaces cannot be made: {why}"))?;
    ip(&format!("netns del {probe}")).map(drop)
}

fn ip(arguments: &str) -> Result<String, String> {
    let output =
        Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn names_of(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'))).collect()
}

/// Removes what test processes that were killed left behind.
fn sweep() {
    for name in names_of("nph") {
        let owner = name.split('-').nth(1).unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
