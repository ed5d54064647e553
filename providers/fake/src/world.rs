//! The cloud itself, in this process: its contents, its manners and its memory of who did what.
//!
//! A [`World`] is one account of the cloud. Clients [connect](World::connect) to it and call the [`Api`]; tests also use the
//! [back door](World#back-door). Everything random comes from the configured seed, everything timed from the clock that it is
//! given, so that the same calls give the same log, in virtual time or real.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::context::{Clock, Context};
use cloud_provider::{Cloud, ClusterIdentity};

use crate::api::Api;
use crate::config::Config;
use crate::provider::{self, ProviderSettings};

mod back_door;
mod bucket;
mod call;
mod contents;
mod ledger;
mod rules;
mod session;
mod shelf;
mod trouble;

pub use call::Warrant;
pub use contents::Contents;
pub use ledger::{Call, Counters, Rule, Violation};
pub use session::Session;

use bucket::Bucket;
use contents::Stock;
use ledger::Ledger;
use trouble::Trouble;

/// One account of the fake cloud. Cheap to clone: all clones are the same account.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    clock: Arc<dyn Clock>,
    started: Duration,
    state: Mutex<State>,
    listener: Mutex<Option<Listener>>,
}

/// Told of each call as it comes.
type Listener = Arc<dyn Fn(&Call) + Send + Sync>;

/// All that changes.
struct State {
    stock: Stock,
    trouble: Trouble,
    bucket: Option<Bucket>,
    ledger: Ledger,
}

impl World {
    /// A cloud that behaves as configured. Its age begins now, on this clock.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Self {
        let started = clock.monotonic();
        let state = State {
            stock: Stock::new(&config),
            trouble: Trouble::new(config.seed, config.faults.clone()),
            bucket: config.rate_limit.map(Bucket::new),
            ledger: Ledger::new(config.log_calls),
        };
        Self {
            shared: Arc::new(Shared {
                config,
                clock,
                started,
                state: Mutex::new(state),
                listener: Mutex::default(),
            }),
        }
    }

    /// How it was configured.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The API, as this cluster's credential sees it. The cloud notes which cluster makes which change.
    pub fn connect(&self, cluster: &ClusterIdentity) -> Arc<dyn Api> {
        Arc::new(self.session(cluster.id().map_or("", |id| id.as_str())))
    }

    /// The same by the cluster's ID alone; the empty one is a cluster that does not know itself.
    pub fn session(&self, cluster: impl Into<String>) -> Session {
        Session::new(self.clone(), cluster.into())
    }

    /// The provider over this cloud, for the context's cluster.
    pub fn cloud(&self, context: &Context) -> Cloud {
        let settings = ProviderSettings::from(&self.shared.config);
        provider::cloud_over(self.connect(&context.cluster), context, settings)
    }

    /// How old this world is.
    pub fn age(&self) -> Duration {
        self.shared.clock.monotonic().saturating_sub(self.shared.started)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held is a bug of ours that its own test shows; the cloud goes on.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
