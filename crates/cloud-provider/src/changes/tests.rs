use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::executor::block_on;

use super::*;

/// A gate that a test can close.
#[derive(Default)]
struct TestGate {
    closed: AtomicBool,
    observe: bool,
    ended: Mutex<Vec<(String, Outcome)>>,
}

impl Gate for TestGate {
    fn admit(&self, _: &Change) -> Result<(), Refusal> {
        if self.observe {
            return Err(Refusal::Recorded);
        }
        if self.may_start() { Ok(()) } else { Err(Refusal::Fenced) }
    }

    fn may_start(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    fn ended(&self, change: &Change, outcome: Outcome) {
        self.ended.lock().unwrap().push((change.to_string(), outcome));
    }
}

fn through(gate: &Arc<TestGate>) -> Changes {
    Changes::through(Arc::clone(gate) as Arc<dyn Gate>)
}

#[test]
fn an_admitted_change_runs_and_its_outcome_is_recorded() {
    let gate = Arc::new(TestGate::default());
    let made = block_on(through(&gate).make(Change::create("route", "r1"), |_| async { Ok::<_, Error>(7) }));
    assert_eq!(made.unwrap(), 7);
    let failed: Result<(), _> =
        block_on(through(&gate).make(Change::create("route", "r2"), |_| async {
            Err(Error::quota_exceeded("creating route r2"))
        }));
    assert_eq!(failed.unwrap_err().decision(), &Decision::QuotaExceeded);
    assert_eq!(
        *gate.ended.lock().unwrap(),
        [
            ("create route r1".to_owned(), Outcome::Made),
            ("create route r2".to_owned(), Outcome::Failed(Decision::QuotaExceeded)),
        ]
    );
}

#[test]
fn a_closed_gate_starts_nothing() {
    let gate = Arc::new(TestGate::default());
    gate.closed.store(true, Ordering::Relaxed);
    let started = AtomicBool::new(false);
    let result: Result<(), _> = block_on(through(&gate).make(Change::create("route", "r1"), |_| async {
        started.store(true, Ordering::Relaxed);
        Ok(())
    }));
    assert_eq!(result.unwrap_err().decision(), &Decision::Fenced);
    assert!(!started.load(Ordering::Relaxed));
    assert!(gate.ended.lock().unwrap().is_empty());
}

#[test]
fn observe_mode_says_what_it_would_do_and_ends_the_pass() {
    let gate = Arc::new(TestGate { observe: true, ..TestGate::default() });
    let result: Result<(), _> = block_on(
        through(&gate).make(Change::create("load balancer", "a1").detail("2 ports"), |_| async { Ok(()) }),
    );
    let error = result.unwrap_err();
    assert_eq!(error.decision(), &Decision::Recorded);
    assert_eq!(error.to_string(), "observe mode: would create load balancer a1: 2 ports");
}

#[test]
fn a_retry_asks_again_whether_the_lease_is_held() {
    let gate = Arc::new(TestGate::default());
    let result: Result<(), _> = block_on(through(&gate).make(Change::create("route", "r1"), |permit| {
        let gate = Arc::clone(&gate);
        async move {
            permit.check()?;
            gate.closed.store(true, Ordering::Relaxed);
            permit.check()
        }
    }));
    assert_eq!(result.unwrap_err().decision(), &Decision::Fenced);
}

#[test]
fn a_cancelled_change_is_recorded_as_interrupted() {
    let gate = Arc::new(TestGate::default());
    let changes = through(&gate);
    let mut call = Box::pin(
        changes.make(Change::create("route", "r1"), |_| std::future::pending::<Result<(), Error>>()),
    );
    assert!(call.as_mut().now_or_never().is_none());
    drop(call);
    assert_eq!(*gate.ended.lock().unwrap(), [("create route r1".to_owned(), Outcome::Interrupted)]);
}
