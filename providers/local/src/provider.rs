//! The provider: from a config and a context to a cloud.

use std::sync::Arc;

use cloud_provider::{Cloud, Context, Error, Provider};

use crate::config::{Config, DataPlaneChoice, Machines};
use crate::instances::{Adopted, Inventoried};
use crate::inventory::{InventoryFile, Source, Watched};
use crate::load_balancers::Balancers;
use crate::plane::DataPlane;
use crate::proxy::{Client, Keeper};
use crate::{NAME, command};

/// The provider, for the list of a binary.
pub const PROVIDER: Provider = Provider::new(
    NAME,
    "machines without a cloud: an inventory, pools of addresses, and a load balancer of their own",
    |context| Box::pin(build(context)),
)
.with_commands(command::ALL);

async fn build(context: Context) -> Result<Cloud, Error> {
    let config = Config::of(context.config.as_ref())?;
    let plane: Option<Arc<dyn DataPlane>> = match &config.data_plane {
        _ if config.pools.is_empty() => None,
        DataPlaneChoice::Socket(path) => Some(Arc::new(Client::at(path))),
        DataPlaneChoice::InProcess => {
            tracing::warn!(
                "The load balancer runs in the manager's own process: its connections end with the manager. \
                 Set dataPlane.socket and run the proxy beside the manager to keep them"
            );
            Some(Arc::new(Keeper::in_memory()))
        }
    };
    cloud_over(&config, &context, plane).await
}

/// Builds the cloud over this data plane; without one there is no slot for load balancers. Changes nothing.
pub async fn cloud_over(
    config: &Config,
    context: &Context,
    plane: Option<Arc<dyn DataPlane>>,
) -> Result<Cloud, Error> {
    let inventory = match &config.machines {
        Machines::Adopt => None,
        Machines::Inventory(path) => Some(Arc::new(InventoryFile(path.clone())) as Arc<dyn Source>),
    };
    cloud_from(config, context, plane, inventory).await
}

/// The same with the inventory read from elsewhere than the file that the config names.
pub async fn cloud_from(
    config: &Config,
    context: &Context,
    plane: Option<Arc<dyn DataPlane>>,
    inventory: Option<Arc<dyn Source>>,
) -> Result<Cloud, Error> {
    let mut cloud = Cloud::new(NAME);
    cloud = if let Some(source) = inventory {
        let metrics = Arc::clone(&context.metrics);
        let watched = Watched::open(source, &config.site, config.defaults.clone(), metrics).await?;
        cloud.with_instances(Arc::new(Inventoried::new(&config.site, Arc::new(watched))))
    } else {
        tracing::info!("There is no inventory: each Node is taken as its own machine");
        cloud.with_instances(Arc::new(Adopted::new(&config.site, config.defaults.clone())))
    };
    match plane {
        Some(plane) if !config.pools.is_empty() => {
            Ok(cloud.with_load_balancers(Arc::new(Balancers::new(plane, config, context))))
        }
        _ => {
            tracing::info!("The config names no pool of addresses: load balancers are not offered");
            Ok(cloud)
        }
    }
}
