//! The provider `local` with its proxy, as people run it: the proxy as one process, the manager as another, and clients who
//! do not care which of them lives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control_plane::kubelet::{NodeIp, register_all};
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::load::Load;
use crate::process::Nephos;
use crate::rights::{ACCOUNT, apply, printed};
use crate::scene::eventually;
use crate::servers::{Held, Server, ask, fresh_address, namer};
use crate::services::typed;
use crate::{LEADS, PATIENCE};

const PORT: u16 = 8080;

/// A cluster whose load balancer is the machine itself.
struct House {
    cluster: ControlPlane,
    client: Client,
    kubeconfig: PathBuf,
    files: TempDir,
    _proxy: Nephos,
}

impl House {
    async fn build() -> Self {
        let cluster = ControlPlane::builder().start().await.expect("the control plane starts");
        let client = cluster.admin().await.expect("an administrator's client");
        let files = tempfile::tempdir().expect("a temporary directory");
        let config = format!(
            "site: lab\ndataPlane: {{socket: proxy.sock}}\npools:\n- {{name: only, addresses: [{}]}}\n",
            fresh_address()
        );
        std::fs::write(files.path().join("local.yaml"), config).expect("writing the config");
        let proxy = Nephos::start(&[
            "local".to_owned(),
            "proxy".to_owned(),
            flag("socket", &files.path().join("proxy.sock")),
            flag("state", &files.path().join("state.json")),
        ]);
        let kubeconfig = cluster.admin_kubeconfig().to_owned();
        Self { cluster, client, kubeconfig, files, _proxy: proxy }
    }

    async fn manager(&self) -> Nephos {
        let mut manager = Nephos::start(&[
            "run".to_owned(),
            "--cloud-provider=local".to_owned(),
            "--secure-port=0".to_owned(),
            flag("cloud-config", &self.files.path().join("local.yaml")),
            flag("kubeconfig", &self.kubeconfig),
            "--leader-elect-lease-duration=8s".to_owned(),
            "--leader-elect-renew-deadline=6s".to_owned(),
            "--leader-elect-retry-period=200ms".to_owned(),
        ]);
        manager.wait_for(LEADS, PATIENCE).await;
        manager
    }

    /// A machine joins.
    async fn join(&self, name: &str, address: IpAddr) {
        let ip: NodeIp = address.to_string().parse().expect("an address");
        let kubelet = Kubelet::new(name).node_ip(ip);
        register_all(&self.client, &[kubelet], 1).await.expect("the node registers");
    }

    fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Where a Service is reached, once its status says so.
    async fn entrance(&self, name: &str) -> SocketAddr {
        let services = self.services();
        let ip: IpAddr = eventually("an address", async || {
            let ingress =
                services.get(name).await.ok()?.status?.load_balancer?.ingress?.into_iter().next()?;
            assert_eq!(ingress.ip_mode.as_deref(), Some("Proxy"));
            ingress.ip?.parse().ok()
        })
        .await;
        SocketAddr::new(ip, PORT)
    }

    async fn end(self) {
        self.cluster.stop().await.expect("the control plane stops");
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Asks until this one answers.
async fn answered_by(entrance: SocketAddr, name: &str) {
    eventually(name, async || (ask(entrance).await.ok()?.name == name).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_is_killed_and_started_again_under_load_fails_no_connection() {
    let house = House::build().await;
    let addresses: Vec<IpAddr> = (0..6).map(|_| fresh_address()).collect();
    let mut manager = house.manager().await;
    house.join("node-0", addresses[0]).await;
    let web = typed(json!({
        "metadata": { "name": "web" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": PORT }], "selector": { "app": "web" } },
    }));
    let web: Service = house.services().create(&PostParams::default(), &web).await.expect("creating it");
    let node_port = web.spec.and_then(|spec| spec.ports?.first()?.node_port).expect("a node port");
    let node_port = u16::try_from(node_port).expect("a port");
    let serve =
        |number: usize| namer(&format!("node-{number}"), SocketAddr::new(addresses[number], node_port));
    let mut servers: Vec<Server> = vec![serve(0)];
    let entrance = house.entrance("web").await;
    answered_by(entrance, "node-0").await;

    let mut held = Held::open(entrance).await.expect("a connection that stays");
    let load = Load::start(entrance, 4);
    for (number, address) in addresses.iter().enumerate().skip(1) {
        load.goes_on(50).await;
        manager.kill();
        manager.exit_code(PATIENCE).await;
        load.goes_on(50).await;
        // What happens while nobody leads is seen by the next.
        let name = format!("node-{number}");
        servers.push(serve(number));
        house.join(&name, *address).await;
        manager = house.manager().await;
        answered_by(entrance, &name).await;
        held.echo().await.expect("it lives on");
    }
    let outcome = load.end().await;
    assert_eq!(outcome.failures, Vec::<String>::new());
    println!("{} connections, none failed, over {} kills", outcome.good, addresses.len() - 1);
    manager.terminate();
    assert_eq!(manager.exit_code(PATIENCE).await, Some(0));
    house.end().await;
}

fn slice(pod: &Server) -> EndpointSlice {
    typed(json!({
        "metadata": { "name": "direct-1", "labels": { "kubernetes.io/service-name": "direct" } },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": pod.address.port(), "protocol": "TCP" }],
        "endpoints": [{ "addresses": [pod.address.ip()] }],
    }))
}

/// An address of this machine that the API server takes for a pod's, which it never does one of the loopback network.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent: this only asks the routing table.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_loopback())
}

/// With no right but those that are printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_node_ports_is_served_by_its_pods_wherever_they_go() {
    let Some(own) = own_address() else {
        println!("SKIPPED: this machine has no address but those of the loopback network");
        return;
    };
    let mut house = House::build().await;
    apply(&house.client, &printed(&["rbac", "--cloud-provider=local", "--secure-port=0"]).await).await;
    house.kubeconfig = house.cluster.kubeconfig_for(ACCOUNT, &[]).expect("a kubeconfig");
    let pods = ["a", "b"].map(|name| namer(name, SocketAddr::new(own, 0)));
    let slices: Api<EndpointSlice> = Api::default_namespaced(house.client.clone());
    slices.create(&PostParams::default(), &slice(&pods[0])).await.expect("creating the slice");
    let direct = typed(json!({
        "metadata": { "name": "direct" },
        "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
            "ports": [{ "port": PORT }], "selector": { "app": "direct" },
        },
    }));
    house.services().create(&PostParams::default(), &direct).await.expect("creating it");
    let mut manager = house.manager().await;
    let entrance = house.entrance("direct").await;
    answered_by(entrance, "a").await;

    let EndpointSlice { endpoints, ports, .. } = slice(&pods[1]);
    let moved = json!({ "endpoints": endpoints, "ports": ports });
    let params = PatchParams::default();
    slices.patch("direct-1", &params, &Patch::Merge(&moved)).await.expect("the pod moves");
    let began = tokio::time::Instant::now();
    answered_by(entrance, "b").await;
    assert_eq!(ask(entrance).await.expect("an answer").name, "b");
    println!("followed after {:.0?}", began.elapsed());
    manager.terminate();
    assert_eq!(manager.exit_code(Duration::from_secs(20)).await, Some(0));
    let refused: Vec<String> =
        manager.log().lines().filter(|line| line.contains("forbidden")).map(str::to_owned).collect();
    assert_eq!(refused, Vec::<String>::new());
    house.end().await;
}
