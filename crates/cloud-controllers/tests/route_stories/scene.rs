//! A cluster with pod networks in a cloud with a route table.

use std::sync::Arc;
use std::time::Duration;

use cloud_controllers::around::{
    Budget, Deadlines, DecisionLog, LeaseGate, Metrics as CallMetrics, budget, gate, surround,
};
use cloud_controllers::pod_networks::PodNetworks;
use cloud_controllers::route::{Controller, Metrics, Parts, Settings, Slots};
use cloud_provider::context::NodeReader;
use cloud_provider::{ClusterId, ClusterIdentity, Context};
use controller_kit::cache::{Cache, Key};
use controller_kit::leader::Leadership;
use controller_kit::{queue, worker};
use k8s_openapi::api::core::v1::Node;
use provider_fake::objects::{RouteEntry, Tags};
use provider_fake::{Config, Operation};
use testkit::node;
use tokio::task::JoinHandle;

use crate::stage::{Stage, strict};

pub(crate) const CLUSTER: &str = "uid-1";

/// What a provider sees of the Nodes.
struct Reader(Cache<Node>);

impl NodeReader for Reader {
    fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.0.get(&Key::cluster(name))
    }

    fn list(&self) -> Vec<Arc<Node>> {
        self.0.list()
    }

    fn is_synced(&self) -> bool {
        self.0.is_synced()
    }
}

/// A running controller; it crashes when it is dropped.
pub(crate) struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The networks of all stories.
pub(crate) fn config() -> Config {
    let pod_networks = ["10.244.0.0/16", "fd00:10::/48"].map(|network| network.parse().unwrap()).to_vec();
    Config { pod_networks, page_size: 5000, ..strict() }
}

pub(crate) fn stage() -> Stage {
    Stage::new(1, config())
}

pub(crate) fn start(stage: &Stage) -> Running {
    start_as(stage, Leadership::unconditional(), gate::Mode::Act, Metrics::unregistered())
}

pub(crate) fn start_as(stage: &Stage, leadership: Leadership, mode: gate::Mode, metrics: Metrics) -> Running {
    let calls = CallMetrics::unregistered();
    let cluster = ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid(CLUSTER.into()));
    let mut context = Context::inert().with_cluster(cluster.clone());
    context.nodes = Arc::new(Reader(stage.nodes.clone()));
    let cloud = stage.world.cloud(&context);
    let budget = Budget::new(&cloud.name, budget::Settings::default(), &calls);
    let surrounded = surround(cloud, budget, Deadlines::default(), &calls);
    let log = DecisionLog::new(stage.clock.clone());
    let parts = Parts {
        client: stage.server.client_as("route"),
        nodes: stage.nodes.clone(),
        routes: Slots::of(&surrounded).unwrap(),
        gate: LeaseGate::new("fake", leadership, mode, log, &calls),
        cluster,
        networks: PodNetworks::parse("10.244.0.0/16,fd00:10::/48").unwrap(),
        events: stage.events.clone(),
        clock: stage.clock.clone(),
        metrics,
        queue_metrics: queue::Metrics::unregistered(),
        worker_metrics: worker::Metrics::unregistered(),
    };
    let (controller, stop) = (Controller::new(parts, Settings::default()), stage.stop.clone());
    Running(tokio::spawn(async move { controller.run(&stop, |_| ()).await }))
}

/// A Node with one pod CIDR, by number.
pub(crate) fn numbered(number: usize) -> Node {
    let cidr = format!("10.244.{}.0/24", number % 256);
    node(&format!("n{number}")).internal_ip(&format!("10.0.0.{}", number % 250 + 1)).pod_cidr(&cidr).build()
}

/// Status and reason of the condition.
pub(crate) fn condition(stage: &Stage, name: &str) -> Option<(String, String)> {
    let conditions = stage.node(name)?.status?.conditions?;
    let found = conditions.into_iter().find(|each| each.type_ == "NetworkUnavailable")?;
    Some((found.status, found.reason.unwrap_or_default()))
}

pub(crate) fn is_reached(stage: &Stage, name: &str) -> bool {
    condition(stage, name) == Some(("False".into(), "RouteCreated".into()))
}

pub(crate) fn is_unreached(stage: &Stage, name: &str) -> bool {
    condition(stage, name) == Some(("True".into(), "NoRouteCreated".into()))
}

/// The routes that exist, as `destination node`.
pub(crate) fn routes(stage: &Stage) -> Vec<String> {
    let shown =
        |route: &RouteEntry| format!("{} {}", route.destination, route.node.as_deref().unwrap_or("*"));
    let mut all: Vec<String> = stage.world.contents().routes.iter().map(shown).collect();
    all.sort();
    all
}

/// How often the whole table was listed since this age of the world.
pub(crate) fn lists(stage: &Stage, since: Duration) -> usize {
    let whole = |call: &provider_fake::world::Call| {
        call.operation == Operation::ListRoutes && call.object.is_empty() && call.at >= since
    };
    stage.world.calls().iter().filter(|call| whole(call)).count()
}

/// How many routes were made and removed, or tried to be.
pub(crate) fn changes(stage: &Stage) -> (u64, u64) {
    let counters = stage.world.counters();
    (counters.of(Operation::CreateRoute), counters.of(Operation::DeleteRoute))
}

/// A route that is there already.
pub(crate) fn planted(name: &str, target: &str, cidr: &str, tag: Option<&str>) -> RouteEntry {
    let tag = tag.map(|tag| (cloud_provider::ownership::CLUSTER_TAG.to_owned(), tag.to_owned()));
    RouteEntry {
        id: String::new(),
        name: name.to_owned(),
        destination: cidr.parse().unwrap(),
        node: (target != "*").then(|| target.to_owned()),
        addresses: Vec::new(),
        blackhole: false,
        tags: tag.into_iter().collect::<Tags>(),
    }
}
