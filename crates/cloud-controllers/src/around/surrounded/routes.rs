//! Routes, surrounded.

use async_trait::async_trait;
use cloud_provider::{Changes, ClusterIdentity, Error, Route, Routes};

use super::super::operation::Operation;
use super::Around;

#[async_trait]
impl Routes for Around<dyn Routes> {
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        self.make(Operation::ListRoutes, async { self.slot.list(cluster).await }).await
    }

    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        let call = async { self.slot.create(cluster, hint, route, changes).await };
        self.make(Operation::CreateRoute, call).await
    }

    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error> {
        self.make(Operation::DeleteRoute, async { self.slot.delete(cluster, route, changes).await }).await
    }
}
