//! Everything that a provider may ask of the framework, handed to it once, when it is built.
//!
//! The traits here are small and need no runtime: the manager implements them on its own, tests on virtual time. A
//! [`Context`] made by [`Context::inert`] has safe nothings everywhere (it never leads, its transport refuses), so that
//! a test fills in only what it is about.

use std::fmt;
use std::sync::Arc;

use crate::cluster::ClusterIdentity;
use crate::config::CloudConfig;

mod clock;
mod events;
mod inert;
mod leadership;
mod metrics;
mod readers;
mod shutdown;
mod transport;

pub use clock::Clock;
pub use events::{EventSink, EventType, Subject};
pub use leadership::Leadership;
pub use metrics::{Family, MetricType, Metrics};
pub use readers::{NodeReader, ServiceReader};
pub use shutdown::Shutdown;
pub use transport::{Access, Transport, TransportError};

/// A future that can be sent to another thread.
pub type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What a provider is given when it is built. Background work that it starts ends when [`Context::shutdown`] says so.
#[derive(Clone)]
#[non_exhaustive]
pub struct Context {
    /// The cloud config file; `None` if no `--cloud-config` was given.
    pub config: Option<CloudConfig>,
    /// Which cluster this is.
    pub cluster: ClusterIdentity,
    /// The Nodes, as the caches have them.
    pub nodes: Arc<dyn NodeReader>,
    /// The Services, as the caches have them.
    pub services: Arc<dyn ServiceReader>,
    /// Where Events go.
    pub events: Arc<dyn EventSink>,
    /// How to reach the cloud over HTTP.
    pub transport: Arc<dyn Transport>,
    /// What time it is, and how to wait.
    pub clock: Arc<dyn Clock>,
    /// When to end.
    pub shutdown: Arc<dyn Shutdown>,
    /// Whether this process may act. Standbys build their provider too, and must stay silent.
    pub leadership: Arc<dyn Leadership>,
    /// Where counts go.
    pub metrics: Arc<dyn Metrics>,
}

impl Context {
    /// A context of safe nothings: no config, an unidentified cluster, empty readers, a transport that refuses, a
    /// clock that stands still, and no leadership.
    pub fn inert() -> Self {
        Self {
            config: None,
            cluster: ClusterIdentity::default(),
            nodes: Arc::new(inert::Nothing),
            services: Arc::new(inert::Nothing),
            events: Arc::new(inert::Nothing),
            transport: Arc::new(inert::Nothing),
            clock: Arc::new(inert::Nothing),
            shutdown: Arc::new(inert::Nothing),
            leadership: Arc::new(inert::Nothing),
            metrics: Arc::new(inert::Nothing),
        }
    }

    /// Hands in the cloud config.
    #[must_use]
    pub fn with_config(mut self, config: Option<CloudConfig>) -> Self {
        self.config = config;
        self
    }

    /// Says which cluster this is.
    #[must_use]
    pub fn with_cluster(mut self, cluster: ClusterIdentity) -> Self {
        self.cluster = cluster;
        self
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(cluster {}, config {:?})", self.cluster.name(), self.config)
    }
}
