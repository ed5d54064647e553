//! What we know of the API server: one list and watch per kind, shared by all controllers.
//!
//! A [`Cache`] holds trimmed objects and tells any number of [`Listener`]s what changed, as pairs of old and new.
//!
//! What is guaranteed:
//! * **One consistent chain per object and listener.** Added, updates whose `old` is the object told before, Deleted. A
//!   same-named object with another UID is the end of one chain and the start of another. A slow listener gets merged
//!   changes, never wrong ones, blocks nobody, and owes memory for at most each object it knows and each that exists.
//! * **Time does not run backwards** (as far as resource versions are integers, which Kubernetes promises since 1.35
//!   and etcd always gave). A list that is older than anything seen is refused as a whole: it neither rolls an object
//!   back nor deletes one; the next list asks the storage itself. A watch event older than what is stored is ignored.
//!   Only when the storage itself keeps answering lists from the past for [`REWOUND_AFTER`] (somebody restored a
//!   backup) is the older world taken for the real one. A watch that merely stays silent leads to no list: after a
//!   restore, processes should be restarted.
//! * **Absence is only believed from a complete list or a deletion event.** An interrupted list changes nothing.
//!
//! Not here: resyncs (controllers repeat their work themselves) and writing (see [`crate::patch`]).

mod backoff;
mod key;
mod list;
mod listener;
mod metrics;
mod reflector;
mod store;
pub mod trim;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::key::Key;
use self::listener::Mailbox;
pub use self::listener::{Change, Listener};
pub use self::metrics::Metrics;
pub use self::reflector::REWOUND_AFTER;
use self::store::{Delta, Store};
pub use self::trim::Trim;
use crate::lifecycle::Shutdown;
use crate::random::Randomness;

/// What can be cached: any typed Kubernetes object.
pub trait Object:
    kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
}

/// Which objects of a kind are cached; all of them by default.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub label_selector: Option<String>,
    /// Only objects with these fields.
    pub field_selector: Option<String>,
}

/// The cached objects of one kind; clones share them.
pub struct Cache<K>(Arc<Inner<K>>);

struct Inner<K> {
    client: kube::Client,
    scope: Scope,
    trim: Trim<K>,
    random: Randomness,
    metrics: metrics::OfKind,
    state: RwLock<State<K>>,
    synced: watch::Sender<bool>,
}

/// Changed together, so that a new listener misses nothing and sees nothing twice.
struct State<K> {
    store: Store<K>,
    /// One per listener; a dropped listener's is removed with the next change.
    mailboxes: Vec<std::sync::Weak<Mailbox<K>>>,
    /// When the server last told us anything.
    heard: Option<Instant>,
    /// The cache was stopped: listeners end when they have read what is left.
    closed: bool,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("scope", &self.0.scope).finish_non_exhaustive()
    }
}

impl<K: Object> Cache<K> {
    /// An empty cache; [`Cache::run`] fills it. `trim` decides what of each object is worth its memory.
    pub fn new(
        client: kube::Client,
        scope: Scope,
        trim: Trim<K>,
        random: Randomness,
        metrics: &Metrics,
    ) -> Self {
        let state = State { store: Store::default(), mailboxes: Vec::new(), heard: None, closed: false };
        let kind = K::kind(&());
        Self(Arc::new(Inner {
            client,
            scope,
            trim,
            random,
            metrics: metrics.of_kind(&kind),
            state: RwLock::new(state),
            synced: watch::Sender::new(false),
        }))
    }

    /// Lists and watches until `stop` is triggered, through every failure; then ends all listeners.
    pub async fn run(&self, stop: &Shutdown) {
        stop.or_stop(reflector::run(&self.0)).await;
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        for mailbox in state.mailboxes.drain(..).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.close();
        }
    }

    /// The object of this name, as last seen.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.0.read().store.get(key)
    }

    /// All objects, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.0.read().store.list()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.read().store.len()
    }

    /// Whether there is no object; before the first list there never is one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list has arrived.
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Waits for the first list.
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// How long the server has said nothing: no list, no new watch, no change, no bookmark. At most about five minutes
    /// while all is well. `None` before the first list. Whoever is about to act on an absence should look here.
    pub fn silence(&self) -> Option<Duration> {
        self.0.read().heard.map(|heard| heard.elapsed())
    }

    /// A listener that is told all objects that exist, then [`Change::Synced`], then every change.
    pub fn subscribe(&self) -> Listener<K> {
        let mailbox = Arc::new(Mailbox::default());
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        for object in state.store.list() {
            mailbox.post(Delta::Added(object));
        }
        if *self.0.synced.borrow() {
            mailbox.post_synced();
        }
        if state.closed {
            mailbox.close();
        } else {
            state.mailboxes.push(Arc::downgrade(&mailbox));
        }
        Listener::new(mailbox)
    }
}

impl<K: Object> Inner<K> {
    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the store and tells the listeners, as one step; that the server spoke is news in itself.
    fn change(&self, change: impl FnOnce(&mut Store<K>) -> Vec<Delta<K>>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.heard = Some(Instant::now());
        let deltas = change(&mut state.store);
        self.metrics.holds(state.store.len());
        if deltas.is_empty() {
            return;
        }
        state.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            for delta in &deltas {
                mailbox.post(delta.clone());
            }
            true
        });
    }

    /// The first complete list is in the store.
    fn mark_synced(&self) {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !self.synced.send_replace(true) {
            for mailbox in state.mailboxes.iter().filter_map(std::sync::Weak::upgrade) {
                mailbox.post_synced();
            }
        }
    }
}

#[cfg(test)]
mod tests;
