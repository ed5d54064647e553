//! Nodes and Services out of lists that a test fills.

use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::context::{NodeReader, ServiceReader};
use k8s_openapi::api::core::v1::{Node, Service};

/// Nodes out of a list.
#[derive(Debug, Default)]
pub struct Nodes(Mutex<Vec<Arc<Node>>>);

impl Nodes {
    /// From now on there are these.
    pub fn set(&self, nodes: Vec<Arc<Node>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }
}

impl NodeReader for Nodes {
    fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.list().into_iter().find(|node| node.metadata.name.as_deref() == Some(name))
    }

    fn list(&self) -> Vec<Arc<Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_synced(&self) -> bool {
        true
    }
}

/// Services out of a list.
#[derive(Debug, Default)]
pub struct Services(Mutex<Vec<Arc<Service>>>);

impl Services {
    /// From now on there are these.
    pub fn set(&self, services: Vec<Arc<Service>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = services;
    }
}

impl ServiceReader for Services {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        let wanted = (Some(namespace), Some(name));
        self.list().into_iter().find(|service| {
            (service.metadata.namespace.as_deref(), service.metadata.name.as_deref()) == wanted
        })
    }

    fn list(&self) -> Vec<Arc<Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_synced(&self) -> bool {
        true
    }
}
