//! Who called what, how often, how it ended, and which rules were broken.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::Operation;
use crate::spell;

pub(super) struct Ledger {
    counters: Counters,
    calls: VecDeque<Call>,
    keep: usize,
    next: u64,
    violations: Vec<Violation>,
}

/// How many calls there were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Calls that read.
    pub reads: u64,
    /// Calls that would change something.
    pub writes: u64,
    /// Calls by name.
    pub by_operation: BTreeMap<String, u64>,
    /// Calls by how they ended: `ok`, `cancelled`, or an error's code.
    pub by_outcome: BTreeMap<String, u64>,
    /// Calls that are under way.
    pub in_flight: u64,
    /// The most that were under way at once.
    pub max_in_flight: u64,
}

impl Counters {
    /// All calls.
    pub fn total(&self) -> u64 {
        self.reads + self.writes
    }

    /// Calls of this name.
    pub fn of(&self, operation: Operation) -> u64 {
        self.by_operation.get(operation.name()).copied().unwrap_or_default()
    }
}

/// One call, in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// The first is 1.
    pub number: u64,
    /// How old the world was when it came.
    #[serde(with = "spell")]
    pub at: Duration,
    /// The cluster that called.
    pub caller: String,
    /// What it called.
    pub operation: Operation,
    /// The object that it was about; empty for a whole list.
    pub object: String,
    /// How it ended: `ok`, `cancelled`, an error's code, or nothing while it is under way.
    pub outcome: Option<String>,
}

/// A rule that a client must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// No change to what another cluster made, and none to what carries another cluster's tag.
    Ownership,
    /// No change without a permit for such a change, and none once the lease may have passed on.
    Permit,
    /// Nothing made without the cluster's tag.
    Tag,
    /// No second balancer for one Service, no second route for one node and network.
    Duplicate,
    /// Nothing left of a Service that is gone.
    Leak,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ownership => "ownership",
            Self::Permit => "permit",
            Self::Tag => "tag",
            Self::Duplicate => "duplicate",
            Self::Leak => "leak",
        })
    }
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// How old the world was.
    #[serde(with = "spell")]
    pub at: Duration,
    /// Which rule.
    pub rule: Rule,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

impl Ledger {
    pub(super) fn new(keep: usize) -> Self {
        Self { counters: Counters::default(), calls: VecDeque::new(), keep, next: 1, violations: Vec::new() }
    }

    /// Notes that a call came, and numbers it.
    pub(super) fn enter(&mut self, at: Duration, caller: &str, operation: Operation, object: &str) -> Call {
        let number = self.next;
        self.next += 1;
        let counters = &mut self.counters;
        *if operation.is_write() { &mut counters.writes } else { &mut counters.reads } += 1;
        *counters.by_operation.entry(operation.name().to_owned()).or_default() += 1;
        counters.in_flight += 1;
        counters.max_in_flight = counters.max_in_flight.max(counters.in_flight);
        let (caller, object) = (caller.to_owned(), object.to_owned());
        let call = Call { number, at, caller, operation, object, outcome: None };
        self.calls.push_back(call.clone());
        if self.calls.len() > self.keep {
            self.calls.pop_front();
        }
        call
    }

    /// Notes how it ended.
    pub(super) fn leave(&mut self, number: u64, outcome: &str) {
        self.counters.in_flight = self.counters.in_flight.saturating_sub(1);
        *self.counters.by_outcome.entry(outcome.to_owned()).or_default() += 1;
        let first = self.calls.front().map_or(number, |call| call.number);
        let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(call) = index.and_then(|index| self.calls.get_mut(index)) {
            call.outcome = Some(outcome.to_owned());
        }
    }

    pub(super) fn violation(&mut self, at: Duration, rule: Rule, what: impl Into<String>) {
        self.violations.push(Violation { at, rule, what: what.into() });
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Starts counting anew; calls under way stay under way.
    pub(super) fn reset_counters(&mut self) {
        let in_flight = self.counters.in_flight;
        self.counters = Counters { in_flight, max_in_flight: in_flight, ..Counters::default() };
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_forgets_the_oldest_calls_and_the_counters_do_not() {
        let mut ledger = Ledger::new(2);
        for object in ["a", "b", "c"] {
            let call = ledger.enter(Duration::ZERO, "c1", Operation::GetInstance, object);
            ledger.leave(call.number, "ok");
        }
        let kept: Vec<(&str, Option<&str>)> =
            ledger.calls().map(|call| (call.object.as_str(), call.outcome.as_deref())).collect();
        assert_eq!(kept, [("b", Some("ok")), ("c", Some("ok"))]);
        assert_eq!(ledger.counters().of(Operation::GetInstance), 3);
        assert_eq!(ledger.counters().by_outcome["ok"], 3);
    }

    #[test]
    fn the_most_calls_at_once_are_remembered() {
        let mut ledger = Ledger::new(10);
        let calls: Vec<Call> =
            (0..3).map(|_| ledger.enter(Duration::ZERO, "", Operation::CreateRoute, "")).collect();
        for call in calls {
            ledger.leave(call.number, "ok");
        }
        assert_eq!((ledger.counters().in_flight, ledger.counters().max_in_flight), (0, 3));
        assert_eq!((ledger.counters().reads, ledger.counters().writes), (0, 3));
    }
}
