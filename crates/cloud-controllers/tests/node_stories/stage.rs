//! A cluster without Nodes, a cloud without instances, and everything between them that a manager would set up.

#![allow(dead_code, reason = "several test programs share it, and each needs a part of it")]

use std::sync::Arc;
use std::time::Duration;

use cloud_controllers::around::{
    Budget, Deadlines, Loader, Metrics as CallMetrics, budget, loader, surround,
};
use cloud_controllers::{node, node_lifecycle};
use cloud_provider::Context;
use controller_kit::cache::{self, Cache, Scope, trim};
use controller_kit::client::{self, Clients};
use controller_kit::clock::{SharedClock, TokioClock as WallClock};
use controller_kit::events::{self, Recorder};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use controller_kit::{queue, worker};
use k8s_openapi::api::core::v1::{Event, Node};
use prometheus_client::registry::Registry;
use provider_fake::clock::TokioClock;
use provider_fake::objects::Machine;
use provider_fake::{Config, World};
use testkit::{ApiServer, EPOCH};
use tokio::task::JoinHandle;

pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    pub(crate) world: World,
    pub(crate) registry: Registry,
    pub(crate) nodes: Cache<Node>,
    pub(crate) events: Recorder,
    pub(crate) loader: Loader,
    pub(crate) clock: SharedClock,
    pub(crate) random: Randomness,
    pub(crate) stop: Shutdown,
    running: Vec<JoinHandle<()>>,
}

/// A client as the manager makes it: with deadlines and retries.
fn client(server: &ApiServer, name: &str, random: &Randomness, registry: &mut Registry) -> kube::Client {
    let metrics = client::Metrics::register(registry);
    let options = client::Options::default();
    Clients::over(server.service_as(name), options, random.clone(), metrics).named(name).build()
}

/// No cloud but this one may invent instances.
pub(crate) fn strict() -> Config {
    Config { adopt: false, ..Config::default() }
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Stage {
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        let world = World::new(config, Arc::new(TokioClock::start()));
        Self::over(ApiServer::new(seed), world, Randomness::seeded(seed))
    }

    /// A process that has just started.
    fn over(server: ApiServer, world: World, random: Randomness) -> Self {
        let calls = CallMetrics::unregistered();
        let cloud = world.cloud(&Context::inert());
        let budget = Budget::new(&cloud.name, budget::Settings::default(), &calls);
        let loader = surround(cloud, budget, Deadlines::default(), &calls)
            .loader(loader::Settings::default())
            .unwrap();
        let mut registry = Registry::default();
        let clock: SharedClock = Arc::new(WallClock::starting_at(EPOCH + server.elapsed()));
        let keep = cloud_controllers::node::ANNOTATIONS.into_iter().chain(["nephos/*"]);
        let cached = client(&server, "", &random, &mut registry);
        let cache_metrics = cache::Metrics::register(&mut registry);
        let nodes = Cache::new(cached, Scope::default(), trim::node(keep), random.clone(), &cache_metrics);
        let event_metrics = events::Metrics::register(&mut registry);
        let (events, writer) = events::recorder(
            "test",
            client(&server, "events", &random, &mut registry),
            clock.clone(),
            random.clone(),
            &event_metrics,
        );
        let stop = Shutdown::new();
        let (cached, stopping) = (nodes.clone(), stop.clone());
        let cache = tokio::spawn(async move { cached.run(&stopping).await });
        let stopping = stop.clone();
        let writing = tokio::spawn(async move { writer.run(&stopping, secs(1)).await });
        let running = vec![cache, writing];
        Self { server, world, registry, nodes, events, loader, clock, random, stop, running }
    }

    /// Ends the process in the middle of whatever it does, and starts another one, without controllers yet.
    pub(crate) fn crash(&mut self) {
        for task in self.running.drain(..) {
            task.abort();
        }
        self.stop.trigger();
        *self = Self::over(self.server.clone(), self.world.clone(), self.random.clone());
    }

    /// Waits until everything that was started has ended.
    pub(crate) async fn ended(&mut self) {
        for task in self.running.drain(..) {
            task.await.unwrap();
        }
    }

    /// Starts the node controller.
    pub(crate) fn start_node(&mut self, settings: node::Settings) {
        let parts = node::Parts {
            client: client(&self.server, "node", &self.random, &mut self.registry),
            nodes: self.nodes.clone(),
            lookup: Arc::new(self.loader.clone()),
            events: self.events.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            metrics: node::Metrics::register(&mut self.registry),
            queue_metrics: queue::Metrics::unregistered(),
            worker_metrics: worker::Metrics::unregistered(),
        };
        let (controller, stop) = (node::Controller::new(parts, settings), self.stop.clone());
        self.running.push(tokio::spawn(async move { controller.run(&stop, |_| ()).await }));
    }

    /// Starts the node lifecycle controller.
    pub(crate) fn start_lifecycle(&mut self, settings: node_lifecycle::Settings) {
        let parts = node_lifecycle::Parts {
            client: client(&self.server, "lifecycle", &self.random, &mut self.registry),
            nodes: self.nodes.clone(),
            lookup: Arc::new(self.loader.clone()),
            events: self.events.clone(),
            clock: self.clock.clone(),
            metrics: node_lifecycle::Metrics::register(&mut self.registry),
        };
        let (controller, stop) = (node_lifecycle::Controller::new(parts, settings), self.stop.clone());
        self.running.push(tokio::spawn(async move { controller.run(&stop).await }));
    }

    /// An instance with one address, named and numbered.
    pub(crate) fn machine(&self, name: &str, ip: &str) {
        self.world.add_machine(Machine::new(name).with_address("InternalIP", ip));
    }

    pub(crate) fn node(&self, name: &str) -> Option<Node> {
        self.server.get::<Node>("", name)
    }

    pub(crate) fn addresses(&self, name: &str) -> Vec<(String, String)> {
        let status = self.node(name).unwrap().status.unwrap_or_default();
        status.addresses.unwrap_or_default().into_iter().map(|each| (each.type_, each.address)).collect()
    }

    pub(crate) fn label(&self, name: &str, key: &str) -> Option<String> {
        self.node(name)?.metadata.labels?.get(key).cloned()
    }

    pub(crate) fn has_taint(&self, name: &str, key: &str) -> bool {
        let spec = self.node(name).and_then(|node| node.spec).unwrap_or_default();
        spec.taints.unwrap_or_default().iter().any(|taint| taint.key == key)
    }

    /// Type, reason and message of the Events about a Node, oldest first.
    pub(crate) fn events_about(&self, name: &str) -> Vec<(String, String, String)> {
        let mut events: Vec<Event> = self.server.list();
        events.retain(|event| event.involved_object.name.as_deref() == Some(name));
        events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
        let told = |event: Event| {
            (
                event.type_.unwrap_or_default(),
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        };
        events.into_iter().map(told).collect()
    }

    pub(crate) fn reasons(&self, name: &str) -> Vec<String> {
        self.events_about(name).into_iter().map(|(_, reason, _)| reason).collect()
    }

    /// The value of one line of the exposition.
    pub(crate) fn metric(&self, line: &str) -> Option<f64> {
        let text = controller_kit::metrics::encode(&self.registry).unwrap();
        text.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits, in virtual time, until something is so.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a self,
        within: Duration,
        what: &'a str,
        so: impl Fn(&Stage) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        let began = tokio::time::Instant::now();
        async move {
            while !so(self) {
                assert!(began.elapsed() <= within, "not within {within:?}: {what}\n{}", self.server.trace());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            began.elapsed()
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}
