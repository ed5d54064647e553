//! A Lease in memory that misbehaves on demand: latency, hangs, failures before and after the write, writes that land
//! long after their caller gave up.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use controller_kit::leader::{Lease, LeaseStore, LeaseWatch, StoreError};
use futures::{StreamExt, stream};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The object all candidates stand for.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    stored: Arc<Mutex<Stored>>,
    /// Wakes watchers in the order in which they came, so that a seed replays; a `tokio::sync::watch` wakes at random.
    changed: Arc<Notify>,
    /// Whether an update must carry the version that is there.
    guarded: bool,
}

#[derive(Debug, Clone, Default)]
struct Stored {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self { stored: Arc::default(), changed: Arc::default(), guarded: true }
    }

    /// A server that takes every update, which no election can be safe on.
    pub(crate) fn careless() -> Self {
        Self { guarded: false, ..Self::new() }
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.stored.lock().unwrap().lease.clone()
    }

    pub(crate) fn holder(&self) -> String {
        self.lease().map(|lease| lease.record().holder).unwrap_or_default()
    }

    /// Writes the object whatever is there, as a person with kubectl would.
    pub(crate) fn put(&self, lease: &Lease) {
        self.stored.lock().unwrap().write(lease);
        self.changed.notify_waiters();
    }

    pub(crate) fn delete(&self) {
        let mut stored = self.stored.lock().unwrap();
        (stored.lease, stored.version) = (None, stored.version + 1);
        self.changed.notify_waiters();
    }

    fn create(&self, lease: &Lease) -> Result<Lease, StoreError> {
        self.change(|stored| stored.lease.is_none().then_some(()).ok_or(StoreError::Conflict), lease)
    }

    fn update(&self, lease: &Lease) -> Result<Lease, StoreError> {
        let guard = |stored: &Stored| match &stored.lease {
            None => Err(StoreError::NotFound),
            Some(present) if self.guarded && present.resource_version() != lease.resource_version() => {
                Err(StoreError::Conflict)
            }
            Some(_) => Ok(()),
        };
        self.change(guard, lease)
    }

    fn change(
        &self,
        guard: impl FnOnce(&Stored) -> Result<(), StoreError>,
        lease: &Lease,
    ) -> Result<Lease, StoreError> {
        let mut stored = self.stored.lock().unwrap();
        guard(&stored)?;
        stored.write(lease);
        self.changed.notify_waiters();
        Ok(stored.lease.clone().unwrap())
    }

    fn version(&self) -> u64 {
        self.stored.lock().unwrap().version
    }

    /// Waits until there is something newer than the version `seen`, and returns its version.
    async fn newer_than(&self, seen: u64) -> u64 {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.version() > seen {
                return self.version();
            }
            changed.await;
        }
    }
}

impl Stored {
    fn write(&mut self, lease: &Lease) {
        self.version += 1;
        let mut object = lease.as_json().clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(Lease::from_json(object));
    }
}

/// How one candidate's connection misbehaves; shares of calls, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Answers 500 and does nothing.
    pub(crate) refuse: u32,
    /// Does it and loses the answer.
    pub(crate) lose_answer: u32,
    /// Never answers, and a write lands after up to 40 s.
    pub(crate) hang: u32,
    /// Answers conflict to a write without reason.
    pub(crate) conflict: u32,
    /// Takes up to this long before and after the server acts.
    pub(crate) latency: Duration,
    /// The role does not allow to watch.
    pub(crate) forbid_watch: bool,
    /// Every call hangs: the network is cut.
    pub(crate) cut: bool,
}

/// A candidate's connection to the server.
#[derive(Clone)]
pub(crate) struct Connection {
    server: Server,
    pub(crate) faults: Arc<Mutex<Faults>>,
    random: Arc<Mutex<SmallRng>>,
    /// Calls by verb, for tests of cost.
    pub(crate) calls: Arc<Mutex<Vec<&'static str>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(server: &Server, faults: Faults, seed: u64) -> Self {
        Self {
            server: server.clone(),
            faults: Arc::new(Mutex::new(faults)),
            random: Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))),
            calls: Arc::default(),
        }
    }

    fn draw(&self, below: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..below.max(1))
    }

    async fn travel(&self) {
        let latency = self.faults.lock().unwrap().latency;
        let taken = Duration::from_micros(self.draw(u64::try_from(latency.as_micros()).unwrap()));
        if !taken.is_zero() {
            sleep(taken).await;
        }
    }

    /// One call with its faults. `act` is done once, now or later, or never.
    async fn call<T>(
        &self,
        verb: &'static str,
        act: impl FnOnce(&Server) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        self.calls.lock().unwrap().push(verb);
        let faults = *self.faults.lock().unwrap();
        let dice = u32::try_from(self.draw(100)).unwrap();
        self.travel().await;
        let mut limit = faults.refuse;
        if dice < limit {
            return Err(StoreError::Other("injected 500".into()));
        }
        limit += faults.lose_answer;
        if dice < limit {
            let _ = act(&self.server);
            return Err(StoreError::Other("connection reset".into()));
        }
        limit += faults.hang;
        if faults.cut || dice < limit {
            let (server, after) = (self.server.clone(), Duration::from_millis(self.draw(40_000)));
            tokio::spawn(async move {
                sleep(after).await;
                let _ = act(&server);
            });
            return std::future::pending().await;
        }
        limit += faults.conflict;
        if dice < limit && verb != "get" {
            return Err(StoreError::Conflict);
        }
        let answer = act(&self.server);
        self.travel().await;
        answer
    }
}

#[async_trait]
impl LeaseStore for Connection {
    async fn get(&self) -> Result<Lease, StoreError> {
        self.call("get", |server| server.lease().ok_or(StoreError::NotFound)).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, StoreError> {
        let lease = lease.clone();
        self.call("create", move |server| server.create(&lease)).await
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, StoreError> {
        let lease = lease.clone();
        self.call("update", move |server| server.update(&lease)).await
    }

    async fn watch(&self, _resource_version: &str) -> Result<LeaseWatch, StoreError> {
        if self.faults.lock().unwrap().forbid_watch {
            return Err(StoreError::Forbidden("no watch for you".into()));
        }
        let seen = self.call("watch", |server| Ok(server.version())).await?;
        Ok(stream::unfold((seen, self.clone()), |(seen, connection)| async move {
            let version = connection.server.newer_than(seen).await;
            connection.travel().await;
            if connection.faults.lock().unwrap().cut {
                return std::future::pending().await;
            }
            Some((Ok(connection.server.lease()), (version, connection)))
        })
        .boxed())
    }
}
