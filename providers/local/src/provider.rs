//! The provider: from a config and a context to a cloud.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cloud_provider::{Cloud, Context, Error, Provider};

use crate::config::{Config, DataPlaneChoice, KernelChoice, Machines};
use crate::instances::{Adopted, Inventoried};
use crate::inventory::{InventoryFile, Source, Watched};
use crate::load_balancers::Balancers;
use crate::nft::{Nft, Options};
use crate::plane::DataPlane;
use crate::proxy::{Client, Keeper};
use crate::{NAME, command, routes};

/// The provider, for the list of a binary.
pub const PROVIDER: Provider = Provider::new(
    NAME,
    "machines without a cloud: an inventory, pools of addresses, and a load balancer of their own",
    |context| Box::pin(build(context)),
)
.with_commands(command::ALL)
.reading_endpoints();

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
            Some(proxy_of_this_process())
        }
        DataPlaneChoice::Kernel(choice) => Some(kernel_of_this_machine(choice, &context).await?),
    };
    let cloud = cloud_over(&config, &context, plane).await?;
    if config.routes {
        return Ok(routes::offer(cloud, &context));
    }
    tracing::info!("The config does not say `routes: true`: routes are not offered");
    Ok(cloud)
}

/// The proxy of this process, while a cloud uses it. It is the one thing here that is not handed in: a new version of the
/// config builds a second cloud beside the first, and the addresses and ports that the first one listens at are the
/// process's own.
static PROXY: Mutex<Weak<Keeper>> = Mutex::new(Weak::new());

fn proxy_of_this_process() -> Arc<Keeper> {
    let mut known = PROXY.lock().unwrap_or_else(PoisonError::into_inner);
    known.upgrade().unwrap_or_else(|| {
        let keeper = Arc::new(Keeper::in_memory());
        *known = Arc::downgrade(&keeper);
        keeper
    })
}

/// The kernel's data plane, while a cloud uses it: there is one kernel, so there is one keeper of its tables.
static KERNEL: tokio::sync::Mutex<Option<(KernelChoice, Weak<Nft>)>> = tokio::sync::Mutex::const_new(None);

async fn kernel_of_this_machine(choice: &KernelChoice, context: &Context) -> Result<Arc<Nft>, Error> {
    let mut known = KERNEL.lock().await;
    if let Some((before, plane)) = known.as_ref()
        && let Some(plane) = plane.upgrade()
    {
        if before == choice {
            return Ok(plane);
        }
        return Err(Error::invalid_config("changing dataPlane while the manager runs")
            .because("it is taken up by a restart, which interrupts nobody"));
    }
    let plane = Nft::open(Options::of(choice), context).await;
    let plane = Arc::new(plane.map_err(|error| Error::from_source("taking up the data plane nft", error))?);
    *known = Some((choice.clone(), Arc::downgrade(&plane)));
    Ok(plane)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cloud_provider::{Capability, CloudConfig, Decision};

    use super::*;

    const POOLS: &str = "pools: [{name: lan, addresses: [127.88.200.1]}]";

    async fn built(text: &str) -> Result<Cloud, Error> {
        build(Context::inert().with_config(Some(CloudConfig::from_bytes(Path::new("local.yaml"), text))))
            .await
    }

    #[tokio::test]
    async fn a_new_version_of_the_config_finds_the_proxy_of_the_one_before() {
        let before = built(POOLS).await.unwrap();
        let first = Arc::as_ptr(&proxy_of_this_process());
        let after = built(&format!("site: renamed\n{POOLS}")).await.unwrap();
        assert!(before.can(Capability::LoadBalancers) && after.can(Capability::LoadBalancers));
        drop(before);
        assert_eq!(Arc::as_ptr(&proxy_of_this_process()), first, "the second cloud keeps it");
    }

    #[tokio::test]
    async fn routes_are_offered_where_they_are_asked_for_and_may_be_made() {
        assert!(!built("site: lab").await.unwrap().can(Capability::Routes));
        let offered = built("routes: true").await.unwrap().can(Capability::Routes);
        assert_eq!(offered, crate::netlink::may_administer());
    }

    #[tokio::test]
    async fn without_pools_there_are_no_load_balancers_and_a_missing_inventory_is_told_by_name() {
        assert!(!built("site: lab").await.unwrap().can(Capability::LoadBalancers));
        let error = built("inventory: /nowhere/machines.yaml").await.unwrap_err();
        assert_eq!(error.decision(), &Decision::InvalidConfig);
        assert!(error.report().contains("/nowhere/machines.yaml"), "{}", error.report());
    }
}
