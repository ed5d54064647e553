//! Clusters that a cloud knows. No controller asks for them; tools may.

use async_trait::async_trait;

use crate::error::Error;

/// A cloud's list of clusters.
#[async_trait]
pub trait Clusters: Send + Sync + 'static {
    /// Their names.
    async fn list(&self) -> Result<Vec<String>, Error>;

    /// The address of a cluster's control plane.
    async fn control_plane_address(&self, cluster: &str) -> Result<String, Error>;
}
