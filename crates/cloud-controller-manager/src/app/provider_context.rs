//! What a provider is handed: the contract's small traits, on this process' clock, lease and signals.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::{
    BoxFuture, Clock, EventSink, EventType, Leadership as MayAct, Shutdown as End, Subject,
};
use cloud_provider::{ClusterIdentity, Context};
use controller_kit::clock::{SharedClock, SystemClock};
use controller_kit::events::{Kind, Recorder};
use controller_kit::leader::Leadership;
use controller_kit::lifecycle::Shutdown;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::Process;
use super::caches::{Caches, Nodes, Services};
use super::provider_metrics::ProviderMetrics;
use super::wire::Wire;

/// What this process has to offer a provider.
pub(super) struct Surroundings {
    cluster: ClusterIdentity,
    voice: Arc<Voice>,
    time: Arc<Time>,
    lead: Arc<Lead>,
    nodes: Arc<Nodes>,
    services: Arc<Services>,
    transport: Arc<Wire>,
    metrics: Arc<ProviderMetrics>,
}

impl Surroundings {
    pub(super) fn new(
        cluster: ClusterIdentity,
        process: &Process,
        caches: &Caches,
        leadership: Leadership,
    ) -> Self {
        Self {
            cluster,
            nodes: Arc::new(Nodes(caches.nodes.clone())),
            services: Arc::new(Services(caches.services.clone())),
            transport: Arc::new(Wire::new()),
            metrics: Arc::new(process.provider_metrics.clone()),
            voice: Arc::new(Voice(process.events.clone())),
            time: Arc::new(Time { wall: Arc::clone(&process.clock), started: Instant::now() }),
            lead: Arc::new(Lead { leadership, led: Shutdown::new() }),
        }
    }

    /// The context for one build of the provider, whose background work `end` ends.
    pub(super) fn context(&self, end: &Shutdown) -> Context {
        let mut context = Context::inert().with_cluster(self.cluster.clone());
        context.events = Arc::clone(&self.voice) as _;
        context.clock = Arc::clone(&self.time) as _;
        context.shutdown = Arc::new(Stop(end.clone()));
        context.leadership = Arc::clone(&self.lead) as _;
        context.nodes = Arc::clone(&self.nodes) as _;
        context.services = Arc::clone(&self.services) as _;
        context.transport = Arc::clone(&self.transport) as _;
        context.metrics = Arc::clone(&self.metrics) as _;
        context
    }

    /// Wakes what a provider has waiting for its turn.
    pub(super) fn announce_leadership(&self) {
        self.lead.led.trigger();
    }
}

/// A context for a cloud that is only asked what it can do: it can be reached, it has the time, and it never leads.
pub(crate) fn bare() -> Context {
    let mut context = Context::inert();
    context.clock = Arc::new(Time { wall: Arc::new(SystemClock), started: Instant::now() });
    context.transport = Arc::new(Wire::new());
    context
}

struct Voice(Recorder);

impl EventSink for Voice {
    fn record(&self, subject: &Subject, type_: EventType, reason: &str, message: &str) {
        let kind = match type_ {
            EventType::Normal => Kind::Normal,
            EventType::Warning => Kind::Warning,
        };
        self.0.record(&reference(subject), kind, reason, message);
    }
}

fn reference(subject: &Subject) -> ObjectReference {
    let (kind, namespace, name, uid) = match subject {
        Subject::Node { name, uid } => ("Node", None, name, uid),
        Subject::Service { namespace, name, uid } => ("Service", Some(namespace.clone()), name, uid),
    };
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        namespace,
        name: Some(name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    }
}

struct Time {
    wall: SharedClock,
    started: Instant,
}

impl Clock for Time {
    fn wall(&self) -> k8s_openapi::jiff::Timestamp {
        self.wall.now()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

struct Stop(Shutdown);

impl End for Stop {
    fn is_requested(&self) -> bool {
        self.0.is_triggered()
    }

    fn requested(&self) -> BoxFuture<()> {
        let shutdown = self.0.clone();
        Box::pin(async move { shutdown.wait().await })
    }
}

struct Lead {
    leadership: Leadership,
    /// Triggered, once and for good, when this process begins to lead.
    led: Shutdown,
}

impl MayAct for Lead {
    fn may_act(&self) -> bool {
        self.leadership.may_write()
    }

    fn leads(&self) -> BoxFuture<()> {
        let led = self.led.clone();
        Box::pin(async move { led.wait().await })
    }
}
