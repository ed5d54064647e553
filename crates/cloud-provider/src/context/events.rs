//! Kubernetes Events, the voice that users hear in `kubectl describe`.

/// Where Events go. It never blocks and never fails: an Event that cannot be delivered is dropped and counted.
pub trait EventSink: Send + Sync + 'static {
    /// Records an Event: `reason` in `CamelCase`, `message` a sentence that says what happened and what to do.
    fn record(&self, subject: &Subject, type_: EventType, reason: &str, message: &str);
}

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A Node.
    Node {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// How an Event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}
