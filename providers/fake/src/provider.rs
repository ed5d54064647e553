//! The provider: the contract's traits over this cloud's API, as an example of what a provider should do.
//!
//! It knows nothing of worlds and faults. It sees an [`Api`], asks it as a client of a real cloud would, and keeps the
//! promises of the contract whatever the cloud does.

use std::sync::Arc;

use cloud_provider::context::Context;
use cloud_provider::{Cloud, ClusterIdKnowledge, Error, Provider};
use ipnet::IpNet;

use crate::api::{Api, ApiError, Listed};
use crate::config::{Config, IpMode, Slot};
use crate::remote::Remote;
use crate::world::World;

mod adoption;
mod clusters;
mod instances;
mod load_balancers;
mod routes;
mod volumes;

pub use load_balancers::{IDLE_TIMEOUT_ANNOTATION, SERVICE_TAG};
pub use volumes::DRIVER;

/// The provider's name: the scheme of its provider IDs.
///
/// INVARIANT: it stands in `spec.providerID` of Nodes, which is write-once.
pub const NAME: &str = "fake";

/// The provider, for a binary's list.
pub const PROVIDER: Provider = Provider::new(
    NAME,
    "a cloud in this process or behind a URL that misbehaves on demand, for tests and first steps",
    |context| Box::pin(build(context)),
);

/// How the provider uses the cloud.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// Whether every Node that is looked up becomes an instance.
    pub adopt: bool,
    /// What it does not offer.
    pub lacks: Vec<Slot>,
    /// The classes of Services that it owns.
    pub classes: Vec<String>,
    /// The `ipMode` of the addresses in a Service's status.
    pub ip_mode: Option<IpMode>,
    /// The cluster's pod networks.
    pub pod_networks: Vec<IpNet>,
    /// The zones over which adopted instances are spread.
    pub zones: Vec<String>,
    /// The region of adopted instances.
    pub region: String,
    /// The type of adopted instances.
    pub instance_type: String,
}

impl From<&Config> for ProviderSettings {
    fn from(config: &Config) -> Self {
        Self {
            adopt: config.adopt,
            lacks: config.lacks.clone(),
            classes: config.classes.clone(),
            ip_mode: config.ip_mode,
            pod_networks: config.pod_networks.clone(),
            zones: config.zones.clone(),
            region: config.region.clone(),
            instance_type: config.instance_type.clone(),
        }
    }
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self::from(&Config::default())
    }
}

/// The provider over any API of this cloud.
pub fn cloud_over(api: Arc<dyn Api>, context: &Context, settings: ProviderSettings) -> Cloud {
    let lacks = settings.lacks.clone();
    let settings = Arc::new(settings);
    let cluster_id = match context.cluster.id() {
        Some(id) => ClusterIdKnowledge::Known(id.to_string()),
        // Without an ID, Services are told apart by their UIDs, which no two clusters share by accident.
        None => ClusterIdKnowledge::NotNeeded,
    };
    let mut cloud = Cloud::new(NAME)
        .with_cluster_id(cluster_id)
        .with_instances(Arc::new(instances::FakeInstances::new(Arc::clone(&api), Arc::clone(&settings))))
        .with_load_balancers(Arc::new(load_balancers::FakeLoadBalancers::new(
            Arc::clone(&api),
            Arc::clone(&settings),
        )))
        .with_routes(Arc::new(routes::FakeRoutes::new(
            Arc::clone(&api),
            Arc::clone(&context.nodes),
            settings,
        )))
        .with_volumes(Arc::new(volumes::FakeVolumes::new(Arc::clone(&api), context.cluster.clone())))
        .with_clusters(Arc::new(clusters::FakeClusters::new(api)));
    for slot in lacks {
        match slot {
            Slot::Instances => cloud.instances = None,
            Slot::LoadBalancers => cloud.load_balancers = None,
            Slot::Routes => cloud.routes = None,
            Slot::Volumes => cloud.volumes = None,
            Slot::Clusters => cloud.clusters = None,
        }
    }
    cloud
}

/// Builds the cloud from the config file: behind its endpoint, or a new one in this process.
async fn build(context: Context) -> Result<Cloud, Error> {
    let config = Config::of(context.config.as_ref())?;
    let settings = ProviderSettings::from(&config);
    let api: Arc<dyn Api> = match &config.endpoint {
        Some(endpoint) => {
            let remote = Remote::new(endpoint, &context, config.timeout)?;
            remote
                .check()
                .await
                .map_err(|error| error.during(format!("reaching the fake cloud at {endpoint}")))?;
            Arc::new(remote)
        }
        None => World::new(config, Arc::clone(&context.clock)).connect(&context.cluster),
    };
    Ok(cloud_over(api, &context, settings))
}

/// Reads a list to its end. A list that goes in circles is an error, not an endless loop.
async fn all_pages<T, F>(mut page: impl FnMut(Option<String>) -> F) -> Result<Vec<T>, ApiError>
where
    F: Future<Output = Result<Listed<T>, ApiError>>,
{
    let mut items = Vec::new();
    let mut token = None;
    loop {
        let listed = page(token.clone()).await?;
        items.extend(listed.items);
        match listed.next {
            None => return Ok(items),
            next if next == token => {
                return Err(ApiError::Failed {
                    why: "a page of the list names itself as the next".to_owned(),
                });
            }
            next => token = next,
        }
    }
}
