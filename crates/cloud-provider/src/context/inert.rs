//! Safe nothings for every part of a context.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::jiff::Timestamp;

use super::{
    Access, BoxFuture, Clock, EventSink, EventType, Family, Leadership, Metrics, NodeReader, ServiceReader,
    Shutdown, Subject, Transport, TransportError,
};

pub(super) struct Nothing;

impl NodeReader for Nothing {
    fn get(&self, _: &str) -> Option<Arc<Node>> {
        None
    }

    fn list(&self) -> Vec<Arc<Node>> {
        Vec::new()
    }

    fn is_synced(&self) -> bool {
        false
    }
}

impl ServiceReader for Nothing {
    fn get(&self, _: &str, _: &str) -> Option<Arc<Service>> {
        None
    }

    fn list(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }

    fn is_synced(&self) -> bool {
        false
    }
}

impl EventSink for Nothing {
    fn record(&self, _: &Subject, _: EventType, _: &str, _: &str) {}
}

#[async_trait]
impl Transport for Nothing {
    async fn send(&self, _: Request<Bytes>, _: Access<'_>) -> Result<Response<Bytes>, TransportError> {
        Err(TransportError::Unreachable("this context has no transport".into()))
    }
}

impl Clock for Nothing {
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

impl Shutdown for Nothing {
    fn is_requested(&self) -> bool {
        false
    }

    fn requested(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

impl Leadership for Nothing {
    fn may_act(&self) -> bool {
        false
    }

    fn leads(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

impl Metrics for Nothing {
    fn add(&self, _: &'static Family, _: &[&str], _: u64) {}

    fn set(&self, _: &'static Family, _: &[&str], _: f64) {}

    fn observe(&self, _: &'static Family, _: &[&str], _: f64) {}
}
