//! The three patch formats, applied to the stored object. What may be changed is for `write::update` to say.

use serde_json::Value;

use super::kinds::Kind;
use super::status_error::StatusError;

mod strategic;

/// A patch as it arrived.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(json_patch::Patch),
    /// Kubernetes' own, which knows the keys of lists.
    Strategic(Value),
}

impl Patch {
    /// Reads the body of a PATCH.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self, StatusError> {
        let unreadable =
            |e: serde_json::Error| StatusError::bad_request(format!("error decoding patch: {e}"));
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => {
                serde_json::from_slice(body).map(Self::Merge).map_err(unreadable)
            }
            "application/json-patch+json" => serde_json::from_slice(body).map(Self::Json).map_err(unreadable),
            "application/strategic-merge-patch+json" => {
                serde_json::from_slice(body).map(Self::Strategic).map_err(unreadable)
            }
            "application/apply-patch+yaml" => Err(StatusError::unsupported_media_type(
                "server-side apply is not served here: tests that need it run on the real server",
            )),
            _ => Err(StatusError::unsupported_media_type("415: Unsupported Media Type")),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, kind: &Kind, object: &Value) -> Result<Value, StatusError> {
        let mut patched = object.clone();
        match self {
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Json(patch) => {
                json_patch::patch(&mut patched, patch).map_err(|_| rejected())?;
            }
            Self::Strategic(patch) => patched = strategic::apply(kind, patched, patch)?,
        }
        Ok(patched)
    }
}

/// A JSON patch whose test fails or whose path leads nowhere.
fn rejected() -> StatusError {
    StatusError::new(422, "Invalid", "the server rejected our request due to an error in our request")
}
