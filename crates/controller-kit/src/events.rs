//! Tells users what happened to their objects, as core/v1 Events.
//!
//! A [`Recorder`] is what controllers hold: it never waits and never fails. A [`Writer`] is the task behind it: it
//! merges repetitions, filters spam and writes, with client-go's numbers (`tools/record/events_cache.go`), so that a
//! cluster sees from us what it would see from a Go component. Only `create` and `patch` on core `events` are needed.

mod correlator;
mod lru;
mod metrics;
mod writer;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

pub use self::metrics::Metrics;
pub use self::writer::Writer;
use crate::clock::SharedClock;
use crate::random::Randomness;

/// How many events may wait to be written; what comes on top is dropped and counted.
pub const QUEUE: usize = 1000;

/// The two types that Kubernetes knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something went as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// Something that happened, on its way to the writer.
#[derive(Debug, Clone)]
struct Occurrence {
    component: Arc<str>,
    about: ObjectReference,
    kind: Kind,
    reason: String,
    message: String,
    time: jiff::Timestamp,
}

/// Records events of one component; clones and [`Recorder::for_component`] share the queue.
#[derive(Clone)]
pub struct Recorder {
    component: Arc<str>,
    queue: mpsc::Sender<Occurrence>,
    clock: SharedClock,
    metrics: Metrics,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("component", &self.component).finish_non_exhaustive()
    }
}

/// A recorder for `component` and the writer that has to run for it.
pub fn recorder(
    component: &str,
    client: kube::Client,
    clock: SharedClock,
    random: Randomness,
    metrics: &Metrics,
) -> (Recorder, Writer) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let recorder = Recorder { component: component.into(), queue, clock, metrics: metrics.clone() };
    (recorder, Writer::new(client, waiting, random, metrics.clone()))
}

impl Recorder {
    /// A recorder for another component over the same queue and writer.
    #[must_use]
    pub fn for_component(&self, component: &str) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Records that something went as it should.
    pub fn normal(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.record(about, Kind::Normal, reason, message);
    }

    /// Records that somebody should look.
    pub fn warning(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.record(about, Kind::Warning, reason, message);
    }

    /// Records an event. Returns at once; when the queue is full the event is dropped and counted.
    pub fn record(&self, about: &ObjectReference, kind: Kind, reason: &str, message: impl Into<String>) {
        let occurrence = Occurrence {
            component: self.component.clone(),
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            message: message.into(),
            time: self.clock.now(),
        };
        if let Err(error) = self.queue.try_send(occurrence) {
            self.metrics.dropped("queue_full");
            let lost = error.into_inner();
            tracing::debug!(
                reason = lost.reason,
                about = lost.about.name,
                "Dropped an event: the queue is full"
            );
        }
    }
}

/// A reference to an object, as events carry it.
pub fn reference<K: kube::Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

#[cfg(test)]
mod tests;
