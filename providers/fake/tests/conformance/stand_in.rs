//! The fake cloud as a stand-in for the conformance suite, in the process and over HTTP.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::Spec;
use cloud_provider::well_known::address_types::{HOSTNAME, INTERNAL_IP};
use cloud_provider::{Cloud, CloudConfig, Context, Error, ProviderId};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::PersistentVolume;
use provider_fake::objects::{Balancer, Disk, Listener, Machine, RouteEntry, Tags};
use provider_fake::{Api, Config, NAME, PROVIDER, ProviderSettings, World, cloud_over};
use testkit::conformance::Time;
use testkit::conformance::context::TestClock;
use testkit::conformance::stand_in::{
    Aim, Contents, Control, Count, Fault, Foreign, GoMade, Instance, Manners, Seed, StandIn, unsupported,
};

use super::between::{Bend, Between, Straight};
use super::shown;
use super::wire::{Behind, Trouble};

/// So few instances to a page that a handful of Nodes needs several.
const PAGE: usize = 4;
/// How long the client waits for an answer over HTTP.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Something done to what building gave, outside the provider.
pub(crate) type Around = Arc<dyn Fn(Result<Cloud, Error>, &World) -> Result<Cloud, Error> + Send + Sync>;

/// The fake cloud, standing in for a cloud.
pub(crate) struct FakeStandIn {
    http: bool,
    bend: Arc<dyn Bend>,
    around: Around,
    numbers: AtomicU64,
    scene: Mutex<Option<Scene>>,
}

/// What a reset sets up.
#[derive(Clone)]
struct Scene {
    world: World,
    behind: Option<Arc<Behind>>,
    delay: Duration,
    trouble: Trouble,
}

impl FakeStandIn {
    /// In the process, in virtual time.
    pub(crate) fn in_process() -> Arc<dyn StandIn> {
        Self::flawed(Arc::new(Straight), Arc::new(|built, _| built))
    }

    /// Over HTTP, in real time.
    pub(crate) fn over_http() -> Arc<dyn StandIn> {
        Arc::new(Self { http: true, ..Self::new(Arc::new(Straight), Arc::new(|built, _| built)) })
    }

    /// In the process, with something wrong between the provider and the cloud or around the provider.
    pub(crate) fn flawed(bend: Arc<dyn Bend>, around: Around) -> Arc<dyn StandIn> {
        Arc::new(Self::new(bend, around))
    }

    fn new(bend: Arc<dyn Bend>, around: Around) -> Self {
        Self { http: false, bend, around, numbers: AtomicU64::new(0), scene: Mutex::new(None) }
    }

    fn scene(&self) -> Scene {
        self.scene.lock().unwrap().clone().expect("the suite resets before it asks for anything")
    }

    fn world(&self) -> World {
        self.scene().world
    }

    fn machine(instance: &Instance) -> String {
        let id: ProviderId = instance.provider_id.parse().unwrap();
        id.rest().to_owned()
    }
}

#[async_trait]
impl StandIn for FakeStandIn {
    fn provider(&self) -> &str {
        NAME
    }

    fn title(&self) -> String {
        if self.http { "over HTTP".to_owned() } else { "in the process".to_owned() }
    }

    fn time(&self) -> Time {
        if self.http { Time::Real } else { Time::Virtual }
    }

    async fn reset(&self, manners: Manners) -> Control<()> {
        let config = Config {
            adopt: false,
            page_size: PAGE,
            latency: manners.latency,
            balancer_ready_after: manners.construction,
            invisible_for: manners.lag,
            pod_networks: self.pod_networks(),
            clusters: [("blue".to_owned(), "192.0.2.1:6443".to_owned())].into(),
            ..Config::default()
        };
        let world = World::new(config, Arc::new(TestClock::new()));
        let behind = if self.http { Some(Arc::new(Behind::serve(world.clone()).await)) } else { None };
        let scene = Scene { world, behind, delay: manners.latency, trouble: Trouble::default() };
        *self.scene.lock().unwrap() = Some(scene);
        Ok(())
    }

    async fn build(&self, mut context: Context) -> Result<Cloud, Error> {
        let scene = self.scene();
        let built = match &scene.behind {
            Some(behind) => {
                context.transport = Arc::new(behind.transport(TIMEOUT, scene.trouble.clone()));
                (PROVIDER.build)(context).await
            }
            None => Config::of(context.config.as_ref()).map(|config| {
                let api: Arc<dyn Api> = Arc::new(Between {
                    api: scene.world.connect(&context.cluster),
                    bend: Arc::clone(&self.bend),
                    trouble: scene.trouble.clone(),
                    delay: scene.delay,
                });
                cloud_over(api, &context, ProviderSettings::from(&config))
            }),
        };
        (self.around)(built, &scene.world)
    }

    async fn calls(&self) -> Count {
        let counters = self.world().counters();
        Count { reads: counters.reads, writes: counters.writes }
    }

    async fn contents(&self) -> Control<Contents> {
        Ok(shown::contents(&self.world().contents()))
    }

    fn config(&self) -> Option<CloudConfig> {
        let networks: Vec<String> = self.pod_networks().iter().map(ToString::to_string).collect();
        let place = self.scene().behind.map_or_else(String::new, |behind| {
            format!("endpoint: {}\ntimeout: {}ms\n", behind.endpoint, TIMEOUT.as_millis())
        });
        Some(CloudConfig::from_bytes(
            "fake.yaml",
            format!("adopt: false\npodNetworks: {networks:?}\n{place}"),
        ))
    }

    fn broken_config(&self) -> Control<CloudConfig> {
        Ok(CloudConfig::from_bytes(PathBuf::from("/etc/kubernetes/broken-fake.yaml"), "pageSize: many"))
    }

    fn annotation(&self) -> Control<(String, String)> {
        Ok((provider_fake::provider::IDLE_TIMEOUT_ANNOTATION.to_owned(), "42s".to_owned()))
    }

    fn pod_networks(&self) -> Vec<IpNet> {
        ["10.244.0.0/16", "fd00:10:244::/56"].map(|network| network.parse().unwrap()).into()
    }

    fn persistent_volume(&self, volume: &str) -> Control<PersistentVolume> {
        Ok(testkit::persistent_volume("pv-1", provider_fake::provider::DRIVER, volume).build())
    }

    fn page_size(&self) -> Control<usize> {
        Ok(PAGE)
    }

    async fn start_instance(&self, seed: &Seed) -> Control<Instance> {
        // An ID of its own, as clouds give it: a provider that takes a name for an ID is found out.
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let machine = Machine::new(&seed.name)
            .with_id(format!("i-{number:05}"))
            .with_address(INTERNAL_IP, format!("10.0.{}.{}", number / 250 % 250, number % 250 + 1))
            .with_address(HOSTNAME, &seed.name)
            .located(format!("fake-1{}", ["a", "b", "c"][seed.zone % 3]), "fake-1");
        self.world().add_machine(machine.clone());
        Ok(shown::instance(&machine))
    }

    async fn stop_instance(&self, instance: &Instance) -> Control<()> {
        assert!(self.world().set_stopped(&Self::machine(instance), true));
        Ok(())
    }

    async fn delete_instance(&self, instance: &Instance) -> Control<()> {
        assert!(self.world().remove_machine(&Self::machine(instance)));
        Ok(())
    }

    async fn plant(&self, foreign: &Foreign) -> Control<String> {
        let tags = |cluster: &Option<String>| -> Tags {
            let tag = |id: &String| (cloud_provider::ownership::CLUSTER_TAG.to_owned(), id.clone());
            cluster.iter().map(tag).collect()
        };
        let world = self.world();
        Ok(match foreign {
            Foreign::Balancer { name, cluster } => {
                let mut balancer = Balancer { tags: tags(cluster), ..Balancer::new(name) };
                balancer.addresses = [(format!("address-of-{name}"), [203, 0, 113, 9].into())].into();
                world.plant_balancer(balancer, Some(cluster.as_deref().unwrap_or("somebody")))
            }
            Foreign::Route { destination, cluster } => {
                let name = format!("foreign-{destination}");
                let node = Some("node-a".to_owned());
                let (id, addresses, blackhole) = (String::new(), Vec::new(), false);
                let tags = tags(cluster);
                let destination = *destination;
                let route =
                    RouteEntry { id, name: name.clone(), destination, node, addresses, blackhole, tags };
                world.plant_route(route, Some(cluster.as_deref().unwrap_or("somebody")));
                // The provider names routes by name.
                name
            }
            Foreign::Volume { name, cluster } => {
                let disk = Disk {
                    id: String::new(),
                    name: name.clone(),
                    bytes: 1 << 30,
                    zone: "fake-1a".to_owned(),
                    region: "fake-1".to_owned(),
                    attached: None,
                    tags: tags(cluster),
                };
                world.plant_disk(disk, Some(cluster.as_deref().unwrap_or("somebody")))
            }
        })
    }

    async fn plant_go_made(&self, spec: &Spec) -> Control<GoMade> {
        let mut balancer = Balancer::new(spec.identity.default_name());
        balancer.addresses = [("address-by-go".to_owned(), [203, 0, 113, 7].into())].into();
        let ports = spec.ports.iter();
        balancer.settings.listeners =
            ports.map(|port| Listener::new(port.protocol, port.port, port.node_port)).collect();
        let machines = self.world().contents().machines;
        let behind = |name: &str| spec.nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name));
        balancer.backends =
            machines.into_iter().filter(|machine| behind(&machine.name)).map(|machine| machine.id).collect();
        Ok(GoMade { id: self.world().plant_balancer(balancer, None), address: "203.0.113.7".to_owned() })
    }

    async fn remove(&self, object: &str) -> Control<()> {
        let world = self.world();
        assert!(world.remove_balancer(object) || world.remove_route(object), "{object} is not there");
        Ok(())
    }

    async fn tamper(&self, balancer: &str) -> Control<()> {
        let changed = self.world().change_balancer(balancer, |balancer| {
            balancer.settings.listeners.pop();
        });
        assert!(changed, "{balancer} is not there");
        Ok(())
    }

    async fn blackhole(&self, destination: IpNet) -> Control<()> {
        let contents = self.world().contents();
        let node =
            contents.routes.iter().find(|route| route.destination == destination).unwrap().node.as_ref();
        let machine = contents.machines.iter().find(|machine| Some(&machine.name) == node).unwrap();
        assert!(self.world().remove_machine(&machine.id));
        Ok(())
    }

    async fn inject(&self, fault: Fault, aim: Aim) -> Control<()> {
        let scene = self.scene();
        match fault {
            Fault::Unreadable if !self.http => unsupported("passes no bytes that could be unreadable"),
            Fault::Unreadable | Fault::TimesOut => {
                scene.trouble.arm(fault, aim);
                Ok(())
            }
            _ => {
                scene.world.inject(shown::fault(fault, aim)).expect("a fault that can happen");
                Ok(())
            }
        }
    }

    async fn heal(&self) {
        let scene = self.scene();
        scene.trouble.clear();
        scene.world.clear_faults();
    }

    async fn settle(&self) {
        if let Some(behind) = self.scene().behind {
            behind.settle().await;
        }
    }
}
