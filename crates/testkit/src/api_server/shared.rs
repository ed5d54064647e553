//! What all connections share: state, faults, records and the clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::bell::Bell;
use super::faults::FaultPlan;
use super::reviews::Reviews;
use super::state::State;
use super::trace::Recorder;

/// The time of day at which every server starts: the Epoch of all stories, 2026-01-01T00:00:00Z.
pub const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// How watches are interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// They end.
    Clean,
    /// Their connection breaks.
    Broken,
    /// They go on, but look at the clock and at the faults again.
    Wake,
}

/// How often watches were interrupted, and how the last time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuts {
    pub(crate) count: u64,
    pub(crate) last: Cut,
}

/// A rule that must hold after every write.
pub(crate) type Invariant = Box<dyn Fn(&Written<'_>) -> Result<(), String> + Send>;

/// A write that has just been applied.
#[derive(Debug)]
pub struct Written<'a> {
    /// The kind, such as `Node`.
    pub kind: &'static str,
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object before; absent when it was created.
    pub before: Option<&'a Value>,
    /// The object after; absent when it was removed.
    pub after: Option<&'a Value>,
    /// Virtual time since the server started.
    pub at: Duration,
}

/// The server itself.
pub(crate) struct Shared {
    state: Mutex<State>,
    faults: Mutex<FaultPlan>,
    recorder: Mutex<Recorder>,
    reviews: Mutex<Reviews>,
    invariants: Mutex<Vec<(String, Invariant)>>,
    violations: Mutex<Vec<String>>,
    latency: Mutex<Duration>,
    started: Instant,
    cuts: Mutex<Cuts>,
    cutting: Bell,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State::new(seed)),
            faults: Mutex::new(FaultPlan::new(seed)),
            recorder: Mutex::default(),
            reviews: Mutex::default(),
            invariants: Mutex::default(),
            violations: Mutex::default(),
            latency: Mutex::new(Duration::from_millis(1)),
            started: Instant::now(),
            cuts: Mutex::new(Cuts { count: 0, last: Cut::Wake }),
            cutting: Bell::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, FaultPlan> {
        locked(&self.faults)
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        locked(&self.recorder)
    }

    pub(crate) fn reviews(&self) -> MutexGuard<'_, Reviews> {
        locked(&self.reviews)
    }

    pub(crate) fn latency(&self) -> Duration {
        *locked(&self.latency)
    }

    pub(crate) fn set_latency(&self, latency: Duration) {
        *locked(&self.latency) = latency;
    }

    /// Virtual time since the server started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The moment of tokio's clock that lies this long after the start.
    pub(crate) fn instant(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        EPOCH.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state().store.revision()
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.state().store.compacted()
    }

    /// The revision that caches show now, `behind` writes late on top of any time travel.
    pub(crate) fn cached_revision(&self, behind: u64) -> u64 {
        let travel = self.faults().travel.filter(|travel| self.elapsed() < travel.until);
        let state = self.state();
        let latest = state.store.revision();
        let shown = travel.map_or(latest, |travel| travel.revision.min(latest));
        shown.saturating_sub(behind).max(state.store.compacted())
    }

    pub(crate) fn forget_history(&self) {
        let mut state = self.state();
        let revision = state.store.revision();
        state.store.compact(revision);
        drop(state);
        self.note(format_args!("history up to revision {revision} is forgotten"));
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let at = self.elapsed();
        self.recorder().trace.push(at, what);
    }

    pub(crate) fn cut_watches(&self, how: Cut) {
        let mut cuts = locked(&self.cuts);
        *cuts = Cuts { count: cuts.count + 1, last: how };
        drop(cuts);
        self.cutting.ring();
    }

    /// How watches were interrupted so far.
    pub(crate) fn cuts(&self) -> Cuts {
        *locked(&self.cuts)
    }

    /// Rung when watches are interrupted.
    pub(crate) fn cutting(&self) -> Bell {
        self.cutting.clone()
    }

    pub(crate) fn add_invariant(&self, sentence: &str, rule: Invariant) {
        locked(&self.invariants).push((sentence.to_owned(), rule));
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        locked(&self.violations).clone()
    }

    /// Holds every write that is younger than `revision` against the invariants.
    pub(crate) fn check_invariants(&self, revision: u64) {
        let rules = locked(&self.invariants);
        if rules.is_empty() {
            return;
        }
        let changes = {
            let state = self.state();
            let latest = state.store.revision();
            let of_kind = |id| state.store.changes(id, revision, latest).cloned().map(move |c| (id, c));
            let mut changes: Vec<_> = (0..super::kinds::KINDS.len()).flat_map(of_kind).collect();
            changes.sort_by_key(|(_, change)| change.revision);
            changes
        };
        let at = self.elapsed();
        for (id, change) in changes {
            let (namespace, name) = change.key.as_str().split_once('/').unwrap_or(("", change.key.as_str()));
            let written = Written {
                kind: super::kinds::KINDS[id].kind,
                namespace,
                name,
                before: change.previous.as_deref(),
                after: (!change.deleted).then_some(&*change.object),
                at,
            };
            for (sentence, rule) in rules.iter() {
                if let Err(why) = rule(&written) {
                    let violation = format!("{sentence}: {why} ({} {})", written.kind, change.key.as_str());
                    self.note(format_args!("VIOLATED {violation}"));
                    locked(&self.violations).push(violation);
                }
            }
        }
    }
}

/// A handle that connections and streams hold.
pub(crate) type Handle = Arc<Shared>;
