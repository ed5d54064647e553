//! For providers written against upstream's older interfaces, method by method: implement [`LegacyInstances`] and, if the
//! cloud has zones, [`LegacyZones`] with the bodies that are already there, and [`Legacy`] makes one [`Instances`] of
//! them.
//!
//! It costs up to seven cloud calls a node, as upstream does: a way in, not a place to stay.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::NodeAddress;

use crate::error::{Decision, Error};
use crate::instances::{Doubt, Evidence, Existence, Freshness, Instance, Instances, NodeRef, Power};
use crate::provider_id::ProviderId;

/// How many nodes are asked for at the same time.
const AT_ONCE: usize = 16;

/// Upstream's `Instances`. `AddSSHKeyToAllInstances` and `CurrentNodeName` are left out: nobody ever calls them.
#[async_trait]
pub trait LegacyInstances: Send + Sync + 'static {
    /// The addresses of the instance behind this Node.
    async fn node_addresses(&self, node: &str) -> Result<Vec<NodeAddress>, Error>;

    /// The addresses of this instance, without the help of a metadata service of the machine we run on.
    async fn node_addresses_by_provider_id(&self, id: &str) -> Result<Vec<NodeAddress>, Error>;

    /// The cloud's ID of the instance behind this Node, without the scheme. `NotFound` if there is none; a stopped
    /// instance is there.
    async fn instance_id(&self, node: &str) -> Result<String, Error>;

    /// The type of the instance behind this Node.
    async fn instance_type(&self, node: &str) -> Result<String, Error>;

    /// The type of this instance.
    async fn instance_type_by_provider_id(&self, id: &str) -> Result<String, Error>;

    /// Whether this instance exists, stopped or not. `Ok(false)` can cost a Node its life: never say it on an error.
    async fn instance_exists_by_provider_id(&self, id: &str) -> Result<bool, Error>;

    /// Whether this instance is shut down; `NotImplemented` is taken as "it is not".
    async fn instance_shutdown_by_provider_id(&self, id: &str) -> Result<bool, Error>;
}

/// Upstream's `Zones`. `GetZone` is left out: nobody ever calls it.
#[async_trait]
pub trait LegacyZones: Send + Sync + 'static {
    /// The zone of this instance.
    async fn zone_by_provider_id(&self, id: &str) -> Result<Zone, Error>;

    /// The zone of the instance behind this Node.
    async fn zone_by_node_name(&self, node: &str) -> Result<Zone, Error>;
}

/// Where an instance lives; either may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zone {
    /// The zone.
    pub failure_domain: String,
    /// The region.
    pub region: String,
}

/// [`Instances`] made of upstream's `Instances` and `Zones`.
pub struct Legacy {
    provider: String,
    instances: Arc<dyn LegacyInstances>,
    zones: Option<Arc<dyn LegacyZones>>,
}

impl Legacy {
    /// Instances of the provider of this name.
    pub fn new(provider: impl Into<String>, instances: Arc<dyn LegacyInstances>) -> Self {
        Self { provider: provider.into(), instances, zones: None }
    }

    /// Adds zones.
    #[must_use]
    pub fn with_zones(mut self, zones: Arc<dyn LegacyZones>) -> Self {
        self.zones = Some(zones);
        self
    }

    async fn answer(&self, node: &NodeRef) -> Result<Existence, Error> {
        let id = match &node.provider_id {
            Some(id) if !self.owns(id) => return Ok(Existence::NotMine),
            Some(id) => Some(id.clone()),
            None => match self.provider_id_of(&node.name).await {
                Ok(id) => Some(id),
                Err(error) => match error.decision() {
                    Decision::NotFound => {
                        return Ok(absent(format!("the instance ID of node {}", node.name)));
                    }
                    Decision::NotImplemented => None,
                    _ => return Err(error),
                },
            },
        };
        let mut power = Power::Untold;
        if let Some(id) = &id {
            match self.exists(id).await? {
                Some(false) => return Ok(absent(format!("whether {id} exists"))),
                Some(true) | None => power = self.power(id).await?,
            }
        }
        let instance = self.describe(node, id.as_deref(), power).await?;
        Ok(Existence::Found(Box::new(instance)))
    }

    fn owns(&self, id: &str) -> bool {
        id.strip_prefix(&self.provider).is_some_and(|rest| rest.starts_with("://"))
    }

    /// Upstream's `GetInstanceProviderID`: `<provider>://<instance ID>`.
    async fn provider_id_of(&self, node: &str) -> Result<String, Error> {
        let id = self.instances.instance_id(node).await.map_err(|error| {
            error.context(format!("getting the instance ID of node {node} from the cloud provider"))
        })?;
        Ok(format!("{}://{id}", self.provider))
    }

    /// `None` if this cloud cannot tell.
    async fn exists(&self, id: &str) -> Result<Option<bool>, Error> {
        match self.instances.instance_exists_by_provider_id(id).await {
            Ok(exists) => Ok(Some(exists)),
            Err(error) if error.decision() == &Decision::NotFound => Ok(Some(false)),
            Err(error) if error.decision() == &Decision::NotImplemented => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn power(&self, id: &str) -> Result<Power, Error> {
        match self.instances.instance_shutdown_by_provider_id(id).await {
            Ok(true) => Ok(Power::Off),
            Ok(false) => Ok(Power::On),
            Err(error) if error.decision() == &Decision::NotImplemented => Ok(Power::Untold),
            Err(error) => Err(error),
        }
    }

    async fn describe(&self, node: &NodeRef, id: Option<&str>, power: Power) -> Result<Instance, Error> {
        let mut instance = Instance::unnamed().power(power);
        instance.provider_id = id.map(parse_id).transpose()?;
        instance.addresses = self.addresses(&node.name, id).await?;
        instance = instance.of_type(self.type_(&node.name, id).await?);
        if let Some(zones) = &self.zones {
            let zone = zone(zones.as_ref(), &node.name, id).await?;
            instance = instance.located(zone.failure_domain, zone.region);
        }
        Ok(instance)
    }

    async fn addresses(&self, node: &str, id: Option<&str>) -> Result<Vec<NodeAddress>, Error> {
        let by_id = match id {
            Some(id) => self.instances.node_addresses_by_provider_id(id).await,
            None => Err(Error::other("the provider ID is not known")),
        };
        let Err(first) = by_id else { return by_id };
        self.instances.node_addresses(node).await.map_err(|second| both("addresses", node, &first, second))
    }

    async fn type_(&self, node: &str, id: Option<&str>) -> Result<String, Error> {
        let by_id = match id {
            Some(id) => self.instances.instance_type_by_provider_id(id).await,
            None => Err(Error::other("the provider ID is not known")),
        };
        let Err(first) = by_id else { return by_id };
        self.instances.instance_type(node).await.map_err(|second| both("instance type", node, &first, second))
    }
}

#[async_trait]
impl Instances for Legacy {
    async fn lookup(&self, nodes: &[NodeRef], _: Freshness) -> Result<Vec<Existence>, Error> {
        let asked = nodes.iter().map(|node| async {
            self.answer(node).await.unwrap_or_else(|error| Existence::Unknown(Doubt::Failed(error)))
        });
        // Collected first: a stream over borrowing closures cannot be proved `Send`.
        let asked: Vec<_> = asked.collect();
        Ok(stream::iter(asked).buffered(AT_ONCE).collect().await)
    }
}

async fn zone(zones: &dyn LegacyZones, node: &str, id: Option<&str>) -> Result<Zone, Error> {
    let by_id = match id {
        Some(id) => zones.zone_by_provider_id(id).await,
        None => Err(Error::other("the provider ID is not known")),
    };
    let Err(first) = by_id else { return by_id };
    zones.zone_by_node_name(node).await.map_err(|second| both("zone", node, &first, second))
}

fn absent(asked: String) -> Existence {
    Existence::Absent(Evidence::NotFound { asked })
}

fn parse_id(id: &str) -> Result<ProviderId, Error> {
    id.parse().map_err(|error| Error::from_source("reading the provider ID", Box::new(error)))
}

/// Both ways failed. A `NotFound` of either is no proof here: the instance was just seen to exist.
fn both(what: &str, node: &str, first: &Error, second: Error) -> Error {
    Error::other(format!("getting the {what} of node {node} by provider ID ({}) and by name", first.report()))
        .because(second)
}

#[cfg(test)]
mod tests;
