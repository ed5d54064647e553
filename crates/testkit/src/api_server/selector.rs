//! Label and field selectors of lists and watches.

use serde_json::Value;

use super::kinds::Kind;
use super::route::Parameters;
use super::status_error::StatusError;

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<(String, Requirement)>,
    fields: Vec<(String, Requirement)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Requirement {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(allowed) => value.is_some_and(|v| allowed.iter().any(|a| a == v)),
            Self::NotIn(refused) => value.is_none_or(|v| refused.iter().all(|r| r != v)),
            Self::Above(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound),
            Self::Below(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound),
        }
    }
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(kind: &Kind, parameters: &Parameters) -> Result<Self, StatusError> {
        let text = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        Ok(Self { labels: labels(text("labelSelector"))?, fields: fields(kind, text("fieldSelector"))? })
    }

    /// Whether every object is meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object is meant.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|(key, requirement)| requirement.holds(labels[key].as_str()))
            && self.fields.iter().all(|(path, requirement)| requirement.holds(Some(&field(object, path))))
    }
}

/// The text of a selectable field; empty when it is not set, as the real server has it.
fn field(object: &Value, path: &str) -> String {
    let path = if path == "source" { "source.component" } else { path };
    let value = path.split('.').fold(object, |value, part| &value[part]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null if path == "spec.unschedulable" || path == "spec.hostNetwork" => "false".into(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn fields(kind: &Kind, text: &str) -> Result<Vec<(String, Requirement)>, StatusError> {
    let mut requirements = Vec::new();
    for term in text.split(',').filter(|t| !t.is_empty()) {
        let (path, requirement) = if let Some((path, value)) = term.split_once("!=") {
            (path, Requirement::NotIn(vec![value.to_owned()]))
        } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (path, Requirement::In(vec![value.to_owned()]))
        } else {
            return Err(StatusError::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        };
        let known = path == "metadata.name"
            || (path == "metadata.namespace" && kind.namespaced)
            || kind.selectable.contains(&path);
        if !known {
            let why = match kind.kind {
                "Node" | "Pod" | "Service" | "Event" | "Namespace" | "Secret" => {
                    format!("field label not supported: {path}")
                }
                _ => format!(
                    "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ),
            };
            return Err(StatusError::bad_request(why));
        }
        requirements.push((path.to_owned(), requirement));
    }
    Ok(requirements)
}

fn labels(text: &str) -> Result<Vec<(String, Requirement)>, StatusError> {
    terms(text).into_iter().map(|term| label(&term)).collect()
}

/// Splits at commas outside parentheses.
fn terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms.into_iter().map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect()
}

fn label(term: &str) -> Result<(String, Requirement), StatusError> {
    let refused = || StatusError::bad_request(format!("unable to parse requirement: {term}"));
    let owned = |key: &str, requirement| Ok((key.trim().to_owned(), requirement));
    if let Some(key) = term.strip_prefix('!') {
        return owned(key, Requirement::Absent);
    }
    if let Some((key, value)) = term.split_once("!=") {
        return owned(key, Requirement::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return owned(key, Requirement::In(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = term.split_once('>') {
        return owned(key, Requirement::Above(value.trim().parse().map_err(|_| refused())?));
    }
    if let Some((key, value)) = term.split_once('<') {
        return owned(key, Requirement::Below(value.trim().parse().map_err(|_| refused())?));
    }
    let Some((key, rest)) = term.split_once(char::is_whitespace) else {
        return owned(term, Requirement::Exists);
    };
    let set = |rest: &str| -> Option<Vec<String>> {
        let inner = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|v| v.trim().to_owned()).collect())
    };
    let rest = rest.trim_start();
    if let Some(values) = rest.strip_prefix("notin").and_then(set) {
        return owned(key, Requirement::NotIn(values));
    }
    if let Some(values) = rest.strip_prefix("in").and_then(set) {
        return owned(key, Requirement::In(values));
    }
    Err(refused())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::kinds::{KINDS, named};
    use rstest::rstest;
    use serde_json::json;

    fn selects(parameter: &str, text: &str) -> bool {
        let node = json!({
            "metadata": {"name": "a", "labels": {"zone": "z1", "size": "4", "empty": ""}},
            "spec": {"unschedulable": true},
        });
        let parameters = [(parameter.to_owned(), text.to_owned())].into();
        Selector::parse(&KINDS[named("Node").unwrap()], &parameters).unwrap().matches(&node)
    }

    #[rstest]
    #[case("zone=z1", true)]
    #[case("zone==z2", false)]
    #[case("zone!=z1", false)]
    #[case("other!=z1", true)]
    #[case("zone", true)]
    #[case("!zone", false)]
    #[case("zone in (z1, z2),size>3", true)]
    #[case("zone notin (z1)", false)]
    #[case("size<4", false)]
    #[case("empty=", true)]
    fn labels_are_selected(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(selects("labelSelector", text), expected);
    }

    #[rstest]
    #[case("metadata.name=a", true)]
    #[case("metadata.name!=a", false)]
    #[case("spec.unschedulable=true", true)]
    fn fields_are_selected(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(selects("fieldSelector", text), expected);
    }
}
