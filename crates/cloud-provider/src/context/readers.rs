//! What the caches know. A provider never asks the API server itself.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};

/// The Nodes of the cluster. Objects are trimmed: images and managed fields are gone.
pub trait NodeReader: Send + Sync + 'static {
    /// One Node.
    fn get(&self, name: &str) -> Option<Arc<Node>>;

    /// All Nodes, by name.
    fn list(&self) -> Vec<Arc<Node>>;

    /// Whether the first list is complete; before that, absence means nothing.
    fn is_synced(&self) -> bool;
}

/// The Services of the cluster.
pub trait ServiceReader: Send + Sync + 'static {
    /// One Service.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Service>>;

    /// All Services, by namespace and name.
    fn list(&self) -> Vec<Arc<Service>>;

    /// Whether the first list is complete; before that, absence means nothing.
    fn is_synced(&self) -> bool;
}
