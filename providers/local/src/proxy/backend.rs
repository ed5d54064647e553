//! A backend as it is now: its health, what it carries, and the wire that ends its connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::lock;
use super::scope::Scope;
use crate::health::Patient;
use crate::intent;
use crate::intent::status::Health;

/// How long a backend that did not take a connection is passed over, unless a check says otherwise before.
const SUSPICION: Duration = Duration::from_secs(2);
/// How long a backend whose answers to clients were lost is reached from the machine's own address before the clients'
/// is tried again.
const LOST: Duration = Duration::from_secs(60);

/// One backend of one port of one balancer, for as long as it has connections.
#[derive(Debug)]
pub(super) struct Backend {
    socket: SocketAddr,
    wanted: Mutex<intent::Backend>,
    condition: Mutex<Condition>,
    /// Wakes the health check before its time.
    pub(super) doubt: Notify,
    /// Ends every connection of this backend.
    pub(super) cut: CancellationToken,
    draining: AtomicBool,
    active: AtomicU64,
    connections: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug)]
struct Condition {
    health: Health,
    suspect_until: Option<Instant>,
    /// Its answers to the clients' own addresses do not come back through this machine.
    lost_until: Option<Instant>,
}

/// How good a choice a backend is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It serves, or nothing is known against it.
    Good,
    /// Its check has not answered yet.
    Unknown,
    /// It did not take a connection a moment ago.
    Suspect,
    /// Its check says that it does not serve.
    Unhealthy,
}

/// A connection's claim on a backend: counted from the choice until it is dropped.
#[derive(Debug)]
pub(super) struct Claim(Arc<Backend>);

impl Backend {
    /// A new backend; `cut` ends its connections.
    pub(super) fn new(wanted: intent::Backend, health: Health, cut: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            socket: wanted.socket(),
            wanted: Mutex::new(wanted),
            condition: Mutex::new(Condition { health, suspect_until: None, lost_until: None }),
            doubt: Notify::new(),
            cut,
            draining: AtomicBool::new(false),
            active: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// Its address and port.
    pub(super) fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// As the intent has it.
    pub(super) fn wanted(&self) -> intent::Backend {
        lock(&self.wanted).clone()
    }

    /// Its share.
    pub(super) fn weight(&self) -> u16 {
        lock(&self.wanted).weight
    }

    /// Takes a new weight or node name.
    pub(super) fn update(&self, wanted: intent::Backend) {
        *lock(&self.wanted) = wanted;
    }

    /// What its check says.
    pub(super) fn health(&self) -> Health {
        lock(&self.condition).health.clone()
    }

    /// Takes the word of its check. Tells whether that is news.
    pub(super) fn judge(&self, health: Health) -> bool {
        let mut condition = lock(&self.condition);
        if matches!(health, Health::Healthy | Health::Unchecked) {
            condition.suspect_until = None;
        }
        let news = std::mem::discriminant(&condition.health) != std::mem::discriminant(&health);
        condition.health = health;
        news
    }

    /// How good a choice it is.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        let condition = lock(&self.condition);
        match condition.health {
            Health::Unhealthy { .. } => Standing::Unhealthy,
            _ if condition.suspect_until.is_some_and(|until| now < until) => Standing::Suspect,
            Health::Unknown => Standing::Unknown,
            Health::Healthy | Health::Unchecked => Standing::Good,
        }
    }

    /// It did not take a connection: pass it over for a moment and have it checked now.
    pub(super) fn suspect(&self, now: Instant) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        lock(&self.condition).suspect_until = Some(now + SUSPICION);
        self.doubt.notify_one();
    }

    /// It took a connection.
    pub(super) fn trust(&self) {
        let mut condition = lock(&self.condition);
        condition.suspect_until = None;
    }

    /// Its answers to a client's own address did not come back.
    pub(super) fn loses_answers(&self, now: Instant) {
        lock(&self.condition).lost_until = Some(now + LOST);
    }

    /// Whether that was so a moment ago.
    pub(super) fn lost_answers(&self, now: Instant) -> bool {
        lock(&self.condition).lost_until.is_some_and(|until| now < until)
    }

    /// Whether it left the intent, and only keeps what it has.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Leaves the intent, or comes back to it.
    pub(super) fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// The connections that it has.
    pub(super) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// The connections that it ever was chosen for.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The connections that it did not take.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Counts a connection from now until the claim is dropped.
    pub(super) fn claim(self: &Arc<Self>) -> Claim {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
        Claim(Arc::clone(self))
    }
}

/// A backend as its health check sees it.
#[derive(Debug)]
pub(super) struct Asked {
    /// The backend.
    pub(super) backend: Arc<Backend>,
    /// The balancer that it belongs to.
    pub(super) scope: Arc<Scope>,
}

impl Patient for Asked {
    fn socket(&self) -> SocketAddr {
        self.backend.socket()
    }

    fn health(&self) -> Health {
        self.backend.health()
    }

    fn judge(&self, health: Health) {
        if self.backend.judge(health.clone()) {
            info!(backend = %self.backend.wanted(), service = %self.scope.names(), ?health, "health changed");
        }
    }

    async fn doubted(&self) {
        self.backend.doubt.notified().await;
    }
}

impl std::ops::Deref for Claim {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        &self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
