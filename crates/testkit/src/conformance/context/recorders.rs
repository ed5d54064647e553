//! Events and measurements, kept for a test to look at.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cloud_provider::context::{EventSink, EventType, Family, Metrics, Subject};

/// One Event that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// How it is meant.
    pub type_: EventType,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// Keeps Events.
#[derive(Debug, Default)]
pub struct Events(Mutex<Vec<Event>>);

impl Events {
    /// All of them, in order.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for Events {
    fn record(&self, subject: &Subject, type_: EventType, reason: &str, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Event {
            subject: subject.clone(),
            type_,
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }
}

/// Keeps measurements: sums of counters, last values of gauges, sums of observations.
#[derive(Debug, Default)]
pub struct Measurements(Mutex<BTreeMap<(&'static str, Vec<String>), f64>>);

impl Measurements {
    /// The value under this name and these labels; zero if nothing was ever measured.
    pub fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .find(|((family, values), _)| *family == name && values == labels)
            .map_or(0.0, |(_, value)| *value)
    }

    fn change(&self, family: &'static Family, labels: &[&str], change: impl FnOnce(&mut f64)) {
        let key = (family.name, labels.iter().map(ToString::to_string).collect());
        change(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    }
}

impl Metrics for Measurements {
    #[expect(clippy::cast_precision_loss, reason = "no test counts to 2^52")]
    fn add(&self, family: &'static Family, labels: &[&str], by: u64) {
        self.change(family, labels, |value| *value += by as f64);
    }

    fn set(&self, family: &'static Family, labels: &[&str], to: f64) {
        self.change(family, labels, |value| *value = to);
    }

    fn observe(&self, family: &'static Family, labels: &[&str], observed: f64) {
        self.change(family, labels, |value| *value += observed);
    }
}
