//! Which objects and which changes the server refuses: the rules that a controller can run into, worded as the real
//! server words them.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::schema::text;
use super::status_error::{Cause, StatusError};

mod format;
mod kind_rules;

use format::{is_dns_label, is_dns_subdomain, label_key_problems, label_value_problem};

const STANDARD_FINALIZERS: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

/// Checks a new object.
pub(crate) fn check_create(kind: &Kind, object: &Value) -> Result<(), StatusError> {
    let mut causes = metadata(kind, object);
    causes.extend(kind_rules::object(kind, object));
    verdict(kind, object, &causes)
}

/// Checks a change of an object.
pub(crate) fn check_update(kind: &Kind, old: &Value, new: &Value, status: bool) -> Result<(), StatusError> {
    let mut causes = metadata_update(old, new);
    if causes.is_empty() {
        causes.extend(metadata(kind, new));
    }
    if !(status && kind.kind == "Service") {
        causes.extend(kind_rules::object(kind, new));
    }
    causes.extend(kind_rules::update(kind, old, new, status));
    verdict(kind, old, &causes)
}

fn verdict(kind: &Kind, object: &Value, causes: &[Cause]) -> Result<(), StatusError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(kind, text(object, &["metadata", "name"]), causes))
}

fn metadata(kind: &Kind, object: &Value) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(problem) = name_problem(kind, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), problem));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        for problem in label_key_problems(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), problem));
        }
        if let Some(problem) = value.as_str().and_then(label_value_problem) {
            causes.push(Cause::invalid("metadata.labels", value, problem));
        }
    }
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        for problem in label_key_problems(&key.to_ascii_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), problem));
        }
    }
    for (index, finalizer) in metadata["finalizers"].as_array().into_iter().flatten().enumerate() {
        causes.extend(finalizer_causes(index, finalizer));
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        causes.extend(owner_causes(owner));
    }
    causes
}

fn name_problem(kind: &Kind, name: &str) -> Option<&'static str> {
    match kind.kind {
        // Services whose names begin with a digit have been allowed since 1.35.
        "Service" if name.contains('.') => Some("must not contain dots"),
        "Namespace" | "Service" => (!is_dns_label(name)).then_some(format::DNS_LABEL),
        _ => (!is_dns_subdomain(name)).then_some(format::DNS_SUBDOMAIN),
    }
}

fn finalizer_causes(index: usize, finalizer: &Value) -> Vec<Cause> {
    let name = finalizer.as_str().unwrap_or_default();
    let at = format!("metadata.finalizers[{index}]");
    let mut problems = label_key_problems(name);
    if problems.is_empty() && !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        problems.push("name is neither a standard finalizer name nor is it fully qualified".to_owned());
    }
    problems.into_iter().map(|problem| Cause::invalid(at.clone(), finalizer, problem)).collect()
}

fn owner_causes(owner: &Value) -> Vec<Cause> {
    let at = |field: &str| format!("metadata.ownerReferences.{field}");
    let mut causes = Vec::new();
    if text(owner, &["apiVersion"]).is_empty() {
        causes.push(Cause::invalid(at("apiVersion"), &json!(""), "version must not be empty"));
    }
    for (field, why) in
        [("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")]
    {
        if text(owner, &[field]).is_empty() {
            causes.push(Cause::invalid(at(field), &json!(""), why));
        }
    }
    causes
}

fn metadata_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let mut causes = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        let known = old["finalizers"].as_array().cloned().unwrap_or_default();
        let added: Vec<_> = new["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !known.contains(f))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let shown: Vec<_> = added.iter().map(|f| format!("{f:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    for field in ["name", "namespace", "uid"] {
        if old[field] != new[field] {
            causes.push(Cause::invalid(format!("metadata.{field}"), &new[field], "field is immutable"));
        }
    }
    causes
}
