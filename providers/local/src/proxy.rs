//! The data plane `proxy`: layer 4 in user space, for machines where nothing more is allowed or needed.
//!
//! In reading order: [`Proxy`] carries an intent out; a balancer has listeners and groups of backends; `tcp` and `udp`
//! move the bytes; `reach`, `choose`, `affinity` and `health` say where to. [`Keeper`] holds the intent in force and keeps it on
//! disk; `server` and [`Client`] are its two ends of a unix socket; [`command`] is the process around it all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::health;
use crate::intent::status::Status;
use crate::intent::{Change, Intent, Uid, plan};

mod activity;
mod affinity;
mod backend;
mod balancer;
mod buffers;
pub(crate) mod choose;
mod client;
pub mod command;
mod group;
pub(crate) mod header;
mod keeper;
mod listen;
mod metrics;
mod reach;
mod relay;
mod scope;
mod server;
pub(crate) mod socket;
mod tcp;
mod udp;
mod wire;

use self::balancer::Balancer;
use self::buffers::Buffers;
use self::scope::Names;

pub use self::client::{Client, FeedError};
pub use self::keeper::Keeper;
pub use self::server::Server;

/// What forwards. Everything it does for an intent ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    /// Held over a whole change, so that changes come one after another.
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug)]
struct State {
    intent: Intent,
    balancers: BTreeMap<Uid, Balancer>,
}

/// What all balancers share.
#[derive(Debug)]
struct Shared {
    buffers: Buffers,
    /// Limits the questions to backends in flight.
    questions: Arc<Semaphore>,
    /// Every TCP connection.
    connections: TaskTracker,
    /// Ends everything.
    closed: CancellationToken,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            buffers: Buffers::default(),
            questions: Arc::new(Semaphore::new(health::AT_ONCE)),
            connections: TaskTracker::new(),
            closed: CancellationToken::new(),
        }
    }
}

impl Proxy {
    /// A proxy that serves nothing.
    pub fn new() -> Self {
        let state = State { intent: Intent::empty(), balancers: BTreeMap::new() };
        Self { shared: Arc::default(), state: tokio::sync::Mutex::new(state) }
    }

    /// Carries an intent out, whole. What stays the same is not touched; connections to backends that stay go on. An
    /// address that cannot be opened is told by [`status`](Self::status) and tried again.
    pub async fn apply(&self, intent: Intent) {
        let mut state = self.state.lock().await;
        for change in plan(&state.intent, &intent) {
            self.carry_out(change, &mut state.balancers).await;
        }
        state.intent = intent;
    }

    async fn carry_out(&self, change: Change, balancers: &mut BTreeMap<Uid, Balancer>) {
        let uid = change.uid().clone();
        match change {
            Change::Add(_, wanted) => {
                balancers.insert(uid, Balancer::open(Arc::unwrap_or_clone(wanted), Arc::clone(&self.shared)));
            }
            Change::Remove(_) => {
                if let Some(balancer) = balancers.remove(&uid) {
                    balancer.close().await;
                }
            }
            change => {
                if let Some(balancer) = balancers.get_mut(&uid) {
                    alter(balancer, change).await;
                }
            }
        }
    }

    /// What of the intent is true.
    pub async fn status(&self) -> Status {
        let state = self.state.lock().await;
        let balancers =
            state.balancers.iter().map(|(uid, balancer)| (uid.clone(), balancer.status())).collect();
        Status { revision: state.intent.revision, balancers }
    }

    /// The counters, in the text format of Prometheus.
    pub async fn metrics(&self) -> String {
        let state = self.state.lock().await;
        metrics::render(state.balancers.values())
    }

    /// Takes no new client, lets those who are here finish for at most `grace`, and ends.
    pub async fn stop(&self, grace: Duration) {
        let mut state = self.state.lock().await;
        for balancer in state.balancers.values_mut() {
            balancer.stop_listening().await;
        }
        self.shared.connections.close();
        let _ = tokio::time::timeout(grace, self.shared.connections.wait()).await;
        self.shared.closed.cancel();
        self.shared.connections.wait().await;
    }
}

/// A change within a balancer that stays.
async fn alter(balancer: &mut Balancer, change: Change) {
    match change {
        // These two are about the balancer as a whole.
        Change::Add(..) | Change::Remove(_) => {}
        Change::Rename { namespace, name, .. } => balancer.scope.rename(Names { namespace, name }),
        Change::AddAddress(_, address) => balancer.add_address(address),
        Change::RemoveAddress(_, address) => balancer.remove_address(address).await,
        Change::AddPort(_, key, port) => balancer.add_port(key, port),
        Change::RemovePort(_, key) => balancer.remove_port(key).await,
        Change::Deliver(_, key, delivery) => balancer.deliver(key, delivery).await,
        Change::AddBackend(_, key, backend) => balancer.add_backend(key, backend),
        Change::UpdateBackend(_, key, backend) => balancer.update_backend(key, backend),
        Change::RemoveBackend(_, key, backend) => balancer.remove_backend(key, backend.socket()),
        Change::Configure(_, settings) => balancer.configure(*settings),
    }
}

impl Default for Proxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

/// Locks, also after a panic elsewhere: the values here are whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
