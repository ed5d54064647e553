//! What goes wrong between the provider and its inventory and data plane, and how many calls there were.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::conformance::stand_in::{Aim, Calls, Count, Fault};

/// Faults that are armed and calls that were made. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    armed: Vec<(Fault, Aim, u64)>,
    count: Count,
    latency: Duration,
    /// How long a caller waits for an answer.
    deadline: Duration,
}

/// What to do with one call.
pub(crate) enum Course {
    /// Nothing is wrong.
    Straight,
    /// The cloud acts, and the answer is lost.
    LoseAnswer,
    /// An inventory without machines.
    Empty,
    /// Bytes that mean nothing.
    Garble,
}

impl Trouble {
    pub(crate) fn new(latency: Duration, deadline: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { latency, deadline, ..State::default() })))
    }

    pub(crate) fn arm(&self, fault: Fault, aim: Aim) {
        self.0.lock().unwrap().armed.push((fault, aim, 0));
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().armed.clear();
    }

    pub(crate) fn count(&self) -> Count {
        self.0.lock().unwrap().count
    }

    /// Takes the time of a call on its way, one way.
    pub(crate) async fn travel(&self) {
        let latency = self.0.lock().unwrap().latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }

    /// A call that only reads.
    pub(crate) async fn read(&self) -> io::Result<Course> {
        self.0.lock().unwrap().count.reads += 1;
        self.strike(Calls::Reads).await
    }

    /// A call that changes something.
    pub(crate) async fn write(&self) -> io::Result<Course> {
        self.0.lock().unwrap().count.writes += 1;
        self.strike(Calls::Writes).await
    }

    async fn strike(&self, kind: Calls) -> io::Result<Course> {
        let struck = self.next(kind);
        match struck {
            None => Ok(Course::Straight),
            Some(Fault::LostAnswer) => Ok(Course::LoseAnswer),
            Some(Fault::EmptyInventory) => Ok(Course::Empty),
            Some(Fault::Unreadable) => Ok(Course::Garble),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::TimesOut) => {
                let deadline = self.0.lock().unwrap().deadline;
                tokio::time::sleep(deadline).await;
                Err(io::ErrorKind::TimedOut.into())
            }
            Some(Fault::Unauthorized | Fault::Forbidden) => Err(io::ErrorKind::PermissionDenied.into()),
            Some(Fault::TruncatedList) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// The fault that hits the next call of this kind.
    fn next(&self, kind: Calls) -> Option<Fault> {
        let mut state = self.0.lock().unwrap();
        let mut hit = None;
        for (fault, aim, seen) in &mut state.armed {
            if aim.calls != Calls::All && aim.calls != kind {
                continue;
            }
            let number = *seen;
            *seen += 1;
            let over = aim.times.is_some_and(|times| number >= aim.after + times);
            if number >= aim.after && !over {
                hit = hit.or(Some(*fault));
            }
        }
        hit
    }
}
