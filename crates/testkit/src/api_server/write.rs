//! The verbs that change objects: create, update, delete. Patches end here too, once they are applied to the object.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission;
use super::kinds::{KINDS, Kind, KindId};
use super::route::ObjectTarget;
use super::schema::{self, section, text};
use super::state::State;
use super::status_error::{Cause, StatusError};
use super::store::Key;
use super::validation;

mod delete;

pub(crate) use delete::{DeleteOptions, delete};

/// An answer to a write: its code and its body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// 200 or 201.
    pub(crate) code: u16,
    /// The object, or a `Status`.
    pub(crate) body: Arc<Value>,
}

/// What all writes know about their circumstances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    /// The wall clock.
    pub(crate) now: Timestamp,
    /// Whether nothing is to be stored.
    pub(crate) dry_run: bool,
}

impl Circumstances {
    /// The wall clock, as `metav1.Time` prints it.
    fn timestamp(self) -> Value {
        json!(self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// Creates an object.
pub(crate) fn create(
    state: &mut State,
    target: &ObjectTarget,
    body: Value,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = target.kind();
    let mut object = schema::decode(kind, body)?;
    place_in_namespace(kind, &mut object, &target.namespace)?;
    check_namespace(state, kind, &object)?;
    let metadata = section(&mut object, "metadata");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"] {
        metadata.remove(field);
    }
    let had_version = metadata.remove("resourceVersion").is_some_and(|v| v != "" && v != "0");
    metadata.insert("uid".into(), json!(state.uid()));
    metadata.insert("creationTimestamp".into(), circumstances.timestamp());
    generate_name(state, &mut object);
    admission::apply_defaults(kind, &mut object);
    admission::prepare_create(kind, state, &mut object);
    validation::check_create(kind, &object)?;
    if had_version {
        return Err(StatusError::unexplained("resourceVersion should not be set on objects to be created"));
    }
    let name = text(&object, &["metadata", "name"]).to_owned();
    let key = Key::new(text(&object, &["metadata", "namespace"]), &name);
    if state.store.get(target.kind, &key).is_some() {
        return Err(StatusError::already_exists(kind, &name));
    }
    Ok(Answer { code: 201, body: put(state, target.kind, key, object, circumstances) })
}

fn place_in_namespace(kind: &Kind, object: &mut Value, namespace: &str) -> Result<(), StatusError> {
    let metadata = section(object, "metadata");
    if !kind.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    match metadata.get("namespace").and_then(Value::as_str) {
        Some(inside) if !inside.is_empty() && inside != namespace => Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => {
            metadata.insert("namespace".into(), json!(namespace));
            Ok(())
        }
    }
}

/// The `NamespaceLifecycle` admission plugin.
fn check_namespace(state: &State, kind: &Kind, object: &Value) -> Result<(), StatusError> {
    if !kind.namespaced {
        return Ok(());
    }
    let namespace = text(object, &["metadata", "namespace"]);
    let namespaces = super::kinds::named("Namespace").map_or(kind, |id| &KINDS[id]);
    let found = state.namespace(namespace).ok_or_else(|| StatusError::not_found(namespaces, namespace))?;
    if found["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Err(StatusError::forbidden(kind, text(object, &["metadata", "name"]), why).with(
        "causes",
        json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]),
    ))
}

fn generate_name(state: &mut State, object: &mut Value) {
    let base = text(object, &["metadata", "generateName"]).to_owned();
    if text(object, &["metadata", "name"]).is_empty() && !base.is_empty() {
        let kept: String = base.chars().take(58).collect();
        object["metadata"]["name"] = json!(format!("{kept}{}", state.name_suffix()));
    }
}

/// Stores the object under the next revision; in a dry run only shows what would have been stored.
fn put(
    state: &mut State,
    kind: KindId,
    key: Key,
    mut object: Value,
    circumstances: Circumstances,
) -> Arc<Value> {
    schema::drop_nulls(&mut object);
    if circumstances.dry_run {
        return Arc::new(object);
    }
    object["metadata"]["resourceVersion"] = json!(state.store.next_revision().to_string());
    state.store.put(kind, key, object)
}

/// Where the new state of an updated object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The client sent the whole object.
    Put,
    /// The server computed it from a patch.
    Patch,
}

/// Replaces an object by `new`; `None` for `existing` means that it is not there.
pub(crate) fn update(
    state: &mut State,
    target: &ObjectTarget,
    new: Value,
    origin: Origin,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = target.kind();
    let name = target.name.as_deref().unwrap_or_default();
    let mut new = decoded(kind, new, origin)?;
    check_name(name, &new)?;
    place_in_namespace(kind, &mut new, &target.namespace)?;
    let key = Key::new(&target.namespace, name);
    let Some(old) = state.store.get(target.kind, &key).cloned() else {
        return update_absent(state, target, new, circumstances);
    };
    check_preconditions(kind, name, &old, &new, origin)?;
    keep_what_clients_may_not_change(kind, target.subresource.as_deref(), &old, &mut new);
    admission::apply_defaults(kind, &mut new);
    match target.subresource.as_deref() {
        None => admission::prepare_update(kind, state, &old, &mut new),
        Some(_) => admission::prepare_status(kind, &old, &mut new, &circumstances.timestamp()),
    }
    schema::drop_nulls(&mut new);
    validation::check_update(kind, &old, &new, target.subresource.is_some())?;
    if *old == new {
        return Ok(Answer { code: 200, body: old });
    }
    if is_finished(&new) {
        // Watchers see the state before this write; the writer sees its own, under the old version.
        delete::remove(state, target.kind, key, (*old).clone(), circumstances);
        return Ok(Answer { code: 200, body: Arc::new(new) });
    }
    Ok(Answer { code: 200, body: put(state, target.kind, key, new, circumstances) })
}

/// A body that does not fit its type is a bad request; a patch whose result does not fit is an invalid patch.
fn decoded(kind: &Kind, new: Value, origin: Origin) -> Result<Value, StatusError> {
    if origin == Origin::Put {
        return schema::decode(kind, new);
    }
    let patched = new.to_string();
    schema::decode(kind, new).map_err(|error| {
        let cause = Cause::invalid("patch", &json!(patched), error.message);
        StatusError::invalid_named("", "", "", &[cause])
    })
}

fn check_name(name: &str, new: &Value) -> Result<(), StatusError> {
    let inside = text(new, &["metadata", "name"]);
    if inside == name {
        return Ok(());
    }
    Err(StatusError::bad_request(format!(
        "the name of the object ({inside}) does not match the name on the URL ({name})"
    )))
}

fn update_absent(
    state: &mut State,
    target: &ObjectTarget,
    new: Value,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = target.kind();
    let name = target.name.as_deref().unwrap_or_default();
    if !kind.create_on_update || target.subresource.is_some() {
        return Err(StatusError::not_found(kind, name));
    }
    if !text(&new, &["metadata", "uid"]).is_empty() {
        let uid = text(&new, &["metadata", "uid"]);
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(StatusError::conflict(kind, name, storage_error(kind, &new, &why)));
    }
    let whole = ObjectTarget { name: None, ..target.clone() };
    create(state, &whole, new, circumstances)
}

/// How a failed precondition of the storage reads.
fn storage_error(kind: &Kind, object: &Value, why: &str) -> String {
    let key = Key::new(text(object, &["metadata", "namespace"]), text(object, &["metadata", "name"]));
    let path = kind.storage_path();
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{path}/{}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
        key.as_str()
    )
}

fn check_preconditions(
    kind: &Kind,
    name: &str,
    old: &Value,
    new: &Value,
    origin: Origin,
) -> Result<(), StatusError> {
    let (uid, old_uid) = (text(new, &["metadata", "uid"]), text(old, &["metadata", "uid"]));
    if origin == Origin::Put && !uid.is_empty() && uid != old_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
        return Err(StatusError::conflict(kind, name, storage_error(kind, old, &why)));
    }
    let version = text(new, &["metadata", "resourceVersion"]);
    if version.is_empty() || version == "0" {
        if kind.unconditional_update {
            return Ok(());
        }
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        // The real server names the resource here, not the kind.
        return Err(StatusError::invalid_named(kind.group, kind.plural, name, &[cause]));
    }
    if version.parse::<u64>().is_err() {
        return Err(StatusError::unexplained(format!(
            "strconv.ParseUint: parsing {version:?}: invalid syntax"
        )));
    }
    if version != text(old, &["metadata", "resourceVersion"]) {
        return Err(StatusError::modified(kind, name));
    }
    Ok(())
}

fn keep_what_clients_may_not_change(kind: &Kind, subresource: Option<&str>, old: &Value, new: &mut Value) {
    let metadata = section(new, "metadata");
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.entry("uid").or_insert_with(|| old["metadata"]["uid"].clone());
    let keep = |new: &mut Value, part: &str| match old.get(part) {
        Some(value) => new[part] = value.clone(),
        None => {
            new.as_object_mut().map(|fields| fields.remove(part));
        }
    };
    match subresource {
        Some("status") => {
            keep(new, "spec");
            if kind.status == Some(super::kinds::StatusSubresource::Alone) {
                keep(new, "metadata");
            }
        }
        Some("finalize") => keep(new, "status"),
        _ if kind.status.is_some() => {
            keep(new, "status");
            if kind.kind == "Namespace" {
                new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            }
        }
        _ => {}
    }
}

/// Whether nothing holds back the deletion any more.
fn is_finished(object: &Value) -> bool {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let held_by_spec = object["kind"] == "Namespace" && !empty(&object["spec"]["finalizers"]);
    !object["metadata"]["deletionTimestamp"].is_null()
        && empty(&object["metadata"]["finalizers"])
        && !held_by_spec
}
