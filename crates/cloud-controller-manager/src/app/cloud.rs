//! The provider, built; and what it can do, said.

use anyhow::{Context as _, bail};
use cloud_provider::{Capability, Cloud, CloudConfig, ClusterIdKnowledge, Context};

use crate::config::Config;

/// Reads the cloud config and builds the provider.
pub(super) async fn build(config: &Config, context: Context) -> anyhow::Result<Cloud> {
    let name = config.provider.name;
    let file = config.cloud_config.as_deref().map(CloudConfig::read).transpose()?;
    let cloud = (config.provider.build)(context.with_config(file))
        .await
        .with_context(|| format!("could not init cloud provider {name:?}"))?;
    match &cloud.cluster_id {
        ClusterIdKnowledge::Missing(remedy) if config.allow_untagged_cloud => tracing::warn!(
            remedy,
            "Detected a cluster without a cluster ID. A cluster ID will be required in the future"
        ),
        ClusterIdKnowledge::Missing(remedy) => bail!(
            "no cluster ID found: a cluster ID is required for cloud provider {name:?} to work properly: {remedy}"
        ),
        ClusterIdKnowledge::NotNeeded | ClusterIdKnowledge::Known(_) => {}
    }
    Ok(cloud)
}

/// One line that lists what the cloud can do, and one for each thing that it cannot.
pub(super) fn say_what_it_can_do(cloud: &Cloud) {
    let (can, cannot): (Vec<Capability>, Vec<Capability>) =
        Capability::ALL.into_iter().partition(|capability| cloud.can(*capability));
    let can: Vec<&str> = can.into_iter().map(Capability::name).collect();
    tracing::info!(provider = cloud.name, capabilities = can.join(", "), "Built the cloud provider");
    for capability in cannot {
        tracing::info!(provider = cloud.name, "{}", capability.missing());
    }
}
