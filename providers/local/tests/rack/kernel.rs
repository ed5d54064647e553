//! A rack with a server on each node, and the data plane `nft` on the balancer's machine.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "what sets a test up stops it where it stands; several targets share it"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Change, Context, Error};
use provider_local::config::AddressChoice;
use provider_local::intent::status::Health;
use provider_local::intent::{Balancer, Intent, PortKey, Settings};
use provider_local::nft::{Nft, Options};
use provider_local::plane::DataPlane;
use tempfile::TempDir;
use testkit::conformance::context::{Ending, Events, Leader, Measurements, Mode, RecordingGate, Services};

use crate::servers::*;
use crate::wishes::*;
use crate::world::*;

/// The nodes.
pub(crate) const NAMES: [&str; 3] = ["node-0", "node-1", "node-2"];

/// A rack, and the data plane at work.
pub(crate) struct Scene {
    plane: Option<Arc<Nft>>,
    pub(crate) events: Arc<Events>,
    pub(crate) leader: Arc<Leader>,
    pub(crate) metrics: Arc<Measurements>,
    _servers: Vec<Server>,
    folder: TempDir,
    addresses: AddressChoice,
    /// How often the plane looks for itself whether the tables are true.
    scan: Duration,
    pub(crate) world: World,
}

impl Scene {
    /// Builds it with the virtual addresses where the rack has them; `None`, with a notice, where that is not possible.
    pub(crate) async fn build() -> Option<Self> {
        Self::build_with(AddressChoice::Routed, Duration::from_secs(1)).await
    }

    /// Builds it with the virtual addresses there, and a plane that looks this often whether all is true.
    pub(crate) async fn build_with(addresses: AddressChoice, scan: Duration) -> Option<Self> {
        let world = World::build().await?;
        for program in ["nft --version", "conntrack --version"] {
            if world.balancer.program(program).is_err() {
                let _ = std::io::Write::write_fmt(
                    &mut std::io::stderr(),
                    format_args!(
                        "NOTICE: a test of the data plane nft was SKIPPED: install the packages nftables and conntrack\n"
                    ),
                );
                return None;
            }
        }
        let mut servers = Vec::new();
        for (index, node) in world.nodes.iter().enumerate() {
            for address in [node_address(index), node_address6(index)] {
                let socket = node_port(address);
                servers.push(node.run(async move { namer(NAMES[index], socket) }).await);
                servers.push(node.run(async move { udp_namer(NAMES[index], socket) }).await);
            }
        }
        let forward = async {
            for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{key}"), "1").unwrap();
            }
            // The rack's switch is a bridge of the balancer's machine. Where bridges look into packets, a packet whose
            // address is rewritten back to the port that it came from would be lost; a switch never does that.
            for key in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
                let _ = std::fs::write(format!("/proc/sys/net/bridge/{key}"), "0");
            }
        };
        world.balancer.run(forward).await;
        let mut scene = Self {
            plane: None,
            events: Arc::default(),
            leader: Arc::new(Leader::new(true)),
            metrics: Arc::default(),
            _servers: servers,
            folder: tempfile::tempdir().unwrap(),
            addresses,
            scan,
            world,
        };
        scene.restart(true).await;
        Some(scene)
    }

    /// Ends the process that feeds the kernel, without a word, and starts another, which leads or stands by.
    pub(crate) async fn restart(&mut self, leads: bool) {
        self.plane = None;
        self.leader = Arc::new(Leader::new(leads));
        let mut context = Context::inert();
        context.leadership = Arc::clone(&self.leader) as _;
        context.events = Arc::clone(&self.events) as _;
        context.metrics = Arc::clone(&self.metrics) as _;
        context.shutdown = Arc::new(Ending::default());
        context.services = Arc::new(Services::default());
        let state = Some(self.folder.path().join("intent.json"));
        let options = Options { state, addresses: self.addresses.clone(), scan: self.scan };
        let plane = self.world.balancer.run(async move { Nft::open(options, &context).await.unwrap() }).await;
        self.plane = Some(Arc::new(plane));
    }

    /// Begins anew: with no table, and with a process that knows of none.
    pub(crate) async fn forget(&mut self) {
        self.plane = None;
        let _ = std::fs::remove_file(self.folder.path().join("intent.json"));
        self.world.balancer.program("nft flush ruleset").unwrap();
        self.restart(true).await;
    }

    pub(crate) fn plane(&self) -> Arc<Nft> {
        Arc::clone(self.plane.as_ref().unwrap())
    }

    /// Puts exactly these in force, under the names `uid` and `other`.
    pub(crate) async fn put(&self, balancers: Vec<Balancer>) {
        let named = ["uid", "other"].into_iter().map(str::to_owned).zip(balancers);
        self.put_named(named.collect()).await;
    }

    /// Puts exactly these in force.
    pub(crate) async fn put_named(&self, balancers: Vec<(String, Balancer)>) {
        let plane = self.plane();
        let apply = async move {
            let revision = plane.intent().await.unwrap().revision;
            let balancers = balancers.into_iter().map(|(uid, balancer)| (uid, Arc::new(balancer))).collect();
            let intent = Intent { revision, balancers, ..Intent::empty() };
            let changes = RecordingGate::new(Mode::Open).changes();
            let made = changes.make(Change::create("load balancer", "all"), |permit| async move {
                plane.apply(intent, &permit).await.map_err(|error| error.during("applying"))
            });
            made.await
        };
        let applied: Result<u64, Error> = self.world.balancer.run(apply).await;
        applied.unwrap();
        let status = self.plane().status().await.unwrap();
        let closed: Vec<_> = status
            .balancers
            .values()
            .flat_map(|one| &one.listeners)
            .filter_map(|one| one.failure.as_ref())
            .collect();
        assert!(closed.is_empty(), "{:?}", closed.first());
    }

    pub(crate) async fn ask(&self, to: SocketAddr) -> std::io::Result<Introduction> {
        self.ask_from(to, None).await
    }

    pub(crate) async fn ask_from(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> std::io::Result<Introduction> {
        self.world.client.run(ask_from(to, from)).await
    }

    pub(crate) async fn ask_by_udp(&self, to: SocketAddr) -> std::io::Result<Introduction> {
        self.world.client.run(async move { Datagrams::to(to).await.ask("hello").await }).await
    }

    /// Whether a node's health is like that.
    pub(crate) async fn is(&self, node: &str, wanted: fn(&Health) -> bool) -> bool {
        let status = self.plane().status().await.unwrap();
        let mut backends = status.balancers["uid"].backends.iter();
        backends.any(|found| found.backend.node == node && wanted(&found.health))
    }

    /// All rules of the balancer's machine.
    pub(crate) fn rules(&self) -> String {
        self.world.balancer.program("nft list ruleset").unwrap()
    }

    /// The rules without what packets change in them.
    pub(crate) fn shape(&self) -> String {
        let all = self.world.balancer.program("nft -s -t list ruleset").unwrap();
        // Elements of maps that are filled by us, which the terse listing leaves out.
        let maps = ["listeners4", "listeners6", "replaced4-tcp"].map(|name| {
            let kind = if name.starts_with('l') { "map" } else { "set" };
            self.world.balancer.program(&format!("nft list {kind} inet nephos {name}")).unwrap_or_default()
        });
        format!("{all}{}", maps.join("\n"))
    }

    /// Every rule with the number that the kernel gave it: one that is made anew has another.
    pub(crate) fn handles(&self) -> Vec<String> {
        let all = self.world.balancer.program("nft -a -s -t list ruleset").unwrap();
        all.lines().filter(|line| line.contains("# handle")).map(str::to_owned).collect()
    }

    /// What the balancer's machine remembers of connections.
    pub(crate) fn conntrack(&self, arguments: &str) -> String {
        let line = format!("conntrack -L {arguments}");
        self.world.balancer.program(line.trim()).unwrap()
    }
}

/// Three nodes behind TCP port 80, IPv4 alone.
pub(crate) fn wish(settings: Settings) -> Balancer {
    single(VIP, PortKey::tcp(80), four(), settings)
}

/// The same for UDP port 53.
pub(crate) fn wish_udp(settings: Settings) -> Balancer {
    single(VIP, PortKey::udp(53), four(), settings)
}

/// The same for TCP port 80 in both families.
pub(crate) fn both(settings: Settings) -> Balancer {
    let six = NAMES.into_iter().zip((0..3).map(|index| node_port(node_address6(index))));
    let mut wish = single(VIP, PortKey::tcp(80), four().chain(six), settings);
    wish.addresses.insert(VIP6);
    wish
}

fn four() -> impl Iterator<Item = (&'static str, SocketAddr)> {
    NAMES.into_iter().zip((0..3).map(|index| node_port(node_address(index))))
}
