//! The objects, and what each piece of news means for them. Pure: no clock, no network, no locks.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource;

use super::key::Key;

/// One step of one object's chain.
#[derive(Debug)]
pub(super) enum Delta<K> {
    Added(Arc<K>),
    Updated { old: Arc<K>, new: Arc<K> },
    Deleted(Arc<K>),
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(object) => Self::Deleted(object.clone()),
        }
    }
}

/// A complete list.
pub(super) struct Listing<K> {
    pub(super) objects: BTreeMap<Key, Arc<K>>,
    pub(super) resource_version: String,
}

/// All objects of a kind and how far in the server's history they reach.
#[derive(Debug)]
pub(super) struct Store<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The highest resource version that any list, event or bookmark carried.
    reached: Option<u64>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), reached: None }
    }
}

impl<K: Resource> Store<K> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The stored object, if it is this one in this version: a relist then costs no memory.
    pub(super) fn same(&self, key: &Key, object: &K) -> Option<Arc<K>> {
        let stored = self.objects.get(key)?;
        let (one, other) = (stored.meta(), object.meta());
        let same = one.resource_version.is_some()
            && one.resource_version == other.resource_version
            && one.uid == other.uid;
        same.then(|| stored.clone())
    }

    /// Whether a list of this version lies in the past of what is already known.
    pub(super) fn is_behind(&self, resource_version: &str) -> bool {
        matches!((number(resource_version), self.reached), (Some(listed), Some(reached)) if listed < reached)
    }

    /// Notes that the server's history has been followed up to here.
    pub(super) fn reach(&mut self, resource_version: &str) {
        self.reached = self.reached.max(number(resource_version));
    }

    /// An object as a watch tells it, new or changed.
    pub(super) fn apply(&mut self, object: K) -> Vec<Delta<K>> {
        let key = Key::of(&object);
        let version = version_of(&object);
        let stored = self.objects.get(&key);
        let known = match stored {
            Some(stored) if same_object(stored.meta(), object.meta()) => version_of(stored.as_ref()),
            // An object that we do not know, or that takes another's name, is younger than all we have seen.
            _ => self.reached,
        };
        if let (Some(version), Some(known)) = (version, known)
            && version <= known
        {
            return Vec::new();
        }
        self.reached = self.reached.max(version);
        let new = Arc::new(object);
        let old = self.objects.insert(key, new.clone());
        succession(old, Some(new))
    }

    /// An object as a watch tells its end. The end of an object is never stale, but it is that of this UID only.
    pub(super) fn delete(&mut self, object: K) -> Vec<Delta<K>> {
        self.reached = self.reached.max(version_of(&object));
        let key = Key::of(&object);
        match self.objects.get(&key) {
            Some(stored) if same_object(stored.meta(), object.meta()) => {
                self.objects.remove(&key);
                vec![Delta::Deleted(Arc::new(object))]
            }
            _ => Vec::new(),
        }
    }

    /// A complete list that is not behind; what it lacks is gone.
    pub(super) fn replace(&mut self, mut listing: Listing<K>) -> Vec<Delta<K>> {
        self.reach(&listing.resource_version);
        for (key, new) in &mut listing.objects {
            // Cannot be in a list that is not behind, unless the server mixes its histories.
            if let Some(old) = self.objects.get(key)
                && same_object(old.meta(), new.meta())
                && version_of(new.as_ref()) < version_of(old.as_ref())
            {
                *new = old.clone();
            }
        }
        self.exchange(listing.objects)
    }

    /// The storage was set back: from now on its answers, however old, are the truth.
    pub(super) fn rewind(&mut self, listing: Listing<K>) -> Vec<Delta<K>> {
        self.reached = number(&listing.resource_version);
        self.exchange(listing.objects)
    }

    fn exchange(&mut self, objects: BTreeMap<Key, Arc<K>>) -> Vec<Delta<K>> {
        let mut before = std::mem::replace(&mut self.objects, objects);
        let mut deltas = Vec::new();
        for (key, new) in &self.objects {
            deltas.extend(succession(before.remove(key), Some(new.clone())));
        }
        // Ends come first: what is gone may be what the new ones take the place of.
        let gone = before.into_values().flat_map(|old| succession(Some(old), None));
        gone.chain(deltas).collect()
    }
}

/// The steps from one state of a name to another.
fn succession<K: Resource>(old: Option<Arc<K>>, new: Option<Arc<K>>) -> Vec<Delta<K>> {
    match (old, new) {
        (Some(old), Some(new)) if same_object(old.meta(), new.meta()) => {
            let unchanged = Arc::ptr_eq(&old, &new)
                || (old.meta().resource_version.is_some()
                    && old.meta().resource_version == new.meta().resource_version);
            if unchanged { Vec::new() } else { vec![Delta::Updated { old, new }] }
        }
        (old, new) => old.map(Delta::Deleted).into_iter().chain(new.map(Delta::Added)).collect(),
    }
}

type Meta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether two states under one name are of one object. A server that gives no UIDs cannot tell either.
fn same_object(one: &Meta, other: &Meta) -> bool {
    one.uid == other.uid
}

fn version_of<K: Resource>(object: &K) -> Option<u64> {
    number(object.meta().resource_version.as_deref()?)
}

fn number(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}
