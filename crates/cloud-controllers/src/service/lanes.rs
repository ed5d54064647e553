//! Two queues over the same Services: one for what somebody waits for, one for everything else, so that a thousand
//! comparisons never stand before a new Service. A Service is worked on in one of them at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud_provider::well_known::queues;
use controller_kit::cache::Key;
use controller_kit::queue::{self, Priority, Queue, RateLimits};

/// Which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// New and edited Services.
    Urgent,
    /// Node changes, deletions, comparisons.
    Upkeep,
}

/// Both queues, and who is worked on. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lanes {
    urgent: Queue<Key>,
    upkeep: Queue<Key>,
    busy: Arc<Mutex<HashMap<Key, Again>>>,
}

/// In which queues a Service asked for another run while it was worked on.
#[derive(Debug, Default, Clone, Copy)]
struct Again {
    urgent: bool,
    upkeep: bool,
}

impl Lanes {
    pub(super) fn new(limits: &RateLimits, metrics: &queue::Metrics) -> Self {
        Self {
            urgent: Queue::new(queues::SERVICE, limits.clone(), metrics),
            upkeep: Queue::new(queues::NODE, limits.clone(), metrics),
            busy: Arc::default(),
        }
    }

    pub(super) fn queue(&self, lane: Lane) -> &Queue<Key> {
        match lane {
            Lane::Urgent => &self.urgent,
            Lane::Upkeep => &self.upkeep,
        }
    }

    pub(super) fn add(&self, lane: Lane, key: Key, priority: Priority) {
        self.queue(lane).add(key, priority);
    }

    /// The right to work on a Service; without it, the Service runs again in this lane once the other is done.
    pub(super) fn enter(&self, lane: Lane, key: &Key) -> Option<Turn> {
        let mut busy = self.lock();
        if let Some(again) = busy.get_mut(key) {
            match lane {
                Lane::Urgent => again.urgent = true,
                Lane::Upkeep => again.upkeep = true,
            }
            return None;
        }
        busy.insert(key.clone(), Again::default());
        Some(Turn { lanes: self.clone(), key: key.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Again>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to work on one Service, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    lanes: Lanes,
    key: Key,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let again = self.lanes.lock().remove(&self.key).unwrap_or_default();
        if again.urgent {
            self.lanes.add(Lane::Urgent, self.key.clone(), Priority::NORMAL);
        }
        if again.upkeep {
            self.lanes.add(Lane::Upkeep, self.key.clone(), Priority::NORMAL);
        }
    }
}
