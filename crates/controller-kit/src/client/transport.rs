//! The connection pool that all clients stand on, exchangeable while they are in use.

use std::sync::{PoisonError, RwLock};

use http::{Request, Response};
use kube::client::Body;

/// The pool and what is known of the server behind it.
pub(super) struct Transport {
    current: RwLock<Current>,
    default_namespace: String,
}

struct Current {
    client: kube::Client,
    host: String,
    fingerprint: u64,
}

impl Transport {
    pub(super) fn new(client: kube::Client, host: String, default_namespace: String) -> Self {
        Self { current: RwLock::new(Current { client, host, fingerprint: 0 }), default_namespace }
    }

    /// Sends one request over whatever pool is in use now; requests under way stay on theirs.
    pub(super) async fn send(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        let client = self.read(|current| current.client.clone());
        client.send(request).await
    }

    pub(super) fn host(&self) -> String {
        self.read(|current| current.host.clone())
    }

    pub(super) fn default_namespace(&self) -> String {
        self.default_namespace.clone()
    }

    /// What the files looked like from which the pool in use was made.
    pub(super) fn fingerprint(&self) -> u64 {
        self.read(|current| current.fingerprint)
    }

    pub(super) fn remember(&self, fingerprint: u64) {
        self.current.write().unwrap_or_else(PoisonError::into_inner).fingerprint = fingerprint;
    }

    pub(super) fn replace(&self, client: kube::Client, host: String, fingerprint: u64) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Current { client, host, fingerprint };
    }

    fn read<T>(&self, question: impl FnOnce(&Current) -> T) -> T {
        question(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}
