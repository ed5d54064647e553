//! The provider, built; and what it can do, said. [`current`] lets another take its place, [`reload`] finds the moment.

pub(super) mod current;
pub(crate) mod reload;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use cloud_provider::{Capability, Cloud, CloudConfig, ClusterIdKnowledge};
use controller_kit::lifecycle::Shutdown;

use super::Process;
use super::provider_context::Surroundings;

/// A cloud, and what ends its background work.
pub(super) struct Built {
    pub(super) cloud: Cloud,
    pub(super) end: Shutdown,
}

/// Reads the cloud config, if there is one.
pub(super) fn read_config(process: &Process) -> anyhow::Result<Option<CloudConfig>> {
    Ok(process.config.cloud_config.as_deref().map(CloudConfig::read).transpose()?)
}

/// Builds the provider from this version of its config.
pub(super) async fn build_from(
    process: &Arc<Process>,
    surroundings: &Surroundings,
    file: Option<CloudConfig>,
) -> anyhow::Result<Built> {
    let (config, end) = (&process.config, process.shutdown.child());
    let name = config.provider.name;
    let context = surroundings.context(&end).with_config(file);
    let built = (config.provider.build)(context).await;
    let checked =
        built.with_context(|| format!("could not init cloud provider {name:?}")).and_then(|cloud| {
            identified(&cloud, name, config.allow_untagged_cloud)?;
            Ok(cloud)
        });
    match checked {
        Ok(cloud) => Ok(Built { cloud, end }),
        Err(error) => {
            end.trigger();
            Err(error)
        }
    }
}

/// Whether the cloud knows what it needs to know of the cluster.
fn identified(cloud: &Cloud, name: &str, may_be_untagged: bool) -> anyhow::Result<()> {
    match &cloud.cluster_id {
        ClusterIdKnowledge::Missing(remedy) if may_be_untagged => tracing::warn!(
            remedy,
            "Detected a cluster without a cluster ID. A cluster ID will be required in the future"
        ),
        ClusterIdKnowledge::Missing(remedy) => bail!(
            "no cluster ID found: a cluster ID is required for cloud provider {name:?} to work properly: {remedy}"
        ),
        ClusterIdKnowledge::NotNeeded | ClusterIdKnowledge::Known(_) => {}
    }
    Ok(())
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
