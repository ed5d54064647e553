//! Decides what is written for an occurrence: a new Event, a higher count on an old one, or nothing. Pure; the time is
//! handed in.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Occurrence;
use super::lru::Lru;

/// INVARIANT: client-go's numbers; they decide what users see of a noisy object.
const REMEMBERED: usize = 4096;
const SIMILAR: usize = 10;
const SIMILAR_WINDOW: Duration = Duration::from_secs(600);
const SPAM_BURST: f64 = 25.0;
const SPAM_REFILL: Duration = Duration::from_secs(300);
const COMBINED: &str = "(combined from similar events): ";

/// What has to be sent.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Create(Event),
    /// Raises the count of an Event that exists; the Event itself, should it not.
    Patch {
        patch: Value,
        event: Event,
    },
}

/// What is remembered of what was written.
pub(super) struct Correlator {
    similar: Lru<Similar>,
    written: Lru<Option<Written>>,
    spam: Lru<Bucket>,
    /// The last time that went into a name: two events of one instant need two names.
    last_named: i128,
}

struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

#[derive(Clone)]
struct Written {
    name: String,
    count: i32,
    first: Timestamp,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self {
            similar: Lru::new(REMEMBERED),
            written: Lru::new(REMEMBERED),
            spam: Lru::new(REMEMBERED),
            last_named: 0,
        }
    }

    /// `None` means that this object has been talked about enough. `fallback` names Events of objects whose own name
    /// does not fit.
    pub(super) fn correlate(
        &mut self,
        occurrence: &Occurrence,
        now: Instant,
        fallback: impl FnOnce() -> String,
    ) -> Option<Write> {
        let (message, key) = self.aggregate(occurrence, now);
        let write = self.observe(occurrence, message, &key, fallback);
        self.has_room(occurrence, now).then_some(write)
    }

    /// More than a handful of different messages about the same thing become one.
    fn aggregate(&mut self, occurrence: &Occurrence, now: Instant) -> (String, String) {
        let group = key(&[&subject(occurrence), &occurrence.kind.to_string(), &occurrence.reason]);
        let exact = key(&[&group, occurrence.about.field_path.as_deref().unwrap_or(""), &occurrence.message]);
        let similar = self.similar.touch(&group, || Similar { messages: BTreeSet::new(), last: now });
        if now - similar.last > SIMILAR_WINDOW {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(occurrence.message.clone());
        if similar.messages.len() < SIMILAR {
            return (occurrence.message.clone(), exact);
        }
        similar.messages.pop_first();
        (format!("{COMBINED}{}", occurrence.message), group)
    }

    /// Repetitions raise the count of the first.
    fn observe(
        &mut self,
        occurrence: &Occurrence,
        message: String,
        key: &str,
        fallback: impl FnOnce() -> String,
    ) -> Write {
        let before = self.written.touch(key, || None).clone();
        let written = match before {
            Some(before) => Written { count: before.count.saturating_add(1), ..before },
            None => Written { name: self.name(occurrence, fallback), count: 1, first: occurrence.time },
        };
        *self.written.touch(key, || None) = Some(written.clone());
        let repeated = written.count > 1;
        let event = event(occurrence, message, written);
        if !repeated {
            return Write::Create(event);
        }
        let patch = json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        });
        Write::Patch { patch, event }
    }

    /// `<object>.<nanoseconds in hexadecimal>`, as client-go names them.
    fn name(&mut self, occurrence: &Occurrence, fallback: impl FnOnce() -> String) -> String {
        self.last_named = occurrence.time.as_nanosecond().max(self.last_named + 1);
        let object = occurrence.about.name.as_deref().unwrap_or_default();
        let name = format!("{object}.{:x}", self.last_named);
        if is_subdomain(&name) { name } else { fallback() }
    }

    /// Each object has a small budget per component.
    fn has_room(&mut self, occurrence: &Occurrence, now: Instant) -> bool {
        let bucket = self.spam.touch(&subject(occurrence), || Bucket { tokens: SPAM_BURST, at: now });
        let refilled = (now - bucket.at).as_secs_f64() / SPAM_REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + refilled).min(SPAM_BURST);
        bucket.at = now;
        let room = bucket.tokens >= 1.0;
        if room {
            bucket.tokens -= 1.0;
        }
        room
    }
}

/// Who speaks about what.
fn subject(occurrence: &Occurrence) -> String {
    let about = &occurrence.about;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    key(&[
        &occurrence.component,
        &part(&about.kind),
        &part(&about.namespace),
        &part(&about.name),
        &part(&about.uid),
        &part(&about.api_version),
    ])
}

/// Parts joined so that different lists never give the same key.
fn key(parts: &[&str]) -> String {
    parts.join("\0")
}

fn event(occurrence: &Occurrence, message: String, written: Written) -> Event {
    let ObjectReference { namespace, .. } = &occurrence.about;
    // INVARIANT: Events about cluster-scoped objects live in `default`; `kubectl describe node` looks there.
    let namespace = namespace.clone().filter(|namespace| !namespace.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(written.name),
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: occurrence.about.clone(),
        reason: Some(occurrence.reason.clone()),
        message: Some(message),
        type_: Some(occurrence.kind.to_string()),
        count: Some(written.count),
        first_timestamp: Some(Time(written.first)),
        last_timestamp: Some(Time(occurrence.time)),
        source: Some(EventSource { component: Some(occurrence.component.to_string()), host: None }),
        reporting_component: Some(occurrence.component.to_string()),
        // Required by the API's type, empty from client-go's recorder.
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

/// What the API server accepts as an Event's name.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
        })
}
