//! What a client of this cloud can call. Reads are free; a write shows the permit of the gate.
//!
//! Two things answer: a [`World`](crate::World) in this process, and a [`Remote`](crate::Remote) one over HTTP.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use cloud_provider::Permit;
use serde::{Deserialize, Serialize};

use crate::objects::{
    Address, Balancer, BalancerUpdate, Disk, Machine, NewAddress, NewBalancer, NewDisk, NewRoute, RouteEntry,
    Tags,
};

mod error;
mod operation;

pub use error::ApiError;
pub use operation::Operation;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// The token of the next page; nothing on the last one.
    pub next: Option<String>,
}

/// Which objects a list shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All that the credential may see.
    All,
    /// Those of this name.
    Named(String),
    /// Those with this tag.
    Tagged(String, String),
    /// What was made under this idempotency token. Unlike the others it never lags behind.
    Token(String),
}

/// The calls. Lists lag behind as the cloud is configured to; a get by ID never does.
#[async_trait]
pub trait Api: Send + Sync + 'static {
    /// A page of the instances.
    async fn list_instances(&self, page: Option<&str>) -> Result<Listed<Machine>, ApiError>;
    /// One instance.
    async fn get_instance(&self, id: &str) -> Result<Machine, ApiError>;

    /// A page of the reserved addresses.
    async fn list_addresses(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Address>, ApiError>;
    /// One reserved address.
    async fn get_address(&self, id: &str) -> Result<Address, ApiError>;
    /// Reserves an address.
    async fn create_address(&self, new: &NewAddress, permit: &Permit) -> Result<Address, ApiError>;
    /// Replaces an address's tags.
    async fn tag_address(&self, id: &str, tags: &Tags, permit: &Permit) -> Result<Address, ApiError>;
    /// Gives an address back; refused while a balancer answers at it.
    async fn delete_address(&self, id: &str, permit: &Permit) -> Result<(), ApiError>;

    /// A page of the balancers.
    async fn list_load_balancers(
        &self,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError>;
    /// One balancer.
    async fn get_load_balancer(&self, id: &str) -> Result<Balancer, ApiError>;
    /// Makes a balancer; it may be pending for a while.
    async fn create_load_balancer(&self, new: &NewBalancer, permit: &Permit) -> Result<Balancer, ApiError>;
    /// Sets tags, addresses and settings, all of them; refused while it is pending.
    async fn update_load_balancer(
        &self,
        id: &str,
        update: &BalancerUpdate,
        permit: &Permit,
    ) -> Result<Balancer, ApiError>;
    /// Replaces the backends; refused while it is pending.
    async fn set_backends(
        &self,
        id: &str,
        backends: &BTreeSet<String>,
        permit: &Permit,
    ) -> Result<Balancer, ApiError>;
    /// Removes a balancer; its addresses stay.
    async fn delete_load_balancer(&self, id: &str, permit: &Permit) -> Result<(), ApiError>;

    /// A page of the routes.
    async fn list_routes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<RouteEntry>, ApiError>;
    /// Makes a route.
    async fn create_route(&self, new: &NewRoute, permit: &Permit) -> Result<RouteEntry, ApiError>;
    /// Removes a route.
    async fn delete_route(&self, id: &str, permit: &Permit) -> Result<(), ApiError>;

    /// A page of the volumes.
    async fn list_volumes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Disk>, ApiError>;
    /// One volume.
    async fn get_volume(&self, id: &str) -> Result<Disk, ApiError>;
    /// Makes a volume.
    async fn create_volume(&self, new: &NewDisk, permit: &Permit) -> Result<Disk, ApiError>;
    /// Grows a volume; refused if it would shrink.
    async fn resize_volume(&self, id: &str, bytes: u64, permit: &Permit) -> Result<Disk, ApiError>;
    /// Attaches a volume to an instance, by name; refused while another one holds it.
    async fn attach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError>;
    /// Detaches a volume from an instance, by name.
    async fn detach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError>;
    /// Removes a volume; refused while an instance holds it.
    async fn delete_volume(&self, id: &str, permit: &Permit) -> Result<(), ApiError>;

    /// The clusters that the cloud knows, with the addresses of their control planes.
    async fn list_clusters(&self) -> Result<BTreeMap<String, String>, ApiError>;

    /// Moves scenery, not a call of a client: makes instances of these, unless somebody removed them by the back door. It
    /// is not counted, never slow and never fails by a fault.
    async fn adopt(&self, machines: &[Machine]) -> Result<(), ApiError>;
}
