//! The decision log: what was asked of the gate, in order, and what became of it. The last so many decisions stay in
//! memory for pages and commands to read; each is a line of the process's own log as well.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud_provider::{Change, Outcome, Refusal};
use controller_kit::clock::SharedClock;
use jiff::Timestamp;
use tracing::{info, warn};

/// How many decisions stay in memory by default.
pub const REMEMBERED: usize = 1000;

/// The log; clones are the same log.
#[derive(Clone)]
pub struct DecisionLog {
    state: Arc<Mutex<State>>,
    clock: SharedClock,
    capacity: usize,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the order of all decisions of this process, from 0; what was forgotten leaves a gap at the start.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What it is about.
    pub change: Change,
    /// What the change is made for, where the caller said: `service shop/web`.
    pub cause: Option<Arc<str>>,
    /// What was decided, and what became of it.
    pub verdict: Verdict,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was let through, and its call is not over.
    UnderWay,
    /// It was let through, and ended like this at this time.
    Ended(Outcome, Timestamp),
    /// It was not let through.
    Refused(Refusal),
}

#[derive(Default)]
struct State {
    next: u64,
    entries: VecDeque<Entry>,
    /// The numbers of the changes under way, oldest first, with what identifies them when they end.
    under_way: Vec<(u64, Change, Option<Arc<str>>)>,
}

impl DecisionLog {
    /// An empty log that remembers the last [`REMEMBERED`] decisions.
    pub fn new(clock: SharedClock) -> Self {
        Self::remembering(REMEMBERED, clock)
    }

    /// An empty log that remembers this many.
    pub fn remembering(capacity: usize, clock: SharedClock) -> Self {
        Self { state: Arc::default(), clock, capacity }
    }

    /// What is remembered, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.iter().cloned().collect()
    }

    /// How many decisions there were, forgotten ones included.
    pub fn decisions(&self) -> u64 {
        self.lock().next
    }

    pub(super) fn admitted(&self, change: &Change, cause: Option<&Arc<str>>) {
        let mut state = self.lock();
        let number = self.write(&mut state, change, cause, Verdict::UnderWay);
        state.under_way.push((number, change.clone(), cause.cloned()));
    }

    pub(super) fn refused(&self, change: &Change, cause: Option<&Arc<str>>, refusal: Refusal) {
        let number = self.write(&mut self.lock(), change, cause, Verdict::Refused(refusal));
        let cause = cause.map(AsRef::as_ref);
        match refusal {
            Refusal::Recorded => info!(number, %change, cause, "observe mode: recorded, not made"),
            Refusal::Fenced => warn!(number, %change, cause, "fenced: this process may not hold the lease"),
        }
    }

    pub(super) fn ended(&self, change: &Change, cause: Option<&Arc<str>>, outcome: Outcome) {
        let now = self.clock.now();
        let mut state = self.lock();
        // The gate is not told which of two equal changes ended; the older one is as good as the other.
        let same = |(_, each, because): &(u64, Change, Option<Arc<str>>)| {
            each == change && because.as_ref() == cause
        };
        let number = state.under_way.iter().position(same).map(|at| state.under_way.remove(at).0);
        let entry = number.and_then(|number| state.entry(number));
        if let Some(entry) = entry {
            entry.verdict = Verdict::Ended(outcome.clone(), now);
        }
        drop(state);
        let cause = cause.map(AsRef::as_ref);
        match outcome {
            Outcome::Made => info!(number, %change, cause, "made a change in the cloud"),
            Outcome::Failed(decision) => {
                warn!(number, %change, cause, ?decision, "a change failed; it may be made");
            }
            _ => warn!(number, %change, cause, "a change was interrupted; it may be made"),
        }
    }

    fn write(&self, state: &mut State, change: &Change, cause: Option<&Arc<str>>, verdict: Verdict) -> u64 {
        let number = state.next;
        state.next += 1;
        let (at, change) = (self.clock.now(), change.clone());
        state.entries.push_back(Entry { number, at, change, cause: cause.cloned(), verdict });
        while state.entries.len() > self.capacity {
            state.entries.pop_front();
        }
        number
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let at = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.entries.get_mut(at)
    }
}

impl fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionLog({} decisions)", self.decisions())
    }
}

/// One line, as a plan or a page shows it.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.at, self.change)?;
        match &self.verdict {
            Verdict::UnderWay => f.write_str("(under way)")?,
            Verdict::Ended(Outcome::Made, _) => f.write_str("(made)")?,
            Verdict::Ended(Outcome::Failed(decision), _) => write!(f, "(failed: {decision:?})")?,
            Verdict::Ended(_, _) => f.write_str("(interrupted)")?,
            Verdict::Refused(Refusal::Fenced) => f.write_str("(not made: the lease may be another's)")?,
            Verdict::Refused(Refusal::Recorded) => f.write_str("(not made: observe mode)")?,
        }
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, " for {cause}"))
    }
}
