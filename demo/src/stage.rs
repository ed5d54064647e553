//! Where it is played: the control plane, the config and the inventory, the proxy, the manager, the machines.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use control_plane::ControlPlane;
use kube::Client;

use crate::child::Child;
use crate::machine::Machine;
use crate::view::View;

/// The site's name, which stands in the provider IDs.
const SITE: &str = "demo";

/// Everything that runs.
pub(crate) struct Stage {
    pub(crate) cluster: ControlPlane,
    pub(crate) client: Client,
    /// The machines, in the order in which they joined.
    pub(crate) machines: Vec<Machine>,
    /// The unix socket between the manager and the proxy.
    pub(crate) socket: PathBuf,
    inventory: PathBuf,
    manager: Child,
    proxy: Child,
}

impl Stage {
    /// Starts everything but the machines, which are switched off.
    pub(crate) async fn set(view: &View) -> anyhow::Result<Self> {
        view.say("Starting etcd and kube-apiserver (the first time, Go builds them, which takes minutes).");
        let progress = view.clone();
        let progress = Arc::new(move |line: &str| progress.say(&format!("  {line}")));
        let cluster = ControlPlane::builder().progress(progress).start().await?;
        let client = cluster.admin().await?;
        view.follow(client.clone());

        let directory = cluster.directory().to_owned();
        let machines = machines()?;
        let inventory = directory.join("machines.yaml");
        list(&inventory, &machines)?;
        let socket = directory.join("proxy.sock");
        let config = directory.join("local.yaml");
        let pool = network();
        write(
            &config,
            &format!(
                "site: {SITE}\ninventory: machines.yaml\nregion: home\ninstanceType: nowhere\n\
                 dataPlane: {{socket: proxy.sock}}\n\
                 pools:\n- name: loopback\n  addresses: [127.{pool}.1.1-127.{pool}.1.20]\n"
            ),
        )?;
        view.say(
            "Starting the proxy, which forwards, and nephos, which leads. Each is a process of its own.",
        );
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let word = |text: &str| text.to_owned();
        let proxy = Child::start(
            "proxy",
            &[
                word("local"),
                word("proxy"),
                flag("socket", &socket),
                flag("state", &directory.join("intent.json")),
            ],
            &directory,
        )?;
        let manager = Child::start(
            "manager",
            &[
                word("run"),
                word("--cloud-provider=local"),
                flag("cloud-config", &config),
                flag("kubeconfig", cluster.admin_kubeconfig()),
                word("--secure-port=0"),
                // A demonstration is short: a Node may be deleted when it is some seconds old.
                word("--node-monitor-period=1s"),
                word("--node-deletion-grace-period=5s"),
                word("--node-deletion-confirm-after=1s"),
            ],
            &directory,
        )?;
        Ok(Self { cluster, client, machines, socket, inventory, manager, proxy })
    }

    /// Takes a machine out of the inventory: from now on it is gone.
    pub(crate) fn scrap(&mut self, name: &str) -> anyhow::Result<()> {
        self.machines.retain(|machine| machine.name != name);
        list(&self.inventory, &self.machines)
    }

    /// What a person may want to look at.
    pub(crate) fn hints(&self, address: &str) -> Vec<String> {
        let kubectl = self.cluster.assets().program(control_plane::Program::Kubectl);
        let kubectl = kubectl.map_or_else(|_| "kubectl".to_owned(), |path| path.display().to_string());
        vec![
            format!("export KUBECONFIG={}", self.cluster.admin_kubeconfig().display()),
            format!("{kubectl} get nodes,services --output=wide"),
            format!("{kubectl} describe service web"),
            format!("curl {address}"),
            format!("edit {}", self.inventory.display()),
            format!("tail -f {}", self.manager.log().display()),
        ]
    }

    /// The error with what the processes said last.
    pub(crate) fn with_last_words(&self, error: anyhow::Error) -> anyhow::Error {
        error.context(format!("{}\n{}\nbecause of this", self.manager.last_words(), self.proxy.last_words()))
    }

    /// Ends everything and removes every file.
    pub(crate) async fn strike(self) -> anyhow::Result<()> {
        drop(self.machines);
        self.manager.stop().await?;
        self.proxy.stop().await?;
        self.cluster.stop().await?;
        Ok(())
    }
}

/// The second part of the loopback addresses of this demonstration: two of them may run side by side.
fn network() -> u8 {
    64 + u8::try_from(std::process::id() % 128).unwrap_or_default()
}

fn machines() -> anyhow::Result<Vec<Machine>> {
    let machine = |(number, name): (u8, &str)| {
        let address = IpAddr::V4(Ipv4Addr::new(127, network(), 0, 10 + number));
        Machine::new(name, address, &format!("rack-{number}"))
    };
    [(1, "ada"), (2, "grace"), (3, "edsger")].into_iter().map(machine).collect()
}

/// Writes the inventory.
fn list(path: &Path, machines: &[Machine]) -> anyhow::Result<()> {
    let mut text = String::from("machines:\n");
    for machine in machines {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "- {{name: {}, id: m-{}, addresses: [{}], zone: {}}}",
            machine.name, machine.name, machine.address, machine.zone
        );
    }
    write(path, &text)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
