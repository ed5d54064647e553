//! The `Status` objects that the API server answers failures with: code, reason, message and details as the real
//! server words them. Deciding when to answer one is left to the callers.

use std::fmt::Display;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::kinds::Kind;

/// A failure, ready to be sent as a `Status`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty when the real server gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// `details`, where the real server gives them.
    pub details: Map<String, Value>,
    /// What the `Retry-After` header says.
    pub retry_after: Option<Duration>,
    /// A token with which an expired list may be continued, inconsistently.
    pub continue_token: Option<String>,
}

impl StatusError {
    /// A failure without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            retry_after: None,
            continue_token: None,
        }
    }

    /// The object is not there.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.group_resource())).about(kind, name)
    }

    /// The path leads to no resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with("group", json!(""))
            .trimmed()
    }

    /// An object of this name exists.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", kind.group_resource()))
            .about(kind, name)
    }

    /// Somebody else has changed the object meanwhile, or a precondition does not hold.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: impl Display) -> Self {
        let resource = kind.group_resource();
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"))
            .about(kind, name)
    }

    /// A precondition of a deletion does not hold. The real server names the kind here, not the resource.
    pub(crate) fn failed_precondition(kind: &Kind, name: &str, why: impl Display) -> Self {
        let qualified = if kind.group.is_empty() {
            kind.kind.to_owned()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}"))
            .about(kind, name)
            .with("kind", json!(kind.kind))
    }

    /// An error that the real server has no reason for.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The conflict of an outdated `resourceVersion`.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_named(kind.group, kind.kind, name, causes)
    }

    /// As [`StatusError::invalid`], for a type that is not stored, such as `ListOptions`.
    pub(crate) fn invalid_named(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut sentences: Vec<String> = Vec::new();
        for sentence in causes.iter().map(Cause::sentence) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let list = match sentences.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {list}"))
            .with("name", json!(name))
            .with("group", json!(group))
            .with("kind", json!(kind))
            .with("causes", causes.iter().map(Cause::to_value).collect())
            .trimmed()
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The request is understood and refused.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: impl Display) -> Self {
        let resource = kind.group_resource();
        Self::new(403, "Forbidden", format!("{resource} {name:?} is forbidden: {why}")).about(kind, name)
    }

    /// The history that was asked for is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The server is behind the version that was asked for.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        Self::new(504, "Timeout", message)
            .with("causes", cause)
            .with("retryAfterSeconds", json!(1))
            .retrying_after(Duration::from_secs(1))
    }

    /// The verb does not exist for the resource.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// The body's media type is not understood.
    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Adds the `Retry-After` header.
    pub(crate) fn retrying_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds a field of `details`.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.details.insert(key.to_owned(), value);
        self
    }

    fn about(self, kind: &Kind, name: &str) -> Self {
        self.with("name", json!(name))
            .with("group", json!(kind.group))
            .with("kind", json!(kind.plural))
            .trimmed()
    }

    /// Drops what Go's `omitempty` would drop.
    fn trimmed(mut self) -> Self {
        self.details
            .retain(|_, value| value.as_str() != Some("") && value.as_array().is_none_or(|a| !a.is_empty()));
        self
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}

/// One broken rule: where, of what sort, in which words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    reason: &'static str,
    field: String,
    message: String,
}

impl Cause {
    /// The value is not acceptable.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl Display) -> Self {
        Self::invalid_shown(field, value, why)
    }

    /// The value, which is shown as Go shows it, is not acceptable.
    pub(crate) fn invalid_shown(field: impl Into<String>, value: impl Display, why: impl Display) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// The value is missing.
    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// The change is not allowed.
    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {why}") }
    }

    /// The value, which is shown as Go shows it, stands there twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: impl Display) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { reason: "FieldValueDuplicate", field: field.into(), message }
    }

    /// The value is none of the known ones.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|v| format!("{v:?}")).collect();
        let message = format!("Unsupported value: {}: supported values: {}", value, known.join(", "));
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
    }

    fn sentence(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    fn to_value(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}
