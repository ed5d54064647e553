//! A gate that a test opens and closes, and that remembers what passed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud_provider::{Change, Changes, Gate, Outcome, Refusal};

/// What the gate does with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Lets it pass.
    #[default]
    Open,
    /// Refuses it: the lease is lost.
    Closed,
    /// Records it: observe mode.
    Observe,
    /// Lets so many more pass, then is closed: the lease is lost half-way.
    ClosesAfter(usize),
}

/// A change that was let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The change.
    pub change: Change,
    /// How it ended; `None` while it is under way.
    pub outcome: Option<Outcome>,
}

#[derive(Default)]
struct State {
    mode: Mode,
    admitted: Vec<Admitted>,
    refused: Vec<Change>,
    recorded: Vec<Change>,
    strays: Vec<String>,
}

/// A gate that remembers. Cheap to clone.
#[derive(Clone, Default)]
pub struct RecordingGate {
    state: Arc<Mutex<State>>,
}

impl RecordingGate {
    /// A gate in this mode.
    pub fn new(mode: Mode) -> Self {
        let gate = Self::default();
        gate.set(mode);
        gate
    }

    /// A way to change the cloud through this gate.
    pub fn changes(&self) -> Changes {
        Changes::through(Arc::new(self.clone()))
    }

    /// Changes what the gate does from now on.
    pub fn set(&self, mode: Mode) {
        self.state().mode = mode;
    }

    /// What was let through, in order.
    pub fn admitted(&self) -> Vec<Admitted> {
        self.state().admitted.clone()
    }

    /// What was turned away because the gate was closed.
    pub fn refused(&self) -> Vec<Change> {
        self.state().refused.clone()
    }

    /// What was recorded in observe mode.
    pub fn recorded(&self) -> Vec<Change> {
        self.state().recorded.clone()
    }

    /// Ends that were reported for changes that were not under way, in words. There should be none.
    pub fn strays(&self) -> Vec<String> {
        self.state().strays.clone()
    }

    /// Forgets what passed; the mode stays.
    pub fn forget(&self) {
        let mut state = self.state();
        *state = State { mode: state.mode, ..State::default() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for RecordingGate {
    fn admit(&self, change: &Change) -> Result<(), Refusal> {
        let mut state = self.state();
        match state.mode {
            Mode::Open => {}
            Mode::ClosesAfter(left) if left > 0 => state.mode = Mode::ClosesAfter(left - 1),
            Mode::Closed | Mode::ClosesAfter(_) => {
                state.refused.push(change.clone());
                return Err(Refusal::Fenced);
            }
            Mode::Observe => {
                state.recorded.push(change.clone());
                return Err(Refusal::Recorded);
            }
        }
        state.admitted.push(Admitted { change: change.clone(), outcome: None });
        Ok(())
    }

    fn may_start(&self) -> bool {
        !matches!(self.state().mode, Mode::Closed | Mode::ClosesAfter(0))
    }

    fn ended(&self, change: &Change, outcome: Outcome) {
        let mut state = self.state();
        let open = state.admitted.iter_mut().find(|each| each.outcome.is_none() && each.change == *change);
        match open {
            Some(admitted) => admitted.outcome = Some(outcome),
            None => state.strays.push(format!("{change}: {outcome:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::{Decision, Error};

    use super::*;

    #[tokio::test]
    async fn a_gate_that_closes_after_one_lets_exactly_one_through() {
        let gate = RecordingGate::new(Mode::ClosesAfter(1));
        let make = async |name| {
            gate.changes().make(Change::create("route", name), |_| async { Ok::<_, Error>(()) }).await
        };
        assert!(make("a").await.is_ok());
        assert_eq!(make("b").await.unwrap_err().decision(), &Decision::Fenced);
        let admitted = gate.admitted();
        assert_eq!(admitted.len(), 1);
        assert_eq!(admitted[0].outcome, Some(Outcome::Made));
        assert_eq!(gate.refused().len(), 1);
        assert!(!gate.may_start());
    }
}
