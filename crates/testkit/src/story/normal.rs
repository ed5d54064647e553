//! Normal form: what differs from run to run (identifiers, versions, times, allocated addresses) is replaced by
//! ordinals in the order of appearance, so that two records are equal exactly when the same things happened.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Outcome;

/// Where the words of a message stop being Kubernetes' and become Go's or serde's.
const FOREIGN_WORDS: &[&str] = &[
    "json: cannot unmarshal",
    "invalid type",
    "json parse error",
    "Invalid value: \"{",
    "continue key is not valid",
    "error decoding patch",
    "strict decoding error",
    "unable to parse requirement",
    "missing field",
];

/// Remembers what has been numbered.
#[derive(Debug, Default)]
pub(super) struct Normaliser {
    numbers: BTreeMap<&'static str, Vec<String>>,
}

impl Normaliser {
    /// An answer in normal form.
    pub(super) fn outcome(&mut self, outcome: &Outcome) -> Value {
        json!({"code": outcome.code, "body": self.object(&outcome.body)})
    }

    /// An event of a watch in normal form. Of a bookmark only its being there counts.
    pub(super) fn event(&mut self, event: &Value) -> Value {
        if event["type"] == "BOOKMARK" {
            let object = &event["object"];
            return json!({
                "type": "BOOKMARK", "kind": object["kind"], "apiVersion": object["apiVersion"],
                "annotations": object["metadata"]["annotations"],
            });
        }
        json!({"type": event["type"], "object": self.object(&event["object"])})
    }

    fn object(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        let is_list = object["items"].is_array();
        if is_list && let Some(metadata) = object["metadata"].as_object_mut() {
            // The version of a list is the server's, and other stories move it on.
            metadata.remove("resourceVersion");
        }
        self.value("", &object)
    }

    fn value(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => self.fields(fields),
            Value::Array(items) => items.iter().map(|item| self.value(key, item)).collect(),
            Value::String(text) => self.text(key, text),
            Value::Number(_) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                json!(self.ordinal("node-port", &value.to_string()))
            }
            other => other.clone(),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>) -> Value {
        let mut normal = Map::new();
        for (key, value) in fields {
            if key == "managedFields" {
                continue;
            }
            let mut value = self.value(key, value);
            if key == "causes"
                && let Value::Array(causes) = &mut value
            {
                // The real server checks metadata in several places and repeats itself.
                let mut seen: Vec<Value> = Vec::new();
                causes.retain(|cause| {
                    !seen.contains(cause) && {
                        seen.push(cause.clone());
                        true
                    }
                });
            }
            let empty = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if !empty {
                normal.insert(key.clone(), value);
            }
        }
        Value::Object(normal)
    }

    fn text(&mut self, key: &str, text: &str) -> Value {
        if text.is_empty() {
            return json!("");
        }
        match key {
            "uid" => json!(self.ordinal("uid", text)),
            "resourceVersion" => json!(self.ordinal("version", text)),
            "clusterIP" | "clusterIPs" if text != "None" => json!(self.ordinal("cluster-ip", text)),
            "continue" => json!("continue"),
            "token" => json!("token"),
            "message" => json!(self.message(text)),
            _ if key.ends_with("Timestamp") || key.ends_with("Time") => json!("time"),
            _ => json!(self.known_names(text)),
        }
    }

    fn ordinal(&mut self, sort: &'static str, text: &str) -> String {
        let seen = self.numbers.entry(sort).or_default();
        let place = seen.iter().position(|other| other == text).unwrap_or_else(|| {
            seen.push(text.to_owned());
            seen.len() - 1
        });
        format!("{sort}-{}", place + 1)
    }

    /// Generated names are numbered wherever they appear.
    fn known_names(&mut self, text: &str) -> String {
        match text.rsplit_once("-generated-") {
            Some((base, suffix)) if !suffix.is_empty() => {
                format!("{base}-{}", self.ordinal("generated", text))
            }
            _ => text.to_owned(),
        }
    }

    /// A message: UIDs and versions in it are numbered, and foreign words are cut off.
    fn message(&mut self, text: &str) -> String {
        let cut = FOREIGN_WORDS.iter().filter_map(|words| text.find(words)).min().unwrap_or(text.len());
        let mut message = numbers_in_versions(&text[..cut]);
        for (sort, seen) in &self.numbers {
            for (index, known) in seen.iter().enumerate().filter(|(_, known)| known.len() > 2) {
                message = message.replace(known.as_str(), &format!("{sort}-{}", index + 1));
            }
        }
        message
    }
}

/// Versions that no object carries stand in messages about lists and watches.
fn numbers_in_versions(message: &str) -> String {
    if !message.contains("esource version") {
        return message.to_owned();
    }
    let mut shown = String::new();
    let mut in_number = false;
    for c in message.chars() {
        if c.is_ascii_digit() {
            if !in_number {
                shown.push('N');
            }
            in_number = true;
        } else {
            in_number = false;
            shown.push(c);
        }
    }
    shown
}

/// A query without the values that differ from run to run.
pub(super) fn shown_query(query: &str) -> String {
    let hidden = ["continue", "resourceVersion"];
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if hidden.contains(&name) && !["", "0", "1"].contains(&value) => {
            format!("{name}=...")
        }
        _ => pair.to_owned(),
    };
    query.split('&').map(shown).collect::<Vec<_>>().join("&")
}
