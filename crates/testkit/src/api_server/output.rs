//! How objects leave the server: whole, or as their metadata alone.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::list::Page;

/// What the `Accept` header asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Objects as they are.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

impl Output {
    /// Reads an `Accept` header.
    pub(crate) fn negotiated(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") { Self::Metadata } else { Self::Whole }
    }

    /// One object.
    pub(crate) fn object(self, object: &Value) -> Bytes {
        match self {
            Self::Metadata if object["kind"] != "Status" => bytes_of(&metadata_only(object)),
            _ => bytes_of(object),
        }
    }

    /// One line of a watch.
    pub(crate) fn event(self, kind: &str, object: &Value, line: &mut Vec<u8>) {
        let start = line.len();
        let written = match self {
            Self::Whole => serde_json::to_writer(&mut *line, &Event { kind, object }),
            Self::Metadata => {
                serde_json::to_writer(&mut *line, &Event { kind, object: &metadata_only(object) })
            }
        };
        match written {
            Ok(()) => line.push(b'\n'),
            Err(_) => line.truncate(start),
        }
    }

    /// A page of a list.
    pub(crate) fn page(self, kind: &Kind, page: &Page) -> Bytes {
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(token) = &page.continue_token {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        let (list_kind, version) = match self {
            Self::Whole => (format!("{}List", kind.kind), kind.api_version()),
            Self::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let head = json!({"kind": list_kind, "apiVersion": version, "metadata": metadata}).to_string();
        let mut body = head.into_bytes();
        body.pop();
        body.extend_from_slice(b",\"items\":[");
        for (index, item) in page.items.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            match self {
                Self::Whole => body.extend(bytes_of(&Item(item))),
                Self::Metadata => body.extend(bytes_of(&metadata_only(item))),
            }
        }
        body.extend_from_slice(b"]}");
        Bytes::from(body)
    }
}

fn bytes_of(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

struct Event<'a> {
    kind: &'a str,
    object: &'a Value,
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", self.kind)?;
        map.serialize_entry("object", self.object)?;
        map.end()
    }
}

/// An element of a list: the real server leaves out what the list's own kind says already.
struct Item<'a>(&'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = Map::new();
        let fields = self.0.as_object().unwrap_or(&empty);
        serializer.collect_map(fields.iter().filter(|(key, _)| *key != "kind" && *key != "apiVersion"))
    }
}
