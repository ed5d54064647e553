//! What a data plane answers about itself: what of the intent is true.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Backend, Listener, PortKey, Uid};

/// The state of a data plane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The revision of the intent in force.
    pub revision: u64,
    /// The balancers, by the UID of their Service.
    pub balancers: BTreeMap<Uid, BalancerStatus>,
}

/// The state of one balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BalancerStatus {
    /// Its addresses and ports.
    pub listeners: Vec<ListenerStatus>,
    /// Its backends, those that still drain included.
    pub backends: Vec<BackendStatus>,
    /// What it is asked for and cannot do, in words for an Event.
    pub problems: Vec<String>,
}

/// The state of one address and port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Which one.
    pub listener: Listener,
    /// Why it is not open; `None` if it is.
    pub failure: Option<String>,
}

/// The state of one backend of one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// The port that it serves.
    pub port: PortKey,
    /// Which one.
    pub backend: Backend,
    /// What the health check says.
    pub health: Health,
    /// TCP connections and UDP clients that it has; `None` where they are not counted.
    pub connections: Option<u64>,
    /// Whether it left the intent and only keeps what it has.
    pub draining: bool,
}

/// What a health check says of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// There is no check: it counts as healthy.
    Unchecked,
    /// Not answered yet: used only if none is healthy.
    Unknown,
    /// It serves.
    Healthy,
    /// It does not.
    Unhealthy {
        /// The last failure.
        why: String,
    },
}

impl Status {
    /// Whether every listener of this balancer is open.
    pub fn is_open(&self, uid: &str) -> bool {
        self.balancers
            .get(uid)
            .is_some_and(|balancer| balancer.listeners.iter().all(|listener| listener.failure.is_none()))
    }
}
