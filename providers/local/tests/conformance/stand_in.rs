//! A site as a stand-in for the conformance suite: an inventory and a data plane in the process, in virtual time.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::Protocol;
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::well_known::address_types::{HOSTNAME, INTERNAL_IP};
use cloud_provider::{Cloud, CloudConfig, ClusterId, ClusterIdentity, Context, Error};
use ipnet::IpNet;
use provider_local::NAME;
use provider_local::config::Config;
use provider_local::intent::{self, Affinity, Intent};
use provider_local::inventory::Source;
use provider_local::pool::Range;
use provider_local::provider::cloud_from;
use provider_local::routes::{NodeRoutes, metric};
use tempfile::TempDir;
use testkit::conformance::Time;
use testkit::conformance::stand_in::{
    Aim, Balancer, Contents, Control, Count, Detail, Fault, Foreign, Instance, Manners, Object, Route, Seed,
    StandIn, unsupported,
};

use super::plane::Plane;
use super::table::{Entry, HeldTable};
use super::trouble::{Course, Trouble};

const CONFIG: &str = "
site: lab
inventory: inventory.yaml
pools:
- name: lan
  addresses: [192.0.2.16/28, 198.51.100.10-198.51.100.90, '2001:db8::10-2001:db8::80']
";

const BROKEN: &str = "
pools:
- name: lan
  addresses: [192.0.2.0/28]
- name: wan
  addresses: [192.0.2.10-192.0.2.20]
";

/// The balancer that has every address.
const GREEDY: &str = "greedy";

/// A site, standing in for a cloud.
pub(crate) struct Site {
    numbers: AtomicU64,
    scene: Mutex<Option<Scene>>,
    /// Where the data plane in the kernel keeps its intent; `None` for one that is only a value.
    kernel: Option<TempDir>,
}

/// What a reset sets up.
#[derive(Clone)]
struct Scene {
    machines: Machines,
    plane: Plane,
    table: HeldTable,
    trouble: Trouble,
}

/// The machines of the site, and the inventory that lists them.
#[derive(Clone)]
struct Machines {
    listed: Arc<Mutex<Vec<(Instance, bool)>>>,
    trouble: Trouble,
}

#[async_trait]
impl Source for Machines {
    fn place(&self) -> String {
        "inventory.yaml".to_owned()
    }

    async fn read(&self) -> io::Result<Vec<u8>> {
        let course = self.trouble.read().await?;
        self.trouble.travel().await;
        Ok(match course {
            Course::Straight => self.text().into_bytes(),
            Course::Empty => b"machines: []".to_vec(),
            Course::Garble => b"machines: [{name".to_vec(),
            Course::LoseAnswer => return Err(io::ErrorKind::ConnectionReset.into()),
        })
    }
}

impl Machines {
    fn text(&self) -> String {
        let listed = self.listed.lock().unwrap();
        let machine = |(machine, stopped): &(Instance, bool)| {
            let addresses: Vec<_> =
                machine.addresses.iter().map(|(type_, text)| format!("{type_}: {text}")).collect();
            format!(
                "- {{name: {}, id: {}, zone: {}, region: {}, type: {}, state: {}, addresses: [{{{}}}]}}\n",
                machine.name,
                id_of(machine),
                machine.zone,
                machine.region,
                machine.instance_type,
                if *stopped { "stopped" } else { "running" },
                addresses.join("}, {"),
            )
        };
        format!("machines:\n{}", listed.iter().map(machine).collect::<String>())
    }
}

fn id_of(machine: &Instance) -> &str {
    machine.provider_id.rsplit('/').next().unwrap()
}

impl Site {
    /// In the process, in virtual time.
    pub(crate) fn in_process() -> Arc<dyn StandIn> {
        Arc::new(Self { numbers: AtomicU64::new(0), scene: Mutex::new(None), kernel: None })
    }

    /// With the data plane in the kernel of this thread's network namespace, in real time.
    pub(crate) fn in_kernel() -> Arc<dyn StandIn> {
        let folder = Some(tempfile::tempdir().unwrap());
        Arc::new(Self { numbers: AtomicU64::new(0), scene: Mutex::new(None), kernel: folder })
    }

    fn scene(&self) -> Scene {
        self.scene.lock().unwrap().clone().expect("the suite resets before it asks for anything")
    }

    /// Changes the intent behind the provider's back.
    async fn edit(&self, change: impl FnOnce(&mut Intent)) {
        self.scene().plane.edit(change).await;
    }
}

#[async_trait]
impl StandIn for Site {
    fn provider(&self) -> &str {
        NAME
    }

    fn title(&self) -> String {
        let plane = if self.kernel.is_some() { "the data plane nft" } else { "a data plane in the process" };
        format!("an inventory and {plane}")
    }

    fn time(&self) -> Time {
        if self.kernel.is_some() { Time::Real } else { Time::Virtual }
    }

    async fn reset(&self, manners: Manners) -> Control<()> {
        if !manners.construction.is_zero() {
            return unsupported("builds a balancer at once");
        }
        if !manners.lag.is_zero() {
            return unsupported("shows an intent as soon as it is in force");
        }
        let deadline = Duration::from_secs(if self.kernel.is_some() { 2 } else { 30 });
        let trouble = Trouble::new(manners.latency, deadline);
        let machines = Machines { listed: Arc::default(), trouble: trouble.clone() };
        let plane = match &self.kernel {
            Some(folder) => Plane::in_kernel(trouble.clone(), folder.path()).await,
            None => Plane::in_name(trouble.clone()),
        };
        let table = HeldTable::new(trouble.clone());
        *self.scene.lock().unwrap() = Some(Scene { machines, plane, table, trouble });
        Ok(())
    }

    async fn build(&self, context: Context) -> Result<Cloud, Error> {
        let scene = self.scene();
        let config = Config::of(context.config.as_ref())?;
        let (plane, inventory) = (Arc::new(scene.plane), Arc::new(scene.machines));
        let cloud = cloud_from(&config, &context, Some(plane), Some(inventory)).await?;
        Ok(cloud.with_routes(Arc::new(NodeRoutes::new(Arc::new(scene.table), &context))))
    }

    async fn calls(&self) -> Count {
        self.scene().trouble.count()
    }

    async fn contents(&self) -> Control<Contents> {
        let scene = self.scene();
        let intent = scene.plane.now().await;
        let balancers = intent.balancers.iter().map(|(uid, balancer)| object(uid, balancer));
        let routes = scene.table.routes.lock().unwrap();
        Ok(Contents { objects: balancers.chain(routes.iter().map(route_object)).collect() })
    }

    fn config(&self) -> Option<CloudConfig> {
        Some(CloudConfig::from_bytes("local.yaml", CONFIG))
    }

    fn broken_config(&self) -> Control<CloudConfig> {
        Ok(CloudConfig::from_bytes(PathBuf::from("/etc/nephos/broken-local.yaml"), BROKEN))
    }

    fn annotation(&self) -> Control<(String, String)> {
        Ok(("local.nephos/idle-timeout".to_owned(), "42s".to_owned()))
    }

    async fn start_instance(&self, seed: &Seed) -> Control<Instance> {
        let scene = self.scene();
        let mut listed = scene.machines.listed.lock().unwrap();
        if listed.iter().any(|(machine, _)| machine.name == seed.name) {
            return unsupported("keeps an inventory, which refuses two machines of one name");
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let machine = Instance {
            provider_id: format!("{NAME}://lab/m-{number:05}"),
            name: seed.name.clone(),
            instance_type: "shelf".to_owned(),
            zone: format!("rack-{}", seed.zone % 3),
            region: "lab".to_owned(),
            addresses: vec![
                (INTERNAL_IP.to_owned(), format!("10.0.{}.{}", number / 250 % 250, number % 250 + 1)),
                (HOSTNAME.to_owned(), seed.name.clone()),
            ],
        };
        listed.push((machine.clone(), false));
        Ok(machine)
    }

    async fn stop_instance(&self, instance: &Instance) -> Control<()> {
        let scene = self.scene();
        let mut listed = scene.machines.listed.lock().unwrap();
        listed.iter_mut().find(|(machine, _)| machine == instance).expect("it was started").1 = true;
        Ok(())
    }

    async fn delete_instance(&self, instance: &Instance) -> Control<()> {
        self.scene().machines.listed.lock().unwrap().retain(|(machine, _)| machine != instance);
        Ok(())
    }

    async fn plant(&self, foreign: &Foreign) -> Control<String> {
        let (name, cluster) = match foreign {
            Foreign::Balancer { name, cluster } => (name, cluster),
            Foreign::Route { destination, cluster } => {
                let theirs =
                    |id: &String| ClusterIdentity::new("kubernetes", ClusterId::Configured(id.clone()));
                let metric = cluster.as_ref().map_or(0, |id| metric(&theirs(id)));
                self.scene().table.plant(*destination, metric, cluster.is_some());
                return Ok(destination.to_string());
            }
            Foreign::Volume { .. } => return unsupported("has no volumes"),
        };
        let balancer = foreign_balancer(name, cluster.clone(), ["198.51.100.77".parse().unwrap()].into());
        self.edit(|intent| drop(intent.balancers.insert(name.clone(), balancer.into()))).await;
        Ok(name.clone())
    }

    async fn remove(&self, object: &str) -> Control<()> {
        self.edit(|intent| assert!(intent.balancers.remove(object).is_some(), "{object} is not there")).await;
        Ok(())
    }

    async fn tamper(&self, balancer: &str) -> Control<()> {
        self.edit(|intent| {
            let held = intent.balancers.get_mut(balancer).expect("it was shown");
            Arc::make_mut(held).ports.pop_last();
        })
        .await;
        Ok(())
    }

    async fn blackhole(&self, destination: IpNet) -> Control<()> {
        self.scene().table.blackhole(destination);
        Ok(())
    }

    async fn inject(&self, fault: Fault, aim: Aim) -> Control<()> {
        match fault {
            Fault::Throttled(_) => unsupported("is on this machine, and throttles nobody"),
            Fault::QuotaExceeded => {
                // What runs out here is addresses.
                let config = Config::of(self.config().as_ref()).unwrap();
                let ranges = config.pools.iter().flat_map(|pool| &pool.ranges);
                let all = ranges.flat_map(Range::addresses).collect();
                let greedy = foreign_balancer(GREEDY, None, all);
                self.edit(|intent| drop(intent.balancers.insert(GREEDY.to_owned(), greedy.into()))).await;
                Ok(())
            }
            _ => {
                self.scene().trouble.arm(fault, aim);
                Ok(())
            }
        }
    }

    async fn heal(&self) {
        self.scene().trouble.clear();
        self.edit(|intent| drop(intent.balancers.remove(GREEDY))).await;
    }
}

/// A balancer that is not ours, at these addresses.
fn foreign_balancer(name: &str, cluster: Option<String>, addresses: BTreeSet<IpAddr>) -> intent::Balancer {
    // Two of them may be at one address, so each has a port of its own.
    let port = u16::try_from(4000 + name.len()).unwrap();
    intent::Balancer {
        cluster,
        namespace: "elsewhere".to_owned(),
        name: name.to_owned(),
        addresses,
        ports: [(intent::PortKey::tcp(port), intent::Port::default())].into(),
        settings: intent::Settings::default(),
    }
}

/// A route in the suite's words. The cluster in its metric is the tag that it has.
fn route_object(entry: &Entry) -> Object {
    let Entry { route, is_ours } = entry;
    let name = format!("{} metric {}", route.destination, route.metric);
    let tag = is_ours.then(|| (CLUSTER_TAG.to_owned(), route.metric.to_string()));
    Object {
        kind: "route".to_owned(),
        id: name.clone(),
        name,
        tags: Some(tag.into_iter().collect()),
        detail: Detail::Route(Route { destination: route.destination, node: None }),
        bytes: format!("{entry:?}"),
    }
}

/// A balancer of the intent in the suite's words.
fn object(uid: &str, balancer: &intent::Balancer) -> Object {
    let owner = (OWNER_TAG.to_owned(), uid.to_owned());
    let cluster = balancer.cluster.iter().map(|cluster| (CLUSTER_TAG.to_owned(), cluster.clone()));
    let listeners = balancer.ports.iter().map(|(key, port)| {
        let protocol = match key.protocol {
            intent::Protocol::Tcp => Protocol::Tcp,
            intent::Protocol::Udp => Protocol::Udp,
        };
        (protocol, key.port, port.backends.iter().next().map(|backend| backend.port))
    });
    let backends = balancer.ports.values().flat_map(|port| &port.backends);
    Object {
        kind: "load balancer".to_owned(),
        id: uid.to_owned(),
        name: uid.to_owned(),
        tags: Some(cluster.chain([owner]).collect()),
        detail: Detail::Balancer(Balancer {
            addresses: balancer.addresses.iter().map(ToString::to_string).collect(),
            listeners: listeners.collect(),
            backends: backends.map(|backend| backend.node.clone()).collect(),
            source_ranges: balancer.settings.source_ranges.clone(),
            affinity: match balancer.settings.affinity {
                Affinity::None => None,
                Affinity::ClientIp { timeout } => Some(timeout.as_secs()),
            },
        }),
        bytes: serde_json::to_string(balancer).unwrap(),
    }
}
