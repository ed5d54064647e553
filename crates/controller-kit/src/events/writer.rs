//! The task that writes events, one after the other, and tries again while the API server is away.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Occurrence;
use super::correlator::{Correlator, Write};
use super::metrics::Metrics;
use crate::lifecycle::Shutdown;
use crate::log::report;
use crate::random::Randomness;

/// How often one event is tried; client-go's number.
const TRIES: u32 = 12;

/// The pause between two tries; the first is shortened at random, so that components do not come back in step.
const PAUSE: Duration = Duration::from_secs(10);

/// The writer behind a recorder.
pub struct Writer {
    client: kube::Client,
    waiting: mpsc::Receiver<Occurrence>,
    correlator: Correlator,
    random: Randomness,
    metrics: Metrics,
}

/// What became of one try.
enum Outcome {
    Written(&'static str),
    /// The server does not want this event, now or ever.
    Rejected,
    /// There was nobody to judge it.
    TryAgain,
}

impl Writer {
    pub(super) fn new(
        client: kube::Client,
        waiting: mpsc::Receiver<Occurrence>,
        random: Randomness,
        metrics: Metrics,
    ) -> Self {
        Self { client, waiting, correlator: Correlator::new(), random, metrics }
    }

    /// Writes until `stop` is triggered; then writes what waits, for as long as `flush_within`, and drops the rest.
    pub async fn run(mut self, stop: &Shutdown, flush_within: Duration) {
        let metrics = self.metrics.clone();
        {
            let mut work = std::pin::pin!(self.work(stop));
            tokio::select! {
                biased;
                () = stop.wait() => {}
                () = &mut work => return,
            }
            if tokio::time::timeout(flush_within, work).await.is_ok() {
                return;
            }
        }
        // One was on its way when time ran out.
        self.waiting.close();
        let lost = 1 + self.waiting.len();
        metrics.dropped_many("undelivered", lost);
        tracing::warn!(lost, "Dropped events that could not be written before the end");
    }

    /// Ends when nobody can record any more, or, after `stop`, when nothing waits.
    async fn work(&mut self, stop: &Shutdown) {
        loop {
            let next = tokio::select! {
                biased;
                next = self.waiting.recv() => next,
                () = stop.wait() => None,
            };
            let Some(occurrence) = next else { return };
            let random = &self.random;
            let fallback = || random.uuid().to_string();
            match self.correlator.correlate(&occurrence, Instant::now(), fallback) {
                Some(write) => self.deliver(&write).await,
                None => self.metrics.dropped("spam"),
            }
        }
    }

    async fn deliver(&self, write: &Write) {
        for attempt in 1..=TRIES {
            match self.attempt(write).await {
                Outcome::Written(verb) => return self.metrics.written(verb),
                Outcome::Rejected => return self.metrics.dropped("rejected"),
                Outcome::TryAgain if attempt == 1 => {
                    tokio::time::sleep(PAUSE.mul_f64(self.random.unit())).await;
                }
                Outcome::TryAgain if attempt < TRIES => tokio::time::sleep(PAUSE).await,
                Outcome::TryAgain => {}
            }
        }
        tracing::error!(tries = TRIES, "Gave up writing an event");
        self.metrics.dropped("undelivered");
    }

    async fn attempt(&self, write: &Write) -> Outcome {
        let (result, verb) = match write {
            Write::Create(event) => (self.create(event).await, "create"),
            Write::Patch { patch, event } => match self.patch(patch, event).await {
                // It has expired, or was never written: the count goes on with a new one.
                Err(kube::Error::Api(status)) if status.code == 404 => (self.create(event).await, "create"),
                result => (result, "patch"),
            },
        };
        match result {
            Ok(()) => Outcome::Written(verb),
            Err(error) => judge(&error),
        }
    }

    async fn create(&self, event: &Event) -> kube::Result<()> {
        self.api(event).create(&PostParams::default(), event).await.map(drop)
    }

    async fn patch(&self, patch: &serde_json::Value, event: &Event) -> kube::Result<()> {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        self.api(event).patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }

    fn api(&self, event: &Event) -> Api<Event> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn judge(error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) if status.code == 429 || status.code >= 500 => {
            tracing::debug!(err = %report(error), "The API server cannot take an event now");
            Outcome::TryAgain
        }
        kube::Error::Api(status) => {
            let terminating = status.details.as_ref().is_some_and(|details| {
                details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
            });
            // Written by an earlier try whose answer was lost, or about something that is going away.
            if status.reason == "AlreadyExists" || terminating {
                tracing::debug!(v = 5, err = %report(error), "The API server did not take an event");
            } else {
                tracing::error!(err = %report(error), "The API server rejected an event; it is dropped");
            }
            Outcome::Rejected
        }
        // A JSON error concerns the answer, so the event is there.
        kube::Error::SerdeError(_) => Outcome::Written("create"),
        error => {
            tracing::debug!(err = %report(error), "Cannot write an event");
            Outcome::TryAgain
        }
    }
}
