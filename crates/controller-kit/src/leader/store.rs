//! Where the Lease lives: the API server, or a store in memory for tests.

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{GetParams, PostParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde_json::Value;

use super::record::Lease;

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such Lease.
    #[error("lease does not exist")]
    NotFound,
    /// Somebody else wrote or created it since it was read.
    #[error("lease was written by another")]
    Conflict,
    /// The role does not allow it.
    #[error("access to the lease is forbidden")]
    Forbidden(#[source] BoxError),
    /// No answer came in time; the write may have happened.
    #[error("no answer in time")]
    Timeout,
    /// Anything else; a write may have happened.
    #[error("calling the API server")]
    Other(#[source] BoxError),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The Lease after each change; `None` once it is deleted.
pub type LeaseWatch = BoxStream<'static, Result<Option<Lease>, StoreError>>;

/// One Lease. Implementations must not retry: the elector knows how long it may take.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Reads it.
    async fn get(&self) -> Result<Lease, StoreError>;
    /// Creates it; [`StoreError::Conflict`] if it exists.
    async fn create(&self, lease: &Lease) -> Result<Lease, StoreError>;
    /// Replaces it; [`StoreError::Conflict`] if its resourceVersion is no longer the one in `lease`.
    async fn update(&self, lease: &Lease) -> Result<Lease, StoreError>;
    /// Watches it from a resourceVersion on.
    async fn watch(&self, resource_version: &str) -> Result<LeaseWatch, StoreError>;
}

/// A Lease on the API server.
#[derive(Clone)]
pub struct KubeLease {
    client: Client,
    request: Request,
    name: String,
}

impl KubeLease {
    /// The Lease `name` in `namespace`.
    ///
    /// Give it a client of its own, built with `kube::Config::default_retry = false`: a client that retries on its own
    /// hides failed renewals until the lease is gone.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let request = Request::new(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"));
        Self { client, request, name: name.to_owned() }
    }

    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Lease, StoreError> {
        let request = request.map_err(|error| StoreError::Other(error.into()))?;
        self.client.request::<Value>(request).await.map(Lease::from_json).map_err(classify)
    }
}

impl fmt::Debug for KubeLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeLease")
            .field("path", &self.request.url_path)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for KubeLease {
    async fn get(&self) -> Result<Lease, StoreError> {
        self.send(self.request.get(&self.name, &GetParams::default())).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, StoreError> {
        self.send(self.request.create(&PostParams::default(), body(lease))).await
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, StoreError> {
        self.send(self.request.replace(&self.name, &PostParams::default(), body(lease))).await
    }

    async fn watch(&self, resource_version: &str) -> Result<LeaseWatch, StoreError> {
        // By name, so that a role that allows this one Lease is enough.
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let request =
            self.request.watch(&params, resource_version).map_err(|error| StoreError::Other(error.into()))?;
        let events = self.client.request_events::<Value>(request).await.map_err(classify)?;
        Ok(events.filter_map(|event| std::future::ready(change(event))).boxed())
    }
}

fn change(event: kube::Result<WatchEvent<Value>>) -> Option<Result<Option<Lease>, StoreError>> {
    match event {
        Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => Some(Ok(Some(Lease::from_json(lease)))),
        Ok(WatchEvent::Deleted(_)) => Some(Ok(None)),
        Ok(WatchEvent::Bookmark(_)) => None,
        Ok(WatchEvent::Error(status)) => Some(Err(classify(kube::Error::Api(status)))),
        Err(error) => Some(Err(classify(error))),
    }
}

fn body(lease: &Lease) -> Vec<u8> {
    lease.as_json().to_string().into_bytes()
}

fn classify(error: kube::Error) -> StoreError {
    let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
    match code {
        404 => StoreError::NotFound,
        409 => StoreError::Conflict,
        403 => StoreError::Forbidden(error.into()),
        _ => StoreError::Other(error.into()),
    }
}
