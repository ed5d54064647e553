//! An API server in this process and in virtual time: it stores, validates, patches and streams as the real one does,
//! answers through a tower service instead of a socket, and misbehaves on demand.
//!
//! What it does not do: authentication, authorisation (beyond [`Fault::Forbidden`]), server-side apply, custom
//! resources, garbage collection. Stories that need those run on the real server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

mod admission;
mod bell;
mod faults;
mod kinds;
mod list;
mod output;
mod patch;
mod reviews;
mod route;
mod schema;
mod selector;
mod service;
mod shared;
mod state;
mod status_error;
mod store;
mod trace;
mod transport;
mod validation;
mod verbs;
mod watch;
mod write;

pub use faults::{Fault, Faults, When};
pub(crate) use kinds::Scoped;
pub use route::Verb;
pub use service::{AnswerBody, Frontend};
pub use shared::{EPOCH, Written};
pub use status_error::StatusError;
pub use trace::{Request, Requests, Trace};
pub use transport::TransportError;

use kinds::KINDS;
use route::ObjectTarget;
use shared::Shared;
use write::{Circumstances, DeleteOptions, Origin};

/// A handle to a server; clones share it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use k8s_openapi::api::core::v1::Node;
/// use testkit::{ApiServer, node};
///
/// let server = ApiServer::new(7);
/// server.create(&node("a").uninitialized().build());
/// let nodes: kube::Api<Node> = kube::Api::all(server.client());
/// assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// A new server with the namespaces that every cluster has. Everything random in it comes from `seed`. Must be
    /// called inside a tokio runtime, whose clock it follows.
    pub fn new(seed: u64) -> Self {
        let server = Self { shared: Arc::new(Shared::new(seed)) };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            server.create_value("Namespace", &serde_json::json!({"metadata": {"name": name}}));
        }
        server
    }

    /// A client of this server; the default namespace is `default`.
    pub fn client(&self) -> kube::Client {
        self.client_as("")
    }

    /// A client whose requests carry this user agent in the request log.
    pub fn client_as(&self, user_agent: &str) -> kube::Client {
        kube::Client::new(self.service_as(user_agent), "default")
    }

    /// The tower service itself, for clients that are built with layers of their own.
    pub fn service(&self) -> Frontend {
        self.service_as("")
    }

    /// The tower service, whose requests carry this user agent in the request log.
    pub fn service_as(&self, user_agent: &str) -> Frontend {
        Frontend { shared: Arc::clone(&self.shared), user_agent: user_agent.into() }
    }

    /// What goes wrong here.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.shared))
    }

    /// Everything that has happened so far.
    pub fn trace(&self) -> Trace {
        self.shared.recorder().trace.clone()
    }

    /// Every request so far.
    pub fn requests(&self) -> Requests {
        Requests::new(self.shared.recorder().requests.clone())
    }

    /// Virtual time since the server started; marks a point for [`Requests::since`].
    pub fn elapsed(&self) -> Duration {
        self.shared.elapsed()
    }

    /// The time of day here: [`EPOCH`] plus virtual time.
    pub fn now(&self) -> Timestamp {
        self.shared.now()
    }

    /// How much virtual time every request takes. A millisecond unless set: a hot loop then shows as time that
    /// passes, not as a test that never ends.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.set_latency(latency);
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.shared.revision()
    }

    /// Adds a rule that must hold after every write; what breaks it is kept for
    /// [`ApiServer::assert_invariants`].
    pub fn invariant(
        &self,
        sentence: &str,
        rule: impl Fn(&Written<'_>) -> Result<(), String> + Send + 'static,
    ) {
        self.shared.add_invariant(sentence, Box::new(rule));
    }

    /// The broken invariants so far.
    pub fn violations(&self) -> Vec<String> {
        self.shared.violations()
    }

    /// Panics when an invariant was broken.
    #[track_caller]
    pub fn assert_invariants(&self) {
        let violations = self.violations();
        assert!(
            violations.is_empty(),
            "broken invariants:\n{}\ntrace:\n{}",
            violations.join("\n"),
            self.trace()
        );
    }

    /// Decides token reviews from their `spec`; the answer is the `status`. Unless set, nobody is authenticated.
    pub fn answer_token_reviews(&self, decide: impl Fn(&Value) -> Value + Send + 'static) {
        self.shared.reviews().tokens = Box::new(decide);
    }

    /// Decides access reviews from their `spec`; the answer is the `status`. Unless set, everything is allowed.
    pub fn answer_access_reviews(&self, decide: impl Fn(&Value) -> Value + Send + 'static) {
        self.shared.reviews().access = Box::new(decide);
    }
}

/// Objects without a client: for arranging and asserting. They take no virtual time, meet no faults and do not count
/// as requests; watches see their effects.
impl ApiServer {
    /// Creates an object; panics when the server refuses it.
    #[track_caller]
    pub fn create<K: Stored>(&self, object: &K) -> K {
        self.try_create(object).unwrap_or_else(|e| panic!("creating a {}: {}", K::KIND, e.message))
    }

    /// Creates an object.
    pub fn try_create<K: Stored>(&self, object: &K) -> Result<K, StatusError> {
        let target = target_of::<K>(object.metadata().namespace.as_deref(), None);
        let answer = self.write(|state, now| write::create(state, &target, value_of(object), now))?;
        Ok(typed(&answer.body))
    }

    /// The object, where it exists. Cluster-scoped kinds ignore the namespace.
    pub fn get<K: Stored>(&self, namespace: &str, name: &str) -> Option<K> {
        let kind = kind_of::<K>();
        self.shared.state().find(kind, namespace, name).map(|object| typed(object))
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn list<K: Stored>(&self) -> Vec<K> {
        self.shared.state().store.objects(kind_of::<K>()).values().map(|object| typed(object)).collect()
    }

    /// Changes an object in place, its status too; panics when it is not there or the server refuses the change.
    #[track_caller]
    pub fn modify<K: Stored>(&self, namespace: &str, name: &str, change: impl FnOnce(&mut K)) -> K {
        let Some(mut object) = self.get::<K>(namespace, name) else {
            panic!("modifying {} {name:?}: not found", K::KIND);
        };
        change(&mut object);
        let refused = |e: StatusError| panic!("modifying {} {name:?}: {}", K::KIND, e.message);
        let target = target_of::<K>(Some(namespace), Some(name));
        let whole = self
            .write(|state, now| write::update(state, &target, value_of(&object), Origin::Patch, now))
            .unwrap_or_else(refused);
        if target.kind().status.is_none() {
            return typed(&whole.body);
        }
        object.metadata_mut().resource_version = None;
        let target = ObjectTarget { subresource: Some("status".into()), ..target };
        let status = self
            .write(|state, now| write::update(state, &target, value_of(&object), Origin::Patch, now))
            .unwrap_or_else(refused);
        typed(&status.body)
    }

    /// Deletes an object as a client would: finalizers hold it. Panics when it is not there.
    #[track_caller]
    pub fn delete<K: Stored>(&self, namespace: &str, name: &str) {
        let target = target_of::<K>(Some(namespace), Some(name));
        self.write(|state, now| write::delete(state, &target, &DeleteOptions::default(), now))
            .unwrap_or_else(|e| panic!("deleting {} {name:?}: {}", K::KIND, e.message));
    }

    fn create_value(&self, kind: &str, object: &Value) {
        let kind = kinds::named(kind).unwrap_or_else(|| panic!("{kind} is not served"));
        let target = ObjectTarget { kind, namespace: String::new(), name: None, subresource: None };
        self.write(|state, now| write::create(state, &target, object.clone(), now))
            .unwrap_or_else(|e| panic!("creating {object}: {}", e.message));
    }

    fn write(
        &self,
        write: impl FnOnce(&mut state::State, Circumstances) -> Result<write::Answer, StatusError>,
    ) -> Result<write::Answer, StatusError> {
        let before = self.shared.revision();
        let circumstances = Circumstances { now: self.shared.now(), dry_run: false };
        let elapsed = self.shared.elapsed();
        let outcome = {
            let mut state = self.shared.state();
            state.store.age(elapsed);
            write(&mut state, circumstances)
        };
        self.shared.check_invariants(before);
        outcome
    }
}

/// A kind that the server stores.
pub trait Stored: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned {}

impl<K: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned> Stored for K {}

fn target_of<K: Stored>(namespace: Option<&str>, name: Option<&str>) -> ObjectTarget {
    let kind = kind_of::<K>();
    let namespace = match namespace {
        _ if !KINDS[kind].namespaced => String::new(),
        None | Some("") => "default".to_owned(),
        Some(namespace) => namespace.to_owned(),
    };
    ObjectTarget { kind, namespace, name: name.map(str::to_owned), subresource: None }
}

fn kind_of<K: Stored>() -> kinds::KindId {
    kinds::at(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT)
        .unwrap_or_else(|| panic!("{} is not served", K::KIND))
}

fn value_of(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_else(|e| panic!("encoding an object: {e}"))
}

fn typed<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap_or_else(|e| panic!("decoding {object}: {e}"))
}

#[cfg(test)]
mod tests;
