//! What the API server wrote to its audit log: one JSON value for each request, in the order of the answers.

use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::ControlPlane;
use crate::error::Error;

impl ControlPlane {
    /// The audit events so far, as `audit.k8s.io/v1` Events. A request is in the log before its client has the answer.
    pub fn audit_events(&self) -> Result<Vec<Value>, Error> {
        let log = self.audit_log().ok_or(Error::NoAudit)?;
        let text = std::fs::read_to_string(log).map_err(Error::io(format!("reading {}", log.display())))?;
        parse(&text)
    }

    /// The audit log's file, if one is kept.
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }
}

/// What is logged: everything with its request body when it is answered; of secrets and tokens only that they were
/// asked for.
pub(crate) fn policy() -> Value {
    let secret = json!([
        { "group": "", "resources": ["secrets", "serviceaccounts/token"] },
        { "group": "authentication.k8s.io", "resources": ["tokenreviews"] },
    ]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata", "resources": secret }, { "level": "Request" }],
    })
}

/// The events of a log. The last line may be half written yet and is then left for the next time.
fn parse(text: &str) -> Result<Vec<Value>, Error> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let event =
        |(at, line)| serde_json::from_str(line).map_err(|source| Error::AuditLine { line: at + 1, source });
    whole.lines().enumerate().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_last_line_is_not_an_event_yet() {
        let events = parse("{\"verb\":\"get\"}\n{\"verb\":\"wat").unwrap();
        assert_eq!(events, [json!({ "verb": "get" })]);
        assert_eq!(parse("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn a_broken_line_is_named_by_its_number() {
        let error = parse("{}\nnonsense\n").unwrap_err();
        assert!(matches!(error, Error::AuditLine { line: 2, .. }), "{error:?}");
    }
}
