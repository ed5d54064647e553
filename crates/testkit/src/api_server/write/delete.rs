//! Deleting: preconditions, finalizers, and the object's last state.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Circumstances, is_finished, put};
use crate::api_server::kinds::KindId;
use crate::api_server::route::{ObjectTarget, Parameters};
use crate::api_server::schema::{section, text};
use crate::api_server::state::State;
use crate::api_server::status_error::StatusError;
use crate::api_server::store::Key;

/// What a DELETE may say.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// From the body, which may be absent, and the query.
    pub(crate) fn parse(body: &Value, parameters: &Parameters) -> Self {
        let owned = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            uid: owned(&body["preconditions"]["uid"]),
            resource_version: owned(&body["preconditions"]["resourceVersion"]),
            propagation: owned(&body["propagationPolicy"])
                .or_else(|| parameters.get("propagationPolicy").cloned()),
            dry_run: body["dryRun"].as_array().is_some_and(|d| !d.is_empty())
                || parameters.contains_key("dryRun"),
        }
    }
}

/// Deletes an object, or marks it when finalizers hold it.
pub(crate) fn delete(
    state: &mut State,
    target: &ObjectTarget,
    options: &DeleteOptions,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = target.kind();
    let name = target.name.as_deref().unwrap_or_default();
    let key = Key::new(&target.namespace, name);
    let old =
        state.store.get(target.kind, &key).cloned().ok_or_else(|| StatusError::not_found(kind, name))?;
    check_preconditions(target, name, &old, options)?;
    let circumstances = Circumstances { dry_run: circumstances.dry_run || options.dry_run, ..circumstances };
    let mut object = (*old).clone();
    add_propagation_finalizer(&mut object, options);
    let metadata = section(&mut object, "metadata");
    if !metadata.contains_key("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), circumstances.timestamp());
        metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
        if kind.kind == "Namespace" {
            metadata.remove("deletionGracePeriodSeconds");
            section(&mut object, "status").insert("phase".into(), json!("Terminating"));
        }
    }
    if !is_finished(&object) {
        let body = if *old == object { old } else { put(state, target.kind, key, object, circumstances) };
        return Ok(Answer { code: 200, body });
    }
    let gone = remove(state, target.kind, key, (*old).clone(), circumstances);
    let body = if kind.delete_answers_object { gone } else { Arc::new(success(target, name, &gone)) };
    Ok(Answer { code: 200, body })
}

fn check_preconditions(
    target: &ObjectTarget,
    name: &str,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let kind = target.kind();
    let (uid, version) = (text(old, &["metadata", "uid"]), text(old, &["metadata", "resourceVersion"]));
    if let Some(asked) = options.uid.as_deref().filter(|asked| *asked != uid) {
        let why = format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(StatusError::failed_precondition(kind, name, why));
    }
    if let Some(asked) = options.resource_version.as_deref().filter(|asked| *asked != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(StatusError::failed_precondition(kind, name, why));
    }
    Ok(())
}

fn add_propagation_finalizer(object: &mut Value, options: &DeleteOptions) {
    let finalizer = match options.propagation.as_deref() {
        Some("Foreground") => "foregroundDeletion",
        Some("Orphan") => "orphan",
        _ => return,
    };
    let finalizers = section(object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = finalizers
        && !list.iter().any(|f| f == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// Removes the object; watchers see its last state under the deletion's revision.
pub(super) fn remove(
    state: &mut State,
    kind: KindId,
    key: Key,
    mut last: Value,
    circumstances: Circumstances,
) -> Arc<Value> {
    if circumstances.dry_run {
        return Arc::new(last);
    }
    last["metadata"]["resourceVersion"] = json!(state.store.next_revision().to_string());
    state.store.remove(kind, key, last)
}

fn success(target: &ObjectTarget, name: &str, gone: &Value) -> Value {
    let kind = target.kind();
    let mut details = json!({"name": name, "kind": kind.plural, "uid": gone["metadata"]["uid"]});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
