//! The only place where patches are built.
//!
//! A [`Patch`] knows its content type, its subresource and its body, and applies itself. Constructors compare what is
//! wanted with what is there and answer `None` when nothing differs: no difference, no request. Objects are never
//! replaced as a whole, because typed objects of one Kubernetes minor drop fields of the next.
//!
//! [`node`] and [`service`] hold the constructors of the controllers.

pub mod node;
pub mod service;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use kube::api::{Api, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The status subresource, where most writes of controllers go.
const STATUS: &str = "status";

/// A change of one object, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    body: Body,
    subresource: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Merge(Value),
    Strategic(Value),
    Json(json_patch::Patch),
}

impl Patch {
    /// A JSON merge patch (RFC 7386): lists are replaced as a whole, null removes.
    pub fn merge(body: Value) -> Self {
        Self { body: Body::Merge(body), subresource: None }
    }

    /// A strategic merge patch: lists are merged by the keys that the API declares.
    pub fn strategic(body: Value) -> Self {
        Self { body: Body::Strategic(body), subresource: None }
    }

    /// A JSON patch (RFC 6902).
    pub fn json(operations: json_patch::Patch) -> Self {
        Self { body: Body::Json(operations), subresource: None }
    }

    /// Replaces the value at `path` only if it is `expected` on the server, else the server answers 422. Other fields
    /// may have changed meanwhile, unlike with a resourceVersion.
    pub fn replace_if(path: &[&str], expected: Value, value: Value) -> Self {
        let path = PointerBuf::from_tokens(path.iter().copied());
        Self::json(json_patch::Patch(vec![
            PatchOperation::Test(TestOperation { path: path.clone(), value: expected }),
            PatchOperation::Replace(ReplaceOperation { path, value }),
        ]))
    }

    /// Removes the value at `path` only if it is `expected` on the server, else the server answers 422.
    pub fn remove_if(path: &[&str], expected: Value) -> Self {
        let path = PointerBuf::from_tokens(path.iter().copied());
        Self::json(json_patch::Patch(vec![
            PatchOperation::Test(TestOperation { path: path.clone(), value: expected }),
            PatchOperation::Remove(RemoveOperation { path }),
        ]))
    }

    /// The merge patch that turns `before` into `after`; `None` if they serialise alike.
    ///
    /// A merge patch cannot write nulls: a null in `after` counts as absent.
    pub fn diff<T: Serialize>(before: &T, after: &T) -> Result<Option<Self>, serde_json::Error> {
        let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
        Ok(difference(&before, &after).map(Self::merge))
    }

    /// Sends it to the status subresource.
    #[must_use]
    pub fn on_status(mut self) -> Self {
        self.subresource = Some(STATUS);
        self
    }

    /// Makes the server refuse it if the object is another one of the same name: with 422, because a UID cannot change.
    #[must_use]
    pub fn only_for_uid(self, uid: &str) -> Self {
        self.guarded("uid", uid)
    }

    /// Makes the server refuse it (409) if the object changed since it was read.
    #[must_use]
    pub fn only_for_version(self, resource_version: &str) -> Self {
        self.guarded("resourceVersion", resource_version)
    }

    fn guarded(mut self, field: &str, value: &str) -> Self {
        match &mut self.body {
            Body::Merge(body) | Body::Strategic(body) => body["metadata"][field] = json!(value),
            // `replace`, not `test`: the server then answers as it does for the other two kinds.
            Body::Json(operations) => operations.0.push(PatchOperation::Replace(ReplaceOperation {
                path: PointerBuf::from_tokens(["metadata", field]),
                value: json!(value),
            })),
        }
        self
    }

    /// What the request's content type says.
    pub fn content_type(&self) -> &'static str {
        match self.body {
            Body::Merge(_) => "application/merge-patch+json",
            Body::Strategic(_) => "application/strategic-merge-patch+json",
            Body::Json(_) => "application/json-patch+json",
        }
    }

    /// The subresource it goes to, if any.
    pub fn subresource(&self) -> Option<&'static str> {
        self.subresource
    }

    /// What is sent.
    pub fn body(&self) -> Value {
        match &self.body {
            Body::Merge(body) | Body::Strategic(body) => body.clone(),
            Body::Json(operations) => operations.0.iter().map(|operation| json!(operation)).collect(),
        }
    }

    /// Sends it and returns the object as it is afterwards.
    pub async fn apply<K>(&self, api: &Api<K>, name: &str) -> Result<K, kube::Error>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let params = PatchParams::default();
        let patch = match &self.body {
            Body::Merge(body) => kube::api::Patch::Merge(body),
            Body::Strategic(body) => kube::api::Patch::Strategic(body),
            Body::Json(operations) => kube::api::Patch::Json(operations.clone()),
        };
        match self.subresource {
            Some(subresource) => api.patch_subresource(subresource, name, &params, &patch).await,
            None => api.patch(name, &params, &patch).await,
        }
    }
}

/// What to merge into `before` to get `after`.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let present =
        |object: &Map<String, Value>, key: &String| object.get(key).is_some_and(|value| !value.is_null());
    let mut patch = Map::new();
    for key in old.keys().filter(|key| present(old, key) && !present(new, key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let change = match old.get(key) {
            Some(old) if !old.is_null() => difference(old, value),
            _ => Some(value.clone()),
        };
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
