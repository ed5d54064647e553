//! A list of everything that the cloud has, kept for the few seconds in which it may answer for those who join next.
//!
//! It proves presence and nothing else: whoever is not in it, or has no address in it yet, is looked up.

use std::time::Duration;

use cloud_provider::{Existence, NodeRef, Snapshot};
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Listing {
    seen: Snapshot,
    /// When the call was sent: the list may be this old.
    pub(super) asked: Instant,
}

impl Listing {
    /// A list that was asked for at `asked`.
    pub(super) fn new(seen: Snapshot, asked: Instant) -> Self {
        Self { seen, asked }
    }

    /// The instance of this node, if the list has it and is younger than `age`.
    pub(super) fn find(&self, node: &NodeRef, age: Duration, now: Instant) -> Option<Existence> {
        if !self.is_younger(age, now) {
            return None;
        }
        let answer = self.seen.answer(node);
        matches!(&answer, Existence::Found(instance) if !instance.addresses.is_empty()).then_some(answer)
    }

    /// Whether the list is younger than this. Nothing is younger than zero.
    pub(super) fn is_younger(&self, age: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) < age
    }
}
