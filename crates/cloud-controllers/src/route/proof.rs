//! A gate that lets a removal pass only if the provider proves by a tag that the route is this cluster's: for routes to
//! nodes that nobody here has ever seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::ownership::Ground;
use cloud_provider::{Change, Changes, Gate, Outcome, Refusal, Verb};

/// The gate before the gate.
pub(super) struct TagOnly {
    gate: Arc<dyn Gate>,
    refused: AtomicBool,
}

impl TagOnly {
    /// In front of this gate.
    pub(super) fn before(gate: Arc<dyn Gate>) -> Arc<Self> {
        Arc::new(Self { gate, refused: AtomicBool::new(false) })
    }

    /// A way through both.
    pub(super) fn changes(self: &Arc<Self>) -> Changes {
        Changes::through(Arc::clone(self) as _)
    }

    /// Whether a removal was refused for want of a tag.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Gate for TagOnly {
    fn admit(&self, change: &Change) -> Result<(), Refusal> {
        let tagged = change.proof().is_some_and(|proof| *proof.ground() == Ground::ClusterTag);
        if change.verb() != Verb::Create && !tagged {
            self.refused.store(true, Ordering::Relaxed);
            return Err(Refusal::Recorded);
        }
        self.gate.admit(change)
    }

    fn may_start(&self) -> bool {
        self.gate.may_start()
    }

    fn ended(&self, change: &Change, outcome: Outcome) {
        self.gate.ended(change, outcome);
    }
}
