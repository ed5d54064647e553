//! Where a check is played: a fresh cloud, the provider built against it for one cluster, and everything that the
//! provider was handed, as recorders.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cloud_provider::load_balancer::{Description, Feature, LoadBalancers};
use cloud_provider::{
    Capability, Cloud, CloudConfig, ClusterId, ClusterIdentity, Context, Error, Instances, Routes, Volumes,
};

use super::Time;
use super::check::{MustSucceed, Stop, skip};
use super::context::{Ending, Events, Leader, Measurements, Mode, Nodes, RecordingGate, Services, TestClock};
use super::stand_in::{Contents, Count, Manners, StandIn};

/// The identity of the cluster that the checks are about.
pub(super) const OURS: &str = "5f1d7a52-0c0e-4a7e-8a53-6f0f4b6c9d10";
/// The identity of another cluster in the same account.
pub(super) const THEIRS: &str = "c2a9e7d4-91b3-4f9e-b6a2-2d8f5e0b7a44";

/// A provider over its stand-in, with all that it was handed.
pub struct Stage {
    /// The cloud.
    pub stand_in: Arc<dyn StandIn>,
    /// The cluster that the provider was built for.
    pub cluster: ClusterIdentity,
    /// The provider.
    pub cloud: Cloud,
    /// The gate before every change.
    pub gate: RecordingGate,
    /// Whether this process leads.
    pub leader: Arc<Leader>,
    /// The end of this process.
    pub ending: Ending,
    /// The Nodes that the provider sees.
    pub nodes: Arc<Nodes>,
    /// The Services that the provider sees.
    pub services: Arc<Services>,
    /// The Events that it recorded.
    pub events: Arc<Events>,
    /// What it measured.
    pub measurements: Arc<Measurements>,
    /// Calls that earlier stages of the same check made.
    before: Arc<Mutex<Count>>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stage({:?} over {})", self.cloud, self.stand_in.title())
    }
}

impl Stage {
    /// Empties the cloud and builds the provider as the leader of our cluster.
    pub(super) async fn set(stand_in: Arc<dyn StandIn>, manners: Manners) -> Result<Self, Stop> {
        stand_in.reset(manners).await?;
        Self::build(stand_in, OURS, true).await
    }

    /// The same once more, in an empty cloud.
    pub(super) async fn afresh(&self) -> Result<Self, Stop> {
        self.among(Manners::default()).await
    }

    /// The same once more, in an empty cloud of other manners.
    pub(super) async fn among(&self, manners: Manners) -> Result<Self, Stop> {
        let spent = self.spent().await;
        let mut stage = Self::set(Arc::clone(&self.stand_in), manners).await?;
        stage.before = Arc::clone(&self.before);
        *stage.before.lock().unwrap_or_else(PoisonError::into_inner) = spent;
        Ok(stage)
    }

    /// How many calls reached the cloud in the whole check.
    pub(super) async fn spent(&self) -> Count {
        let now = self.calls().await;
        let before = *self.before.lock().unwrap_or_else(PoisonError::into_inner);
        Count { reads: before.reads + now.reads, writes: before.writes + now.writes }
    }

    /// Another cluster of the same name in the same cloud.
    pub(super) async fn neighbour(&self) -> Result<Self, Stop> {
        Self::build(Arc::clone(&self.stand_in), THEIRS, true).await
    }

    /// A standby of our cluster in the same cloud.
    pub(super) async fn standby(&self) -> Result<Self, Stop> {
        Self::build(Arc::clone(&self.stand_in), OURS, false).await
    }

    /// The same cluster in the same cloud, as after a restart.
    pub(super) async fn restarted(&self) -> Result<Self, Stop> {
        Self::build(Arc::clone(&self.stand_in), OURS, true).await
    }

    /// Builds the provider with this config, which need not be a good one.
    pub(super) async fn build_with(&self, config: CloudConfig) -> Result<Cloud, Error> {
        let context = Context::inert().with_cluster(self.cluster.clone()).with_config(Some(config));
        self.stand_in.build(context).await
    }

    async fn build(stand_in: Arc<dyn StandIn>, cluster: &str, leads: bool) -> Result<Self, Stop> {
        let cluster =
            ClusterIdentity::new(ClusterIdentity::DEFAULT_NAME, ClusterId::NamespaceUid(cluster.to_owned()));
        let mut stage = Self {
            stand_in,
            cluster,
            cloud: Cloud::new("unbuilt"),
            gate: RecordingGate::new(Mode::Open),
            leader: Arc::new(Leader::new(leads)),
            ending: Ending::default(),
            nodes: Arc::default(),
            services: Arc::default(),
            events: Arc::default(),
            measurements: Arc::default(),
            before: Arc::default(),
        };
        stage.cloud = stage.stand_in.build(stage.context()).await.must("building the provider")?;
        Ok(stage)
    }

    fn context(&self) -> Context {
        let mut context =
            Context::inert().with_cluster(self.cluster.clone()).with_config(self.stand_in.config());
        context.nodes = Arc::clone(&self.nodes) as _;
        context.services = Arc::clone(&self.services) as _;
        context.events = Arc::clone(&self.events) as _;
        context.metrics = Arc::clone(&self.measurements) as _;
        context.leadership = Arc::clone(&self.leader) as _;
        context.shutdown = Arc::new(self.ending.clone());
        context.clock = Arc::new(TestClock::new());
        context
    }

    /// How long a call may take before the suite gives it up.
    pub(super) fn patience(&self) -> Duration {
        match self.stand_in.time() {
            Time::Virtual => Duration::from_secs(3600),
            Time::Real => Duration::from_secs(10),
        }
    }

    /// What is in the cloud.
    pub(super) async fn contents(&self) -> Result<Contents, Stop> {
        Ok(self.stand_in.contents().await?)
    }

    /// How many calls have reached the cloud.
    pub(super) async fn calls(&self) -> Count {
        self.stand_in.calls().await
    }

    /// The slot for instances, or a visible skip.
    pub(super) fn instances(&self) -> Result<&dyn Instances, Stop> {
        self.cloud.instances.as_deref().map_or_else(|| undeclared(Capability::Instances), Ok)
    }

    /// The slot for load balancers, or a visible skip.
    pub(super) fn balancers(&self) -> Result<&dyn LoadBalancers, Stop> {
        self.cloud.load_balancers.as_deref().map_or_else(|| undeclared(Capability::LoadBalancers), Ok)
    }

    /// The slot for routes, or a visible skip.
    pub(super) fn routes(&self) -> Result<&dyn Routes, Stop> {
        self.cloud.routes.as_deref().map_or_else(|| undeclared(Capability::Routes), Ok)
    }

    /// The slot for volumes, or a visible skip.
    pub(super) fn volumes(&self) -> Result<&dyn Volumes, Stop> {
        self.cloud.volumes.as_deref().map_or_else(|| undeclared(Capability::Volumes), Ok)
    }

    /// What the balancers are described as, if they have this feature; else a visible skip.
    pub(super) fn with_feature(&self, feature: Feature) -> Result<Description, Stop> {
        let description = self.balancers()?.describe();
        if description.features.contains(&feature) {
            Ok(description)
        } else {
            skip(format!("the provider does not declare {feature}"))
        }
    }
}

fn undeclared<T>(capability: Capability) -> Result<T, Stop> {
    skip(capability.missing())
}
