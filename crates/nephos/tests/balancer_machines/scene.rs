//! A cluster whose two nodes, two balancer machines and client are namespaces at one switch, and the real manager on each
//! balancer machine.
//!
//! The API server listens on the loopback of the machine that tests run on. Each balancer machine finds it at the same address of
//! its own loopback: a listener in the namespace, and whoever connects there is connected on from outside.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::PostParams;
use provider_local::vip::hear::Ear;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::lan::{self, Lan};
use crate::process::Nephos;
use crate::servers::{PATIENCE, Server, ask, http, namer};

pub(crate) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 200));
pub(crate) const WEB: SocketAddr = SocketAddr::new(VIP, 80);
pub(crate) const LEASE: Duration = Duration::from_secs(8);
const FLAGS: [&str; 5] = [
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=500ms",
    "--secure-port=0",
    "--configure-cloud-routes=false",
];

/// The machines at the switch; the first two balance.
pub(crate) const CLIENT: usize = 2;
const NODES: [(usize, &str); 2] = [(3, "node-0"), (4, "node-1")];
const NODE_PORT: u16 = 30_080;
/// Where kube-proxy says that a node serves.
const HEALTH: u16 = 10_256;

pub(crate) struct Scene {
    _servers: Vec<Server>,
    _ways: JoinSet<()>,
    files: tempfile::TempDir,
    cluster: ControlPlane,
    // The last to go, after all that lives in it.
    pub(crate) lan: Lan,
}

impl Scene {
    /// Everything but the managers; `None`, with a notice, where that is not possible.
    pub(crate) async fn build() -> Option<Self> {
        let lan = Lan::build(5).await?;
        for program in ["nft --version", "conntrack --version"] {
            if lan.machines[0].program(program).is_err() {
                let notice =
                    "NOTICE: a test of two balancer machines was SKIPPED: install nftables and conntrack\n";
                let _ = std::io::Write::write_all(&mut std::io::stderr(), notice.as_bytes());
                return None;
            }
        }
        lan.machines[CLIENT].run(async { have_enough_ports() }).await;
        let cluster = ControlPlane::builder().start().await.expect("the control plane starts");
        let mut ways = JoinSet::new();
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.port()));
        for machine in &lan.machines[..2] {
            let entrance = machine.run(async move { std::net::TcpListener::bind(server).unwrap() }).await;
            ways.spawn(lead_on(entrance, server));
        }
        let mut servers = Vec::new();
        for (machine, name) in NODES {
            let serve = async move {
                let at = |port| SocketAddr::new(lan::address(machine), port);
                [namer(name, at(NODE_PORT)), http(at(HEALTH), "200 OK")]
            };
            servers.extend(lan.machines[machine].run(serve).await);
        }
        let files = tempfile::tempdir().unwrap();
        let scene = Self { _servers: servers, _ways: ways, files, cluster, lan };
        scene.fill_the_cluster().await;
        Some(scene)
    }

    async fn fill_the_cluster(&self) {
        let client = self.cluster.admin().await.expect("an administrator's client");
        let kubelets = NODES.map(|(machine, name)| Kubelet::new(name).node_ip(lan::address(machine)));
        register_all(&client, &kubelets, 1).await.expect("the nodes register");
        let web: Service = serde_json::from_value(json!({
            "metadata": { "name": "web" },
            "spec": {
                "type": "LoadBalancer", "selector": { "app": "web" },
                "ports": [{ "port": 80, "nodePort": NODE_PORT }],
            },
        }))
        .expect("a Service");
        let services: Api<Service> = Api::default_namespaced(client);
        services.create(&PostParams::default(), &web).await.expect("creating the Service");
    }

    /// Starts the manager of a machine.
    pub(crate) fn manager(&self, machine: usize) -> Nephos {
        let file = |name: &str| self.files.path().join(format!("{machine}-{name}"));
        let config = file("local.yaml");
        let state = file("state.json");
        let text = format!(
            "site: lab\ndataPlane: {{kind: nft, interface: eth0, state: {}}}\n\
             pools: [{{name: lan, addresses: [{VIP}]}}]\n",
            state.display()
        );
        std::fs::write(&config, text).unwrap();
        let path = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let mut arguments: Vec<String> =
            ["netns", "exec", &self.lan.machines[machine].name, env!("CARGO_BIN_EXE_nephos"), "run"]
                .map(str::to_owned)
                .into();
        arguments.push("--cloud-provider=local".to_owned());
        arguments.push(path("cloud-config", &config));
        arguments.push(path("kubeconfig", self.cluster.admin_kubeconfig()));
        arguments.extend(FLAGS.map(str::to_owned));
        // It becomes the manager, under the same process number.
        Nephos::start_program(Path::new("ip"), &arguments)
    }

    /// Starts both, the first one first.
    pub(crate) async fn start(&self) -> (Nephos, Nephos) {
        let mut first = self.manager(0);
        first.wait_for("became leader", PATIENCE).await;
        let served = timeout(PATIENCE, async { while !self.serves().await {} }).await;
        assert!(served.is_ok(), "the first machine does not serve:\n{}", first.log());
        assert_eq!(self.lan.neighbour(CLIENT, VIP), Some(self.lan.hardware(0)));
        let mut second = self.manager(1);
        second.wait_for("new leader elected", PATIENCE).await;
        (first, second)
    }

    /// Waits until the second machine heard of the first, which speaks every few seconds.
    pub(crate) async fn know_each_other(&self) {
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
    pub(crate) async fn serves(&self) -> bool {
        let ask = timeout(Duration::from_millis(250), ask(WEB));
        self.lan.machines[CLIENT].run(ask).await.is_ok_and(|answer| answer.is_ok())
    }

    pub(crate) fn has_address(&self, machine: usize) -> bool {
        self.lan.machines[machine].ip("addr show dev eth0").contains(&format!(" {VIP}/32"))
    }

    /// The longest time without a good connection until the client's packets go to a machine.
    pub(crate) async fn longest_gap_until(&self, machine: usize) -> Result<Duration, String> {
        let has_moved = async || self.lan.goes_to(CLIENT, VIP, machine);
        self.lan.longest_gap(async || self.serves().await, has_moved).await
    }

    /// The same until a machine that came back with the address has given way to the other.
    pub(crate) async fn longest_gap_until_given_way(
        &self,
        back: usize,
        to: usize,
    ) -> Result<Duration, String> {
        let has_moved = async || !self.has_address(back) && self.lan.goes_to(CLIENT, VIP, to);
        self.lan.longest_gap(async || self.serves().await, has_moved).await
    }

    pub(crate) async fn end(self, managers: [Nephos; 2]) {
        drop(managers);
        self.cluster.stop().await.expect("the control plane stops");
    }
}

/// A client that makes one connection after the other must not run out of ports to make them from.
fn have_enough_ports() {
    for (key, value) in [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")] {
        std::fs::write(format!("/proc/sys/net/ipv4/{key}"), value).unwrap();
    }
}

/// Connects whoever comes to this entrance, in whatever namespace it is, with a server of this one.
async fn lead_on(entrance: std::net::TcpListener, server: SocketAddr) {
    entrance.set_nonblocking(true).unwrap();
    let entrance = TcpListener::from_std(entrance).unwrap();
    let mut open = JoinSet::new();
    while let Ok((mut outside, _)) = entrance.accept().await {
        open.spawn(async move {
            if let Ok(mut inside) = TcpStream::connect(server).await {
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            }
        });
    }
}
