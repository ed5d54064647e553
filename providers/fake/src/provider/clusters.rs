//! The clusters that the cloud knows.

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::{Clusters, Error};

use crate::api::Api;

pub(super) struct FakeClusters {
    api: Arc<dyn Api>,
}

impl FakeClusters {
    pub(super) fn new(api: Arc<dyn Api>) -> Self {
        Self { api }
    }
}

#[async_trait]
impl Clusters for FakeClusters {
    async fn list(&self) -> Result<Vec<String>, Error> {
        let clusters = self.api.list_clusters().await.map_err(|error| error.during("listing clusters"))?;
        Ok(clusters.into_keys().collect())
    }

    async fn control_plane_address(&self, cluster: &str) -> Result<String, Error> {
        let attempt = format!("looking for the control plane of cluster {cluster}");
        let mut clusters = self.api.list_clusters().await.map_err(|error| error.during(&*attempt))?;
        clusters.remove(cluster).ok_or_else(|| Error::not_found(attempt))
    }
}
