//! The shape of objects: unknown fields dropped, wrong types refused, and what Go's encoder would leave out left out,
//! so that equal objects are equal JSON.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::status_error::StatusError;

/// Fields whose values are maps from free keys to text: an empty text there is a value.
const FREE_MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "stringData",
    "selector",
    "matchLabels",
    "parameters",
    "volumeAttributes",
    "nodeSelector",
    "attachmentMetadata",
    "capacity",
    "allocatable",
    "requests",
    "limits",
    "deprecatedTopology",
];

/// Text fields that are pointers in Go: empty is not the same as absent.
const POINTER_TEXTS: &[&str] = &[
    "holderIdentity",
    "preferredHolder",
    "strategy",
    "storageClassName",
    "loadBalancerClass",
    "volumeMode",
    "nodeName",
    "zone",
    "hostname",
    "ipMode",
    "error",
    "appProtocol",
    "volumeAttributesClassName",
    "persistentVolumeName",
];

/// Numbers and booleans that Go leaves out when they are zero.
const ZERO_IS_ABSENT: &[&str] = &[
    "unschedulable",
    "publishNotReadyAddresses",
    "nodePort",
    "healthCheckNodePort",
    "count",
    "generation",
    "immutable",
];

/// Brings a body into the shape of its kind.
pub(crate) fn decode(kind: &Kind, body: Value) -> Result<Value, StatusError> {
    let Value::Object(mut fields) = body else {
        return Err(unrecognised(kind));
    };
    let text =
        |fields: &Map<String, Value>, key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    let (found_kind, found_version) = (text(&fields, "kind"), text(&fields, "apiVersion"));
    // The real server fills in what the URL says; only a contradiction is refused.
    let differs = |found: &Option<String>, expected: &str| {
        found.as_deref().is_some_and(|found| !found.is_empty() && found != expected)
    };
    if differs(&found_version, &kind.api_version()) {
        return Err(StatusError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            found_version.unwrap_or_default(),
            kind.api_version()
        )));
    }
    if differs(&found_kind, kind.kind) {
        let (found, expected, version) = (found_kind.unwrap_or_default(), kind.kind, kind.version);
        return Err(StatusError::bad_request(format!(
            "{found} in version {version:?} cannot be handled as a {expected}: converting ({version}.{found}) to \
             (core.{expected}): unknown conversion"
        )));
    }
    fields.insert("kind".into(), json!(kind.kind));
    fields.insert("apiVersion".into(), json!(kind.api_version()));
    fields.entry("metadata").or_insert_with(|| json!({}));
    let typed = (kind.typed)(Value::Object(fields)).map_err(|e| {
        let name = kind.kind;
        let version = kind.version;
        StatusError::bad_request(format!("{name} in version {version:?} cannot be handled as a {name}: {e}"))
    })?;
    let mut object = pruned(typed);
    drop_managed_fields(&mut object);
    Ok(object)
}

fn unrecognised(kind: &Kind) -> StatusError {
    StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error",
        kind.kind
    ))
}

/// Ownership of fields is not tracked here, and nobody reads it.
fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Drops what Go's encoder leaves out, at every depth but the top: `spec`, `status` and `metadata` stay.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| {
                    let free = FREE_MAPS.contains(&key.as_str()) && value.is_object();
                    let value = if free { value } else { pruned_field(&value) };
                    (key, value)
                })
                .collect(),
        ),
        other => other,
    }
}

fn pruned_field(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (key, value) in fields {
                let free = FREE_MAPS.contains(&key.as_str()) && value.is_object();
                let value = if free { value.clone() } else { pruned_field(value) };
                if !is_left_out(key, &value) {
                    kept.insert(key.clone(), value);
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => Value::Array(items.iter().map(pruned_field).collect()),
        other => other.clone(),
    }
}

fn is_left_out(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !POINTER_TEXTS.contains(&key),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && FREE_MAPS.contains(&key),
        Value::Bool(value) => !value && ZERO_IS_ABSENT.contains(&key),
        Value::Number(number) => number.as_f64() == Some(0.0) && ZERO_IS_ABSENT.contains(&key),
    }
}

/// Drops `null` at every depth.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The text at a path of fields; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(object, |value, part| &value[*part]).as_str().unwrap_or_default()
}

/// The field, made an object when it is none.
pub(crate) fn section<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object[name].is_object() {
        object[name] = json!({});
    }
    match &mut object[name] {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::kinds::{KINDS, named};

    fn decoded(kind: &str, body: Value) -> Result<Value, StatusError> {
        decode(&KINDS[named(kind).unwrap()], body)
    }

    #[test]
    fn unknown_and_empty_fields_are_dropped_and_label_values_kept() {
        let node = decoded(
            "Node",
            json!({
                "metadata": {"name": "a", "labels": {"empty": ""}, "annotations": {}, "finalizers": [], "colour": "red"},
                "spec": {"taints": [], "providerID": "", "unschedulable": false},
            }),
        );
        let expected = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"empty": ""}}, "spec": {},
        });
        assert_eq!(node, Ok(expected));
    }

    #[test]
    fn a_released_lease_keeps_its_empty_holder() {
        let lease =
            decoded("Lease", json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": ""}})).unwrap();
        assert_eq!(lease["spec"], json!({"holderIdentity": ""}));
    }

    #[test]
    fn a_wrong_type_is_a_bad_request() {
        let error = decoded("Node", json!({"metadata": {"name": "a"}, "spec": {"unschedulable": "yes"}}))
            .unwrap_err();
        assert_eq!((error.code, error.reason), (400, "BadRequest"));
    }
}
