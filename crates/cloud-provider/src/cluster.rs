//! Which cluster this is: the name people gave it, and the identity nobody else has.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A cluster's name and its unique identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterIdentity {
    name: String,
    id: Option<ClusterId>,
}

/// What tells this cluster from every other: the UID of its `kube-system` namespace, or a configured ID where that
/// may not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClusterId {
    /// The UID of the `kube-system` namespace.
    NamespaceUid(String),
    /// An ID that a person configured.
    Configured(String),
}

impl ClusterId {
    /// The ID as it is written into tags.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NamespaceUid(id) | Self::Configured(id) => id,
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ClusterIdentity {
    /// The value of `--cluster-name` when nobody says otherwise. Many clusters carry it: a name proves nothing.
    pub const DEFAULT_NAME: &'static str = "kubernetes";

    /// A cluster whose identity is known.
    pub fn new(name: impl Into<String>, id: ClusterId) -> Self {
        Self { name: name.into(), id: Some(id) }
    }

    /// A cluster of which only the name is known. It can prove ownership of nothing by tag.
    pub fn unidentified(name: impl Into<String>) -> Self {
        Self { name: name.into(), id: None }
    }

    /// The value of `--cluster-name`: what upstream hands to every load balancer and route call.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unique identity, where known.
    pub fn id(&self) -> Option<&ClusterId> {
        self.id.as_ref()
    }
}

impl Default for ClusterIdentity {
    fn default() -> Self {
        Self::unidentified(Self::DEFAULT_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: IFACE-16
    #[test]
    fn a_cluster_nobody_named_is_called_kubernetes() {
        assert_eq!(ClusterIdentity::default().name(), "kubernetes");
        assert_eq!(ClusterIdentity::default().id(), None);
    }
}
