//! Clusters, surrounded.

use async_trait::async_trait;
use cloud_provider::{Clusters, Error};

use super::super::operation::Operation;
use super::Around;

#[async_trait]
impl Clusters for Around<dyn Clusters> {
    async fn list(&self) -> Result<Vec<String>, Error> {
        self.make(Operation::ListClusters, async { self.slot.list().await }).await
    }

    async fn control_plane_address(&self, cluster: &str) -> Result<String, Error> {
        let call = async { self.slot.control_plane_address(cluster).await };
        self.make(Operation::GetControlPlaneAddress, call).await
    }
}
