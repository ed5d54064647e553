//! How one call to a cloud is made: its turn in the budget, its deadline, its metrics, and a net under it for panics.
//!
//! A worker is never lost to a cloud: whatever the provider does, the caller has an answer after the time to get a turn
//! and the deadline.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Decision, Error};
use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, error, info_span, warn};

use super::budget::{Budget, Feedback, Slot};
use super::metrics::{CloudMetrics, Metrics, word};
use super::operation::{Deadlines, Operation};
use super::urgency::Urgency;

/// The way to call one provider's cloud; clones are the same way.
#[derive(Debug, Clone)]
pub struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    provider: String,
    budget: Budget,
    deadlines: Deadlines,
    metrics: CloudMetrics,
}

impl Calls {
    /// Calls to the cloud of the provider of this name, on this budget.
    pub fn new(provider: &str, budget: Budget, deadlines: Deadlines, metrics: &Metrics) -> Self {
        let metrics = metrics.of(provider);
        Self(Arc::new(Inner { provider: provider.to_owned(), budget, deadlines, metrics }))
    }

    /// The budget that they stand on.
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Makes a call when it is its turn. The future is not polled before that.
    pub async fn make<T, F>(&self, operation: Operation, urgency: Urgency, call: F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.turn(operation, urgency).await?.make(call, Feedback::of).await
    }

    /// Waits for the turn of a call. The error asks to come back, and the cloud never hears of the call.
    pub(super) async fn turn(&self, operation: Operation, urgency: Urgency) -> Result<Turn<'_>, Error> {
        let inner = &*self.0;
        let patience = inner.deadlines.turn;
        let hopeless = self.pause_left(urgency).filter(|left| *left > patience);
        if hopeless.is_none()
            && let Ok(slot) = timeout(patience, inner.budget.enter(urgency)).await
        {
            let name = operation.name();
            inner.metrics.began(name);
            return Ok(Turn {
                calls: inner,
                operation,
                slot: Some(slot),
                since: Instant::now(),
                result: "cancelled",
            });
        }
        inner.metrics.counted(operation.name(), "no_turn");
        let after = self.pause_left(urgency);
        debug!(provider = inner.provider, operation = operation.name(), %urgency, ?after, "no turn for a call");
        let attempt = format!("waiting for the turn of {} in the budget of the cloud", operation.name());
        Err(Error::new(Decision::Throttled { after }, attempt))
    }

    fn pause_left(&self, urgency: Urgency) -> Option<Duration> {
        self.0.budget.paused_until(urgency).map(|end| end.saturating_duration_since(Instant::now()))
    }

    pub(super) fn metrics(&self) -> &CloudMetrics {
        &self.0.metrics
    }
}

/// A call whose turn it is. Dropped before its end, it counts as cancelled.
pub(super) struct Turn<'a> {
    calls: &'a Inner,
    operation: Operation,
    slot: Option<Slot>,
    since: Instant,
    result: &'static str,
}

impl Turn<'_> {
    /// Makes the call; `feedback` says what its result tells of the cloud's mood.
    pub(super) async fn make<T, F>(
        mut self,
        call: F,
        feedback: impl FnOnce(&Result<T, Error>) -> Feedback,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (name, deadline) = (self.operation.name(), self.calls.deadlines.of(self.operation));
        let span = info_span!("cloud_call", provider = self.calls.provider, operation = name);
        let caught = AssertUnwindSafe(call.instrument(span)).catch_unwind();
        let (result, feedback) = match timeout(deadline, caught).await {
            Ok(Ok(result)) => {
                self.result = result.as_ref().map_or_else(|error| word(error.decision()), |_| "ok");
                let feedback = feedback(&result);
                (result, feedback)
            }
            Ok(Err(panic)) => (Err(self.panicked(panic.as_ref())), Feedback::Silent),
            Err(_) => (Err(self.overdue(deadline)), Feedback::Silent),
        };
        if let Some(slot) = self.slot.take() {
            slot.ended(feedback);
        }
        result
    }

    fn panicked(&mut self, panic: &(dyn Any + Send)) -> Error {
        self.result = "panic";
        let (provider, operation) = (&self.calls.provider, self.operation.name());
        self.calls.metrics.panicked(operation);
        let text = panic.downcast_ref::<&'static str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        error!(provider, operation, panic = text, "the provider panicked");
        Error::other(format!("the provider {provider} panicked in {operation}: {text}"))
    }

    fn overdue(&mut self, deadline: Duration) -> Error {
        self.result = "deadline";
        let (provider, operation) = (&self.calls.provider, self.operation.name());
        warn!(provider, operation, ?deadline, "the cloud did not answer in time; the call is given up");
        Error::other(format!("waiting for the cloud to answer {operation}: nothing came within {deadline:?}"))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.calls.metrics.ended(self.operation.name(), self.result, self.since.elapsed());
    }
}
