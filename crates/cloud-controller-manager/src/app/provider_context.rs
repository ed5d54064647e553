//! What a provider is handed: the contract's small traits, on this process' clock, lease and signals.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::{BoxFuture, Clock, Leadership as MayAct, Shutdown as End};
use cloud_provider::{ClusterIdentity, Context};
use controller_kit::clock::SharedClock;
use controller_kit::leader::Leadership;
use controller_kit::lifecycle::Shutdown;
use tokio::time::Instant;

/// What this process has to offer a provider.
pub(super) struct Surroundings {
    cluster: ClusterIdentity,
    time: Arc<Time>,
    end: Arc<Stop>,
    lead: Arc<Lead>,
}

impl Surroundings {
    pub(super) fn new(
        cluster: ClusterIdentity,
        wall: SharedClock,
        shutdown: Shutdown,
        leadership: Leadership,
    ) -> Self {
        Self {
            cluster,
            time: Arc::new(Time { wall, started: Instant::now() }),
            end: Arc::new(Stop(shutdown)),
            lead: Arc::new(Lead { leadership, led: Shutdown::new() }),
        }
    }

    /// The context for one build of the provider.
    pub(super) fn context(&self) -> Context {
        let mut context = Context::inert().with_cluster(self.cluster.clone());
        context.clock = Arc::clone(&self.time) as _;
        context.shutdown = Arc::clone(&self.end) as _;
        context.leadership = Arc::clone(&self.lead) as _;
        context
    }

    /// Wakes what a provider has waiting for its turn.
    pub(super) fn announce_leadership(&self) {
        self.lead.led.trigger();
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
