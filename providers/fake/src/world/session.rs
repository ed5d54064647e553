//! A client's view of the world: each call of the API, with the caller's name on it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use cloud_provider::Permit;

use super::call::{Asked, Warrant};
use super::shelf::{Place, Shelf};
use super::{State, World};
use crate::api::{Api, ApiError, Filter, Listed, Operation};
use crate::objects::{
    Address, Balancer, BalancerUpdate, Disk, Machine, NewAddress, NewBalancer, NewDisk, NewRoute, Object,
    RouteEntry, Tags,
};

/// A connection of one cluster. Its writes take a [`Warrant`], of which a permit is one.
#[derive(Clone)]
pub struct Session {
    world: World,
    caller: String,
}

impl Session {
    pub(super) fn new(world: World, caller: String) -> Self {
        Self { world, caller }
    }

    fn read<'a>(&'a self, operation: Operation, object: &'a str) -> Asked<'a> {
        Asked { caller: &self.caller, operation, objects: vec![object], page: None, warrant: None }
    }

    fn list<'a>(&'a self, operation: Operation, filter: &'a Filter, page: Option<&'a str>) -> Asked<'a> {
        let object = match filter {
            Filter::All => "",
            Filter::Named(text) | Filter::Tagged(_, text) | Filter::Token(text) => text,
        };
        Asked { page, ..self.read(operation, object) }
    }

    fn write<'a>(&'a self, operation: Operation, object: &'a str, warrant: Warrant<'a>) -> Asked<'a> {
        Asked { warrant: Some(warrant), ..self.read(operation, object) }
    }

    /// Lists one kind of objects.
    async fn page<T: Object>(
        &self,
        asked: Asked<'_>,
        filter: &Filter,
        pick: fn(&State) -> &Shelf<T>,
    ) -> Result<Listed<T>, ApiError> {
        let place = Place::parse(asked.page)?;
        self.world
            .call(asked, |state, by| {
                Ok(pick(state).page(filter, &place, by.config.page_size, by.now, state.stock.lag))
            })
            .await
    }
}

macro_rules! writes {
    ($($(#[$doc:meta])* $with:ident $operation:ident ($($arg:ident: $type:ty),*) [$object:expr] $act:ident -> $answer:ty;)*) => {
        /// The writes, with whatever stands in for a permit.
        impl Session {
            $($(#[$doc])*
            pub async fn $with(&self, $($arg: $type,)* warrant: Warrant<'_>) -> Result<$answer, ApiError> {
                let asked = self.write(Operation::$operation, $object, warrant);
                self.world.call(asked, |state, by| state.$act(by, $($arg),*)).await
            })*
        }
    };
}

writes! {
    /// [`Api::create_address`].
    create_address_with CreateAddress (new: &NewAddress) [&new.name] create_address -> Address;
    /// [`Api::tag_address`].
    tag_address_with TagAddress (id: &str, tags: &Tags) [id] tag_address -> Address;
    /// [`Api::delete_address`].
    delete_address_with DeleteAddress (id: &str) [id] delete_address -> ();
    /// [`Api::create_load_balancer`].
    create_load_balancer_with CreateLoadBalancer (new: &NewBalancer) [&new.name] create_balancer -> Balancer;
    /// [`Api::update_load_balancer`].
    update_load_balancer_with UpdateLoadBalancer (id: &str, update: &BalancerUpdate) [id] update_balancer -> Balancer;
    /// [`Api::set_backends`].
    set_backends_with SetBackends (id: &str, backends: &BTreeSet<String>) [id] set_backends -> Balancer;
    /// [`Api::delete_load_balancer`].
    delete_load_balancer_with DeleteLoadBalancer (id: &str) [id] delete_balancer -> ();
    /// [`Api::create_route`].
    create_route_with CreateRoute (new: &NewRoute) [&new.name] create_route -> RouteEntry;
    /// [`Api::delete_route`].
    delete_route_with DeleteRoute (id: &str) [id] delete_route -> ();
    /// [`Api::create_volume`].
    create_volume_with CreateVolume (new: &NewDisk) [&new.name] create_disk -> Disk;
    /// [`Api::resize_volume`].
    resize_volume_with ResizeVolume (id: &str, bytes: u64) [id] resize_disk -> Disk;
    /// [`Api::attach_volume`].
    attach_volume_with AttachVolume (id: &str, machine: &str) [id] attach_disk -> Disk;
    /// [`Api::detach_volume`].
    detach_volume_with DetachVolume (id: &str, machine: &str) [id] detach_disk -> Disk;
    /// [`Api::delete_volume`].
    delete_volume_with DeleteVolume (id: &str) [id] delete_disk -> ();
}

#[async_trait]
impl Api for Session {
    async fn list_instances(&self, page: Option<&str>) -> Result<Listed<Machine>, ApiError> {
        let asked = self.list(Operation::ListInstances, &Filter::All, page);
        self.page(asked, &Filter::All, |state| &state.stock.machines).await
    }

    async fn get_instance(&self, id: &str) -> Result<Machine, ApiError> {
        let asked = self.read(Operation::GetInstance, id);
        self.world.call(asked, |state, _| Ok(state.stock.machines.get(id)?.value.clone())).await
    }

    async fn list_addresses(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Address>, ApiError> {
        let asked = self.list(Operation::ListAddresses, filter, page);
        self.page(asked, filter, |state| &state.stock.addresses).await
    }

    async fn get_address(&self, id: &str) -> Result<Address, ApiError> {
        let asked = self.read(Operation::GetAddress, id);
        self.world.call(asked, |state, _| Ok(state.stock.addresses.get(id)?.value.clone())).await
    }

    async fn create_address(&self, new: &NewAddress, permit: &Permit) -> Result<Address, ApiError> {
        self.create_address_with(new, Warrant::Permit(permit)).await
    }

    async fn tag_address(&self, id: &str, tags: &Tags, permit: &Permit) -> Result<Address, ApiError> {
        self.tag_address_with(id, tags, Warrant::Permit(permit)).await
    }

    async fn delete_address(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.delete_address_with(id, Warrant::Permit(permit)).await
    }

    async fn list_load_balancers(
        &self,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        let place = Place::parse(page)?;
        let asked = self.list(Operation::ListLoadBalancers, filter, page);
        self.world
            .call(asked, |state, by| {
                let stock = &state.stock;
                let listed = stock.balancers.page(filter, &place, by.config.page_size, by.now, stock.lag);
                let items = listed.items.into_iter().map(|each| stock.shown(each, by.now)).collect();
                Ok(Listed { items, next: listed.next })
            })
            .await
    }

    async fn get_load_balancer(&self, id: &str) -> Result<Balancer, ApiError> {
        let asked = self.read(Operation::GetLoadBalancer, id);
        self.world
            .call(asked, |state, by| {
                let balancer = state.stock.balancers.get(id)?.value.clone();
                Ok(state.stock.shown(balancer, by.now))
            })
            .await
    }

    async fn create_load_balancer(&self, new: &NewBalancer, permit: &Permit) -> Result<Balancer, ApiError> {
        self.create_load_balancer_with(new, Warrant::Permit(permit)).await
    }

    async fn update_load_balancer(
        &self,
        id: &str,
        update: &BalancerUpdate,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        self.update_load_balancer_with(id, update, Warrant::Permit(permit)).await
    }

    async fn set_backends(
        &self,
        id: &str,
        backends: &BTreeSet<String>,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        self.set_backends_with(id, backends, Warrant::Permit(permit)).await
    }

    async fn delete_load_balancer(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.delete_load_balancer_with(id, Warrant::Permit(permit)).await
    }

    async fn list_routes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<RouteEntry>, ApiError> {
        let asked = self.list(Operation::ListRoutes, filter, page);
        self.page(asked, filter, |state| &state.stock.routes).await
    }

    async fn create_route(&self, new: &NewRoute, permit: &Permit) -> Result<RouteEntry, ApiError> {
        self.create_route_with(new, Warrant::Permit(permit)).await
    }

    async fn delete_route(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.delete_route_with(id, Warrant::Permit(permit)).await
    }

    async fn list_volumes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Disk>, ApiError> {
        let asked = self.list(Operation::ListVolumes, filter, page);
        self.page(asked, filter, |state| &state.stock.disks).await
    }

    async fn get_volume(&self, id: &str) -> Result<Disk, ApiError> {
        let asked = self.read(Operation::GetVolume, id);
        self.world.call(asked, |state, _| Ok(state.stock.disks.get(id)?.value.clone())).await
    }

    async fn create_volume(&self, new: &NewDisk, permit: &Permit) -> Result<Disk, ApiError> {
        self.create_volume_with(new, Warrant::Permit(permit)).await
    }

    async fn resize_volume(&self, id: &str, bytes: u64, permit: &Permit) -> Result<Disk, ApiError> {
        self.resize_volume_with(id, bytes, Warrant::Permit(permit)).await
    }

    async fn attach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError> {
        self.attach_volume_with(id, machine, Warrant::Permit(permit)).await
    }

    async fn detach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError> {
        self.detach_volume_with(id, machine, Warrant::Permit(permit)).await
    }

    async fn delete_volume(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.delete_volume_with(id, Warrant::Permit(permit)).await
    }

    async fn list_clusters(&self) -> Result<BTreeMap<String, String>, ApiError> {
        let asked = self.read(Operation::ListClusters, "");
        self.world.call(asked, |state, _| Ok(state.stock.clusters.clone())).await
    }

    async fn adopt(&self, machines: &[Machine]) -> Result<(), ApiError> {
        self.world.adopt(machines);
        Ok(())
    }
}
