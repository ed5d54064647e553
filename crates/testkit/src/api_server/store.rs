//! Objects, revisions and history: what etcd and the watch cache are to the real server. Knows nothing of the meaning
//! of an object.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::bell::Bell;
use super::kinds::{KINDS, KindId};

/// The revision that a new server starts at. Above zero, so that there is a past that has been forgotten already.
pub(crate) const FIRST_REVISION: u64 = 100;

/// How long history is kept at least, as the real server's compaction has it.
pub(crate) const COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// `namespace/name`, or `name`. Ordered as etcd orders its keys: by bytes, the separator included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    /// The key of an object; `namespace` is empty for cluster-scoped kinds.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.to_owned()) } else { Self(format!("{namespace}/{name}")) }
    }

    /// A key as it stands in a continue token.
    pub(crate) fn raw(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the key lies in the namespace; the empty namespace holds everything.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.0.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// One write, as history remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The revision that the write made.
    pub(crate) revision: u64,
    /// The object's key.
    pub(crate) key: Key,
    /// The object after the write; after a deletion, its last state with the deletion's revision.
    pub(crate) object: Arc<Value>,
    /// The object before the write.
    pub(crate) previous: Option<Arc<Value>>,
    /// Whether the write removed the object.
    pub(crate) deleted: bool,
}

/// The objects of one kind at one revision.
pub(crate) type Objects = BTreeMap<Key, Arc<Value>>;

#[derive(Debug)]
struct Table {
    objects: Objects,
    changes: VecDeque<Change>,
    /// The revision of the youngest change that has been forgotten.
    forgotten: u64,
    /// Wakes the watches of this kind.
    written: Bell,
}

/// All objects, with as much history as has not been compacted.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    tables: Vec<Table>,
    /// When the last compaction was considered, and the revision of that moment.
    mark: (Duration, u64),
}

impl Store {
    /// An empty store.
    pub(crate) fn new() -> Self {
        let table = || Table {
            objects: Objects::new(),
            changes: VecDeque::new(),
            forgotten: 0,
            written: Bell::default(),
        };
        Self {
            revision: FIRST_REVISION,
            compacted: FIRST_REVISION,
            tables: KINDS.iter().map(|_| table()).collect(),
            mark: (Duration::ZERO, FIRST_REVISION),
        }
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that the next write will make.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision + 1
    }

    /// The revision up to which history is forgotten.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The object as it is now.
    pub(crate) fn get(&self, kind: KindId, key: &Key) -> Option<&Arc<Value>> {
        self.tables[kind].objects.get(key)
    }

    /// All objects of a kind as they are now.
    pub(crate) fn objects(&self, kind: KindId) -> &Objects {
        &self.tables[kind].objects
    }

    /// All objects of a kind as they were; `None` when that revision is forgotten.
    pub(crate) fn objects_at(&self, kind: KindId, revision: u64) -> Option<Objects> {
        if revision < self.compacted {
            return None;
        }
        let table = &self.tables[kind];
        let mut objects = table.objects.clone();
        for change in table.changes.iter().rev().take_while(|change| change.revision > revision) {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), Arc::clone(previous)),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// The writes to a kind after `revision` and up to `until`.
    pub(crate) fn changes(&self, kind: KindId, revision: u64, until: u64) -> impl Iterator<Item = &Change> {
        let changes = &self.tables[kind].changes;
        let start = changes.partition_point(|change| change.revision <= revision);
        changes.range(start..).take_while(move |change| change.revision <= until)
    }

    /// Whether somebody who has seen everything up to `revision` can no longer learn what came next.
    pub(crate) fn has_forgotten_changes_since(&self, kind: KindId, revision: u64) -> bool {
        self.tables[kind].forgotten > revision
    }

    /// Stores an object that carries [`Store::next_revision`].
    pub(crate) fn put(&mut self, kind: KindId, key: Key, object: Value) -> Arc<Value> {
        let object = Arc::new(object);
        let previous = self.tables[kind].objects.insert(key.clone(), Arc::clone(&object));
        self.record(kind, Change { revision: 0, key, object: Arc::clone(&object), previous, deleted: false });
        object
    }

    /// Removes an object; `last` is its last state and carries [`Store::next_revision`].
    pub(crate) fn remove(&mut self, kind: KindId, key: Key, last: Value) -> Arc<Value> {
        let previous = self.tables[kind].objects.remove(&key);
        let object = Arc::new(last);
        self.record(kind, Change { revision: 0, key, object: Arc::clone(&object), previous, deleted: true });
        object
    }

    fn record(&mut self, kind: KindId, change: Change) {
        self.revision += 1;
        let table = &mut self.tables[kind];
        table.changes.push_back(Change { revision: self.revision, ..change });
        table.written.ring();
    }

    /// Rung when the kind is written to.
    pub(crate) fn written(&self, kind: KindId) -> Bell {
        self.tables[kind].written.clone()
    }

    /// Forgets history that is old enough: every five minutes, what was there five minutes before. To be called
    /// before each use, so that the revision now is the revision of each interval that has passed since.
    pub(crate) fn age(&mut self, now: Duration) {
        while now.saturating_sub(self.mark.0) >= COMPACTION_INTERVAL {
            self.compact(self.mark.1);
            self.mark = (self.mark.0 + COMPACTION_INTERVAL, self.revision);
        }
    }

    /// Forgets history up to and including `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        for table in &mut self.tables {
            let kept = table.changes.partition_point(|change| change.revision <= self.compacted);
            if let Some(youngest) = table.changes.drain(..kept).next_back() {
                table.forgotten = youngest.revision;
            }
        }
    }
}
