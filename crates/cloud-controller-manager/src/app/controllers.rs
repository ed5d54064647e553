//! All controllers there are, as data: which names they answer to, what they need, and how each is begun.
//!
//! A new one is a row here, a file in `controllers/` that turns [`Means`] into its `Parts`, and a file in `options/`
//! with its flags.

use std::sync::Arc;

use cloud_controllers::around::{LeaseGate, Loader, Surrounded};
use cloud_provider::{Capability, Cloud, ClusterIdentity};
use controller_kit::cache::Cache;
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use controller_kit::lifecycle::Shutdown;
use controller_kit::metrics::Catalogue;
use controller_kit::random::Randomness;
use controller_kit::serve::health::{Checks, Scope};
use controller_kit::{queue, worker};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::Process;
use crate::config::{Config, Selection};
use crate::rbac::Right;

mod node;
mod node_ipam;
mod node_lifecycle;
mod route;
mod service;

/// Every controller, in the order in which they are begun.
pub const TABLE: &[Row] = &[node::ROW, node_lifecycle::ROW, service::ROW, node_ipam::ROW, route::ROW];

/// One controller.
pub struct Row {
    /// The canonical name: what `--controllers` and the leader migration say.
    pub name: &'static str,
    /// Older names of it.
    pub aliases: &'static [&'static str],
    /// Its name in `running_managed_controllers`.
    pub running_name: &'static str,
    /// Its client: the end of its user agent, and its service account with `--use-service-account-credentials`.
    pub client: &'static str,
    /// What the cloud has to be able to do.
    pub needs: Option<Capability>,
    /// What is cached for it.
    pub watches: &'static [Watched],
    /// The annotations of Nodes that it reads; others are not cached.
    pub node_annotations: &'static [&'static str],
    /// What it does to objects in the cluster, beyond watching them.
    pub rights: &'static [Right],
    /// The Events that it writes.
    pub events: &'static [EventKind],
    /// Registers its metric families and says how to begin it.
    pub prepare: fn(&mut Catalogue) -> Begin,
}

/// One reason for which Events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKind {
    /// The reason.
    pub reason: &'static str,
    /// Whether somebody should look.
    pub warning: bool,
    /// What kind of object it is about.
    pub about: &'static str,
    /// When it is written.
    pub when: &'static str,
}

impl EventKind {
    /// All is well.
    pub const fn normal(reason: &'static str, about: &'static str, when: &'static str) -> Self {
        Self { reason, warning: false, about, when }
    }

    /// Somebody should look.
    pub const fn warning(reason: &'static str, about: &'static str, when: &'static str) -> Self {
        Self { reason, warning: true, about, when }
    }
}

/// A kind of object that is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Nodes.
    Nodes,
    /// Services.
    Services,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Row({})", self.name)
    }
}

/// Begins a controller.
pub type Begin = Box<dyn FnOnce(Means) -> anyhow::Result<Begun> + Send>;

/// What came of it.
pub enum Begun {
    /// It works until [`Means::stop`] is triggered.
    Running(BoxFuture<'static, ()>),
    /// It has nothing to do with this configuration.
    Skipped(String),
}

/// What a controller works with.
pub struct Means {
    /// What the flags said.
    pub config: Arc<Config>,
    /// Its own client.
    pub client: kube::Client,
    /// The Nodes.
    pub nodes: Cache<Node>,
    /// The Services; filled if some row watches them.
    pub services: Cache<Service>,
    /// The pods behind the Services; filled if the cloud's load balancers ask for them.
    pub slices: Cache<EndpointSlice>,
    /// The cloud, surrounded: take a handle for each urgency with [`Surrounded::cloud`].
    pub cloud: Surrounded,
    /// How instances are looked up, shared by all; `None` if the cloud has none.
    pub loader: Option<Loader>,
    /// Where ways to change the cloud come from.
    pub gate: LeaseGate,
    /// Which cluster this is.
    pub cluster: ClusterIdentity,
    /// Where it tells what happened.
    pub events: Recorder,
    /// The time of day.
    pub clock: SharedClock,
    /// Where jitter comes from.
    pub random: Randomness,
    /// The families of all queues.
    pub queue_metrics: queue::Metrics,
    /// The families of all workers.
    pub worker_metrics: worker::Metrics,
    /// Where it is asked how it is.
    pub health: Health,
    /// When to end.
    pub stop: Shutdown,
}

/// One controller's entry among the health checks: passing until it says what to ask.
#[derive(Debug, Clone)]
pub struct Health {
    name: &'static str,
    checks: Checks,
}

impl Health {
    pub(super) fn new(name: &'static str, checks: Checks) -> Self {
        checks.add(Scope::Live, name, || Ok(()));
        Self { name, checks }
    }

    /// From now on its workers are asked.
    pub fn ask(&self, workers: worker::Health) {
        self.checks.add(Scope::Live, self.name, workers);
    }
}

/// A controller that is enabled and whose families are registered.
pub(crate) struct Prepared {
    pub(super) row: &'static Row,
    pub(super) begin: Begin,
}

/// Prepares those that are enabled. The families of the others are registered too, so that dashboards find them.
pub(super) fn prepare(selection: &Selection, metrics: &mut Catalogue) -> Vec<Prepared> {
    let all = TABLE.iter().map(|row| Prepared { row, begin: (row.prepare)(metrics) });
    let all: Vec<_> = all.collect();
    all.into_iter().filter(|each| selection.enables(each.row.name)).collect()
}

/// Whether one of these controllers is to know the pods behind Services: the cloud's load balancers ask for them.
pub(super) fn need_endpoints(controllers: &[Prepared], cloud: &Cloud) -> bool {
    let asks = || cloud.load_balancers.as_ref().is_some_and(|slot| slot.describe().endpoints);
    controllers.iter().any(|each| each.row.needs == Some(Capability::LoadBalancers)) && asks()
}

/// Those for which the cloud has what they need; the log says which do not run, and why.
pub(super) fn fitting(prepared: Vec<Prepared>, cloud: &Cloud, process: &Process) -> Vec<Prepared> {
    for row in TABLE.iter().filter(|row| !process.config.controllers.enables(row.name)) {
        tracing::warn!(controller = row.name, "{:?} is disabled", row.name);
        process.families.does_not_run(row.name, "disabled");
    }
    let mut fitting = Vec::new();
    for controller in prepared {
        match controller.row.needs.filter(|needed| !cloud.can(*needed)) {
            None => fitting.push(controller),
            Some(missing) => {
                let name = controller.row.name;
                tracing::warn!(controller = name, "Skipping {name:?}: {}", missing.missing());
                process.families.does_not_run(name, "unsupported");
            }
        }
    }
    fitting
}
