//! What the loader remembers: instances that were found, and nodes that are another cloud's. Absence and doubt are never
//! remembered: a Node's life may hang on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Existence, NodeRef};
use tokio::time::Instant;

/// What makes a node the same node. Labels and addresses may change; an answer stays as good as its age.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    name: String,
    uid: String,
    provider_id: Option<String>,
}

impl From<&NodeRef> for Key {
    fn from(node: &NodeRef) -> Self {
        Self { name: node.name.clone(), uid: node.uid.clone(), provider_id: node.provider_id.clone() }
    }
}

#[derive(Debug)]
struct Known {
    answer: Arc<Existence>,
    /// When the call was sent: the answer may be this old.
    asked: Instant,
}

#[derive(Debug)]
pub(super) struct Cache {
    known: HashMap<Key, Known>,
    keep: Duration,
    most: usize,
    swept: Instant,
}

impl Cache {
    pub(super) fn new(keep: Duration, most: usize, now: Instant) -> Self {
        Self { known: HashMap::new(), keep, most, swept: now }
    }

    /// The answer for this node, if it is younger than `age`. Nothing is younger than zero.
    pub(super) fn recall(&self, key: &Key, age: Duration, now: Instant) -> Option<Arc<Existence>> {
        let known = self.known.get(key)?;
        (now.saturating_duration_since(known.asked) < age).then(|| Arc::clone(&known.answer))
    }

    /// An answer to a call that was sent at `asked`. The answer to a later question stands against one that came late.
    pub(super) fn learn(&mut self, key: &Key, answer: &Arc<Existence>, asked: Instant) {
        if self.known.get(key).is_some_and(|known| known.asked > asked) {
            return;
        }
        match **answer {
            Existence::Found(_) | Existence::NotMine => {
                self.known.insert(key.clone(), Known { answer: Arc::clone(answer), asked });
            }
            Existence::Absent(_) => {
                self.known.remove(key);
            }
            // Doubt about a node does not make what was known of it wrong, only old.
            Existence::Unknown(_) => {}
        }
    }

    /// A Node of this name is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.known.retain(|key, _| key.name != name);
    }

    /// Drops what is too old for anybody to use, and the oldest of what is too much.
    pub(super) fn sweep(&mut self, now: Instant) {
        let due = now.saturating_duration_since(self.swept) >= self.keep;
        if !due && self.known.len() <= self.most {
            return;
        }
        self.swept = now;
        let keep = self.keep;
        self.known.retain(|_, known| now.saturating_duration_since(known.asked) < keep);
        if self.known.len() > self.most {
            let mut times: Vec<Instant> = self.known.values().map(|known| known.asked).collect();
            let excess = times.len() - self.most;
            let (_, newest_to_go, _) = times.select_nth_unstable(excess - 1);
            let newest_to_go = *newest_to_go;
            self.known.retain(|_, known| known.asked > newest_to_go);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}
