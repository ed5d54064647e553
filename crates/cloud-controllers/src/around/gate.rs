//! The gate on the lease: no change of a cloud starts unless this process may write at that very moment.
//!
//! In observe mode nothing starts at all: each change is recorded, which ends its pass. Every decision is counted and
//! goes into the decision log.

mod log;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use cloud_provider::{Change, Changes, Gate, Outcome, Refusal};
use controller_kit::leader::Leadership;

pub use self::log::{DecisionLog, Entry, REMEMBERED, Verdict};
use super::metrics::{CloudMetrics, Metrics};

/// Whether changes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They are made while the lease is held.
    #[default]
    Act,
    /// They are recorded and not made: dry run, plan, or beside another manager.
    Observe,
}

/// The gate of one provider's cloud; clones are the same gate.
#[derive(Clone)]
pub struct LeaseGate(Arc<Inner>);

struct Inner {
    leadership: Leadership,
    mode: Mode,
    log: DecisionLog,
    metrics: CloudMetrics,
}

impl fmt::Debug for LeaseGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseGate({:?})", self.0.mode)
    }
}

impl LeaseGate {
    /// A gate to the cloud of the provider of this name.
    pub fn new(
        provider: &str,
        leadership: Leadership,
        mode: Mode,
        log: DecisionLog,
        metrics: &Metrics,
    ) -> Self {
        Self(Arc::new(Inner { leadership, mode, log, metrics: metrics.of(provider) }))
    }

    /// A way to change the cloud through this gate.
    pub fn changes(&self) -> Changes {
        Changes::through(Arc::new(Passage { gate: self.clone(), cause: None }))
    }

    /// The same, with what the changes are made for in the log: `service shop/web`.
    pub fn changes_for(&self, cause: impl Into<Arc<str>>) -> Changes {
        Changes::through(self.gate_for(cause))
    }

    /// The gate itself, for a caller that puts a stricter one before it.
    pub fn gate_for(&self, cause: impl Into<Arc<str>>) -> Arc<dyn Gate> {
        Arc::new(Passage { gate: self.clone(), cause: Some(cause.into()) })
    }

    /// Whether changes are made and the lease is held: for writes that are no change of a cloud.
    pub fn may_start(&self) -> bool {
        self.0.mode == Mode::Act && self.0.leadership.may_write()
    }

    /// What was decided.
    pub fn log(&self) -> &DecisionLog {
        &self.0.log
    }

    /// Whether changes are made.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }
}

/// One way through the gate.
struct Passage {
    gate: LeaseGate,
    cause: Option<Arc<str>>,
}

impl Passage {
    fn count(&self, change: &Change, outcome: &'static str) {
        self.gate.0.metrics.changed(change.verb(), change.kind(), outcome);
    }
}

impl Gate for Passage {
    fn admit(&self, change: &Change) -> Result<(), Refusal> {
        let Inner { mode, log, .. } = &*self.gate.0;
        let refusal = match mode {
            Mode::Observe => Refusal::Recorded,
            Mode::Act if self.may_start() => {
                log.admitted(change, self.cause.as_ref());
                return Ok(());
            }
            Mode::Act => Refusal::Fenced,
        };
        log.refused(change, self.cause.as_ref(), refusal);
        self.count(change, if refusal == Refusal::Recorded { "recorded" } else { "fenced" });
        Err(refusal)
    }

    fn may_start(&self) -> bool {
        self.gate.may_start()
    }

    fn ended(&self, change: &Change, outcome: Outcome) {
        let word = match &outcome {
            Outcome::Made => "made",
            Outcome::Failed(_) => "failed",
            _ => "interrupted",
        };
        self.count(change, word);
        self.gate.0.log.ended(change, self.cause.as_ref(), outcome);
    }
}
