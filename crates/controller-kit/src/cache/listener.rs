//! One listener's mail: changes wait per object, and what waits for the same object is merged.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;
use tokio::sync::Notify;

use super::key::Key;
use super::store::Delta;

/// What a listener is told.
#[derive(Debug)]
pub enum Change<K> {
    /// An object that the listener did not know.
    Added(Arc<K>),
    /// An object that the listener knows, in another version; versions between the two may be left out.
    Updated {
        /// What the listener was told last of it.
        old: Arc<K>,
        /// What it is now.
        new: Arc<K>,
    },
    /// The end of an object that the listener knows, in the last version that anybody saw of it.
    Deleted(Arc<K>),
    /// All objects of the first list have been told. Comes once.
    Synced,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

/// Reads the changes of one cache. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Listener<K>(Arc<Mailbox<K>>);

impl<K: Resource<DynamicType = ()>> Listener<K> {
    pub(super) fn new(mailbox: Arc<Mailbox<K>>) -> Self {
        Self(mailbox)
    }

    /// The next change; `None` when the cache was stopped and everything before that was read. Cancel safe.
    pub async fn next(&mut self) -> Option<Change<K>> {
        loop {
            // A change that comes after this look leaves a permit behind, so it is not missed.
            match self.0.lock().look() {
                Look::Change(change) => return Some(change),
                Look::Closed => return None,
                Look::Nothing => {}
            }
            self.0.news.notified().await;
        }
    }

    /// The next change if there is one now.
    pub fn try_next(&mut self) -> Option<Change<K>> {
        self.0.lock().take()
    }

    /// How many objects have changes that were not read.
    pub fn backlog(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

#[derive(Debug)]
pub(super) struct Mailbox<K> {
    mail: Mutex<Mail<K>>,
    news: Notify,
}

impl<K> Default for Mailbox<K> {
    fn default() -> Self {
        let mail = Mail { order: BTreeMap::new(), waiting: HashMap::new(), next_place: 0, closed: false };
        Self { mail: Mutex::new(mail), news: Notify::new() }
    }
}

impl<K> Mailbox<K> {
    fn lock(&self) -> MutexGuard<'_, Mail<K>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn post_synced(&self) {
        self.lock().line_up(Slot::Synced);
        self.news.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }
}

impl<K: Resource> Mailbox<K> {
    pub(super) fn post(&self, delta: Delta<K>) {
        self.lock().merge(delta);
        self.news.notify_one();
    }
}

#[derive(Debug)]
enum Slot {
    Of(Key),
    Synced,
}

/// What waits, in the order in which it first began to wait.
#[derive(Debug)]
struct Mail<K> {
    order: BTreeMap<u64, Slot>,
    waiting: HashMap<Key, Waiting<K>>,
    next_place: u64,
    closed: bool,
}

/// The merged news of one name.
#[derive(Debug)]
struct Waiting<K> {
    place: u64,
    /// What the listener was told last, if it knows an object of this name.
    told: Option<Arc<K>>,
    /// The last version of that object, if it has ended since.
    ended: Option<Arc<K>>,
    /// The object that exists now, if there is one.
    now: Option<Arc<K>>,
}

enum Look<K> {
    Change(Change<K>),
    Nothing,
    Closed,
}

impl<K> Mail<K> {
    fn look(&mut self) -> Look<K> {
        match self.take() {
            Some(change) => Look::Change(change),
            None if self.closed => Look::Closed,
            None => Look::Nothing,
        }
    }

    fn line_up(&mut self, slot: Slot) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, slot);
        place
    }

    fn take(&mut self) -> Option<Change<K>> {
        let (_, slot) = self.order.first_key_value()?;
        let Slot::Of(key) = slot else {
            self.order.pop_first();
            return Some(Change::Synced);
        };
        let waiting = self.waiting.get_mut(key)?;
        if let Some(ended) = waiting.ended.take() {
            waiting.told = None;
            // The next object of this name follows from the same place.
            if waiting.now.is_none() {
                self.waiting.remove(key);
                self.order.pop_first();
            }
            return Some(Change::Deleted(ended));
        }
        let waiting = self.waiting.remove(key)?;
        self.order.pop_first();
        match (waiting.told, waiting.now?) {
            (Some(old), new) => Some(Change::Updated { old, new }),
            (None, new) => Some(Change::Added(new)),
        }
    }
}

impl<K: Resource> Mail<K> {
    fn merge(&mut self, delta: Delta<K>) {
        let (object, told, now, ended) = match delta {
            Delta::Added(new) => (new.clone(), None, Some(new), None),
            Delta::Updated { old, new } => (new.clone(), Some(old), Some(new), None),
            Delta::Deleted(last) => (last.clone(), Some(last.clone()), None, Some(last)),
        };
        let key = Key::of(object.as_ref());
        let Some(waiting) = self.waiting.get_mut(&key) else {
            // Nothing waits: the listener knows exactly what the cache knew.
            let place = self.line_up(Slot::Of(key.clone()));
            self.waiting.insert(key, Waiting { place, told, ended, now });
            return;
        };
        // The end belongs to the object that the listener knows, or to one that it never heard of.
        if waiting.told.is_some() && waiting.ended.is_none() {
            waiting.ended = ended;
        }
        waiting.now = now;
        if waiting.told.is_none() && waiting.now.is_none() {
            let place = waiting.place;
            self.order.remove(&place);
            self.waiting.remove(&key);
        }
    }
}
