//! Stories: what happens to an API server, and what came of it. A story is told through a client, so the same story
//! runs on the server in virtual time and on the real one; what it recorded is normalised and can be compared.
//!
//! A story keeps to a namespace and a name prefix of its own, so that many of them share one server.

use std::time::Duration;

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::Namespace;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api_server::{Scoped, Verb};

mod difference;
mod normal;
mod outcome;

pub use difference::difference;
pub use outcome::Outcome;

use normal::Normaliser;

/// How long a story waits for a condition. History is kept for up to ten minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// A patch in one of the three formats.
#[derive(Debug, Clone)]
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// Kubernetes' own.
    Strategic(Value),
}

impl Patch {
    fn content_type(&self) -> &'static str {
        match self {
            Self::Merge(_) => "application/merge-patch+json",
            Self::Json(_) => "application/json-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    fn body(&self) -> &Value {
        match self {
            Self::Merge(body) | Self::Json(body) | Self::Strategic(body) => body,
        }
    }
}

/// A kind that stories can be told about.
pub trait Subject: Resource<Scope: Scoped> + Serialize {}

impl<K: Resource<Scope: Scoped> + Serialize> Subject for K {}

/// A story while it is told.
pub struct Story {
    client: kube::Client,
    name: String,
    record: Vec<(String, Value)>,
    normaliser: Normaliser,
}

impl Story {
    /// Begins a story; `name` becomes its namespace and the prefix of its cluster-scoped objects.
    pub async fn begin(client: kube::Client, name: &str) -> Self {
        let story =
            Self { client, name: name.to_owned(), record: Vec::new(), normaliser: Normaliser::default() };
        let namespace = json!({"metadata": {"name": name}});
        let created =
            story.send("POST", &path::<Namespace>("", "", ""), "application/json", &namespace).await;
        assert!([201, 409].contains(&created.code), "creating namespace {name}: {created:?}");
        story
    }

    /// What the story recorded, normalised: identifiers, versions and times are numbered, not shown.
    pub fn record(&self) -> &[(String, Value)] {
        &self.record
    }

    /// The client through which the story is told.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The story's namespace.
    pub fn namespace(&self) -> &str {
        &self.name
    }

    /// The name that an object of the kind has on the server.
    pub fn full_name<K: Subject>(&self, name: &str) -> String {
        let plain = <K::Scope as Scoped>::NAMESPACED || name.is_empty();
        if plain { name.to_owned() } else { format!("{}-{name}", self.name) }
    }

    fn path<K: Subject>(&self, name: &str, subresource: &str) -> String {
        let namespace = if <K::Scope as Scoped>::NAMESPACED { self.name.as_str() } else { "" };
        path::<K>(namespace, &self.full_name::<K>(name), subresource)
    }

    /// Gives an object the story's prefix, or leaves it to the namespace in the URL.
    fn placed<K: Subject>(&self, mut object: Value) -> Value {
        if !<K::Scope as Scoped>::NAMESPACED
            && let Some(name) = object["metadata"]["name"].as_str()
            && !name.starts_with(&self.name)
        {
            object["metadata"]["name"] = json!(self.full_name::<K>(name));
        }
        object
    }

    /// Creates an object.
    pub async fn create<K: Subject>(&mut self, object: impl Into<K>) -> Outcome {
        let object =
            serde_json::to_value(object.into()).unwrap_or_else(|e| panic!("encoding a {}: {e}", K::KIND));
        self.create_raw::<K>(object).await
    }

    /// Creates an object from JSON, be it ever so wrong.
    pub async fn create_raw<K: Subject>(&mut self, object: Value) -> Outcome {
        let object = self.placed::<K>(object);
        let path = self.path::<K>("", "");
        self.step(
            Verb::Create,
            &format!("{} {}", K::KIND, object["metadata"]["name"]),
            "POST",
            &path,
            &object,
        )
        .await
    }

    /// Reads an object.
    pub async fn get<K: Subject>(&mut self, name: &str) -> Outcome {
        self.get_with::<K>(name, "").await
    }

    /// Reads an object with query parameters.
    pub async fn get_with<K: Subject>(&mut self, name: &str, query: &str) -> Outcome {
        let path = format!("{}?{query}", self.path::<K>(name, ""));
        self.step(Verb::Get, &format!("{} {name} {query}", K::KIND), "GET", &path, &Value::Null).await
    }

    /// Replaces an object by JSON.
    pub async fn put<K: Subject>(&mut self, name: &str, object: Value) -> Outcome {
        self.put_subresource::<K>(name, "", object).await
    }

    /// Replaces a subresource by JSON.
    pub async fn put_subresource<K: Subject>(
        &mut self,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Outcome {
        let object = self.placed::<K>(object);
        let path = self.path::<K>(name, subresource);
        self.step(Verb::Update, &format!("{} {name} {subresource}", K::KIND), "PUT", &path, &object).await
    }

    /// Patches an object.
    pub async fn patch<K: Subject>(&mut self, name: &str, patch: Patch) -> Outcome {
        self.patch_subresource::<K>(name, "", patch).await
    }

    /// Patches the status of an object.
    pub async fn patch_status<K: Subject>(&mut self, name: &str, patch: Patch) -> Outcome {
        self.patch_subresource::<K>(name, "status", patch).await
    }

    async fn patch_subresource<K: Subject>(
        &mut self,
        name: &str,
        subresource: &str,
        patch: Patch,
    ) -> Outcome {
        let what = format!("patch {} {name} {subresource} {}", K::KIND, patch.body());
        let url = self.path::<K>(name, subresource);
        let outcome = self.send("PATCH", &url, patch.content_type(), patch.body()).await;
        self.keep(what, outcome)
    }

    /// Deletes an object.
    pub async fn delete<K: Subject>(&mut self, name: &str) -> Outcome {
        self.delete_with::<K>(name, Value::Null).await
    }

    /// Deletes an object with `DeleteOptions`.
    pub async fn delete_with<K: Subject>(&mut self, name: &str, options: Value) -> Outcome {
        let path = self.path::<K>(name, "");
        self.step(Verb::Delete, &format!("{} {name} {options}", K::KIND), "DELETE", &path, &options).await
    }

    /// Lists the story's objects of a kind.
    pub async fn list<K: Subject>(&mut self, query: &str) -> Outcome {
        let path = format!("{}?{query}", self.path::<K>("", ""));
        self.step(
            Verb::List,
            &format!("{} {}", K::KIND, normal::shown_query(query)),
            "GET",
            &path,
            &Value::Null,
        )
        .await
    }

    /// Posts to a path below the kind's collection, such as `x/token`.
    pub async fn post_below<K: Subject>(&mut self, below: &str, body: Value) -> Outcome {
        let path = format!("{}/{below}", self.path::<K>("", ""));
        self.step(Verb::Create, &format!("{} {below}", K::KIND), "POST", &path, &body).await
    }

    /// Sends anything anywhere.
    pub async fn request(&mut self, method: &str, path: &str, content_type: &str, body: &str) -> Outcome {
        let what = format!("{method} {path}");
        let request = request(method, path, content_type, body.as_bytes().to_vec());
        let outcome = self.exchange(request).await;
        self.keep(what, outcome)
    }

    /// Reads a path in the representation that `accept` names.
    pub async fn request_accepting(&mut self, path: &str, accept: &str) -> Outcome {
        let mut request = request("GET", path, "", Vec::new());
        if let Ok(accept) = http::HeaderValue::from_str(accept) {
            request.headers_mut().insert(http::header::ACCEPT, accept);
        }
        let outcome = self.exchange(request).await;
        self.keep(format!("GET {path} as {accept}"), outcome)
    }

    /// Watches the story's objects and records the first `count` events, or all until the server ends the watch.
    pub async fn watch<K: Subject>(&mut self, query: &str, count: usize) -> Vec<Value> {
        self.watch_during::<K, _>(query, count, std::future::ready(())).await
    }

    /// As [`Story::watch`]; `meanwhile` happens once the watch has begun.
    pub async fn watch_during<K: Subject, F>(&mut self, query: &str, count: usize, meanwhile: F) -> Vec<Value>
    where
        F: Future<Output = ()>,
    {
        let path = format!("{}?watch=true&{query}", self.path::<K>("", ""));
        let what = format!("watch {} {}", K::KIND, normal::shown_query(query));
        let request = request("GET", &path, "", Vec::new());
        let events = match self.client.request_stream(request).await {
            Ok(lines) => {
                meanwhile.await;
                let events = lines.lines().take(count).map_ok(|line| parsed(&line)).try_collect::<Vec<_>>();
                match tokio::time::timeout(PATIENCE, events).await {
                    Ok(Ok(events)) => events,
                    other => panic!("{what}: {other:?}"),
                }
            }
            Err(kube::Error::Api(status)) => vec![json!({"type": "REFUSED", "object": status})],
            Err(error) => panic!("{what}: {error}"),
        };
        for event in &events {
            let record = self.normaliser.event(event);
            self.record.push((what.clone(), record));
        }
        events
    }

    /// Repeats a list until the server answers this code. Only the last answer is recorded.
    pub async fn list_until<K: Subject>(&mut self, query: &str, code: u16) -> Outcome {
        let path = format!("{}?{query}", self.path::<K>("", ""));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let outcome = self.send("GET", &path, "", &Value::Null).await;
            if outcome.code == code {
                return self.keep(format!("list {} until {code}", K::KIND), outcome);
            }
            assert!(tokio::time::Instant::now() < deadline, "still {} instead of {code}", outcome.code);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn step(&mut self, verb: Verb, about: &str, method: &str, path: &str, body: &Value) -> Outcome {
        let outcome = self.send(method, path, "application/json", body).await;
        self.keep(format!("{verb} {about}"), outcome)
    }

    fn keep(&mut self, what: String, outcome: Outcome) -> Outcome {
        let record = self.normaliser.outcome(&outcome);
        self.record.push((what, record));
        outcome
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Outcome {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.exchange(request(method, path, content_type, bytes)).await
    }

    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Outcome {
        let what = format!("{} {}", request.method(), request.uri());
        let answer = self.client.send(request.map(kube::client::Body::from)).await;
        let answer = answer.unwrap_or_else(|e| panic!("{what}: {e}"));
        let code = answer.status().as_u16();
        let body = answer.into_body().collect_bytes().await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Outcome { code, body: serde_json::from_slice(&body).unwrap_or_else(|_| text()) }
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("reading the event {line}: {e}"))
}

fn request(method: &str, path: &str, content_type: &str, body: Vec<u8>) -> http::Request<Vec<u8>> {
    let mut request = http::Request::builder().method(method).uri(path);
    if !content_type.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, content_type);
    }
    request.body(body).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
}

fn path<K: Resource>(namespace: &str, name: &str, subresource: &str) -> String {
    let group = if K::GROUP.is_empty() { "/api".to_owned() } else { format!("/apis/{}", K::GROUP) };
    let namespaces = if namespace.is_empty() { "" } else { "namespaces" };
    let parts = [group.as_str(), K::VERSION, namespaces, namespace, K::URL_PATH_SEGMENT, name, subresource];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
