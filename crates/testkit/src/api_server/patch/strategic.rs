//! Strategic merge patch: maps merge, lists merge by a key where the type says so, and directives (`$patch`,
//! `$setElementOrder`, `$deleteFromPrimitiveList`, `$retainKeys`) steer it. Follows the order of apimachinery's
//! `strategicpatch` exactly, because the order of merged lists is visible.

use serde_json::{Map, Value};

use crate::api_server::kinds::Kind;
use crate::api_server::status_error::StatusError;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// How a list is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListStrategy {
    /// Replaced as a whole.
    Atomic,
    /// A set of texts.
    Set,
    /// Elements of one key are the same element.
    ByKey(&'static str),
}

/// The lists that merge. Everything that is not named here is replaced.
fn list_strategy(kind: &str, path: &[&str]) -> ListStrategy {
    use ListStrategy::{Atomic, ByKey, Set};
    match (kind, path) {
        (_, ["metadata", "finalizers"]) | ("Node", ["spec", "podCIDRs"]) => Set,
        (_, ["metadata", "ownerReferences"]) => ByKey("uid"),
        ("Node" | "Service" | "Namespace" | "PersistentVolumeClaim" | "Pod", ["status", "conditions"])
        | ("Node", ["status", "addresses"]) => ByKey("type"),
        ("Service", ["spec", "ports"]) => ByKey("port"),
        ("ServiceAccount", ["secrets" | "imagePullSecrets"])
        | ("Pod", ["spec", "containers" | "initContainers" | "volumes"]) => ByKey("name"),
        _ => Atomic,
    }
}

/// Applies a strategic merge patch.
pub(super) fn apply(kind: &Kind, object: Value, patch: &Value) -> Result<Value, StatusError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch.clone()) else {
        return Err(StatusError::bad_request("cannot apply a strategic merge patch that is not an object"));
    };
    let merger = Merger { kind: kind.kind };
    merger.map(object, patch, &mut Vec::new()).map(Value::Object)
}

struct Merger {
    kind: &'static str,
}

type Fields = Map<String, Value>;
type Path<'a> = Vec<&'a str>;

impl Merger {
    fn map(&self, mut original: Fields, mut patch: Fields, at: &mut Path<'_>) -> Result<Fields, StatusError> {
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Fields::new()),
                Some("merge") => self.map(original, patch, at),
                _ => {
                    patch.insert(DIRECTIVE.to_owned(), directive);
                    Err(unknown_directive(&Value::Object(patch)))
                }
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.apply_element_orders(&mut original, &mut patch, at)?;
        for (key, value) in patch {
            if let Some(list) = key.strip_prefix(DELETE_PRIMITIVES) {
                delete_primitives(&mut original, list, &value);
            } else if value.is_null() {
                original.remove(&key);
            } else if let Some(before) = original.remove(&key) {
                let owned = key.clone();
                let mut inner: Path<'_> = at.clone();
                inner.push(&owned);
                let merged = self.value(before, value, &mut inner)?;
                original.insert(key, merged);
            } else if let Some(value) = without_directives(value) {
                original.insert(key, value);
            }
        }
        Ok(original)
    }

    fn value(&self, before: Value, patch: Value, at: &mut Path<'_>) -> Result<Value, StatusError> {
        match (before, patch) {
            (Value::Object(before), Value::Object(patch)) => self.map(before, patch, at).map(Value::Object),
            (Value::Array(before), Value::Array(patch)) => self.list(before, patch, at).map(Value::Array),
            (_, patch) => Ok(patch),
        }
    }

    fn list(
        &self,
        before: Vec<Value>,
        patch: Vec<Value>,
        at: &mut Path<'_>,
    ) -> Result<Vec<Value>, StatusError> {
        match list_strategy(self.kind, at) {
            ListStrategy::Atomic => Ok(patch),
            ListStrategy::Set => {
                let mut merged: Vec<Value> = Vec::new();
                for item in before.iter().chain(&patch) {
                    if !merged.contains(item) {
                        merged.push(item.clone());
                    }
                }
                Ok(ordered(merged, &patch, &before, None))
            }
            ListStrategy::ByKey(key) => self.keyed_list(before, patch, key, at),
        }
    }

    fn keyed_list(
        &self,
        before: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
        at: &mut Path<'_>,
    ) -> Result<Vec<Value>, StatusError> {
        let (mut before, patch) = special_elements(before, patch, key)?;
        let server_order = before.clone();
        for element in &patch {
            let Value::Object(fields) = element else {
                return Err(refused("expected a list of objects"));
            };
            if fields.get(key).is_none() {
                return Err(keyless(element, key));
            }
            match before.iter().position(|other| other[key] == element[key]) {
                Some(index) => {
                    let merged = self.value(before[index].clone(), element.clone(), at)?;
                    before[index] = merged;
                }
                None => before.extend(without_directives(element.clone())),
            }
        }
        Ok(ordered(before, &patch, &server_order, Some(key)))
    }

    /// Lists for which the patch gives the order of elements are merged first, with that order.
    fn apply_element_orders(
        &self,
        original: &mut Fields,
        patch: &mut Fields,
        at: &[&str],
    ) -> Result<(), StatusError> {
        let orders: Vec<String> =
            patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
        for directive in orders {
            let Some(Value::Array(order)) = patch.remove(&directive) else {
                return Err(refused(format!("{directive} is not a list")));
            };
            let list = directive.trim_start_matches(ELEMENT_ORDER).to_owned();
            let before = array(original.get(&list));
            let added = array(patch.get(&list));
            let mut inner: Path<'_> = at.to_vec();
            inner.push(&list);
            let key = match list_strategy(self.kind, &inner) {
                ListStrategy::ByKey(key) => Some(key),
                _ => None,
            };
            check_order(added.as_deref().unwrap_or_default(), &order, key)?;
            let merged = match (before.clone(), added) {
                (None, None) => continue,
                (Some(before), None) => before,
                (None, Some(added)) => added.into_iter().filter_map(without_directives).collect(),
                (Some(before), Some(added)) => self.list(before, added, &mut inner)?,
            };
            patch.remove(&list);
            let merged = ordered(merged, &order, &before.unwrap_or_default(), key);
            original.insert(list, Value::Array(merged));
        }
        Ok(())
    }
}

fn refused(message: impl Into<String>) -> StatusError {
    StatusError::unexplained(message)
}

fn keyless(element: &Value, key: &str) -> StatusError {
    refused(format!("map: {} does not contain declared merge key: {key}", go(element)))
}

fn unknown_directive(map: &Value) -> StatusError {
    let directive = map[DIRECTIVE].as_str().unwrap_or_default();
    refused(format!("unknown patch type: {directive} in map: {}", go(map)))
}

/// How Go prints a value.
fn go(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let pairs: Vec<_> = fields.iter().map(|(key, value)| format!("{key}:{}", go(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Array(items) => go_list(items),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn go_list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(go).collect::<Vec<_>>().join(" "))
}

fn array(value: Option<&Value>) -> Option<Vec<Value>> {
    value.and_then(Value::as_array).cloned()
}

fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), StatusError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let retained = array(Some(&retained)).unwrap_or_default();
    let kept = |key: &String| retained.iter().any(|r| r.as_str() == Some(key));
    if patch.iter().any(|(key, value)| !value.is_null() && !key.starts_with('$') && !kept(key)) {
        return Err(StatusError::bad_request("invalid patch format of retainKeys"));
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

fn delete_primitives(original: &mut Fields, list: &str, doomed: &Value) {
    let doomed = array(Some(doomed)).unwrap_or_default();
    if let Some(Value::Array(items)) = original.get_mut(list) {
        items.retain(|item| !doomed.contains(item));
    }
}

/// Handles `$patch` inside the elements of a keyed list.
fn special_elements(
    mut before: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StatusError> {
    let mut kept = Vec::new();
    let mut replace = false;
    for element in patch {
        match element.get(DIRECTIVE).and_then(Value::as_str) {
            None => kept.push(element),
            Some("delete") => {
                if element.get(key).is_none() {
                    return Err(keyless(&element, key));
                }
                before.retain(|other| other[key] != element[key]);
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(refused("merging lists cannot yet be specified in the patch")),
            Some(_) => return Err(unknown_directive(&element)),
        }
    }
    if replace { Ok((kept, Vec::new())) } else { Ok((before, kept)) }
}

/// The value without directives; `None` when the directive says that there is nothing.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(mut fields) => {
            if fields.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            if fields.len() == 1 && fields.contains_key(DIRECTIVE) {
                return None;
            }
            fields.retain(|key, _| !key.starts_with('$'));
            let fields = fields.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?)));
            Some(Value::Object(fields.filter(|(_, v)| !v.is_null()).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), StatusError> {
    let named: Vec<&Value> =
        patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).map(|item| identity(item, key)).collect();
    let mut rest = order.iter().map(|item| identity(item, key));
    if named.iter().all(|item| rest.any(|other| other == *item)) {
        return Ok(());
    }
    let (patch, order) = (go_list(patch), go_list(order));
    Err(refused(format!(
        "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
    )))
}

fn identity<'a>(item: &'a Value, key: Option<&str>) -> &'a Value {
    key.map_or(item, |key| &item[key])
}

/// Elements that the patch names come in the patch's order; the others keep the server's order among themselves
/// and stand before a named one only where they stood before it on the server.
fn ordered(merged: Vec<Value>, patch: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| {
        list.iter().position(|other| identity(other, key) == identity(item, key))
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(patch, item).is_some());
    named.sort_by_key(|item| place(patch, item));
    others.sort_by_key(|item| place(server, item));
    let mut result = Vec::new();
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(other), Some(name)) = (others.peek(), named.peek()) {
        let other_first = match (place(server, other), place(server, name)) {
            (Some(other), Some(name)) => other < name,
            _ => false,
        };
        result.extend(if other_first { others.next() } else { named.next() });
    }
    result.extend(others);
    result.extend(named);
    result
}

#[cfg(test)]
mod tests;
