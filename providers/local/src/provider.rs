//! The provider: from a config and a context to a cloud.

use std::sync::Arc;

use cloud_provider::{Cloud, Context, Error};

use crate::NAME;
use crate::config::{Config, Machines};
use crate::instances::{Adopted, Inventoried};
use crate::inventory::{InventoryFile, Source, Watched};
use crate::load_balancers::Balancers;
use crate::plane::DataPlane;

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
