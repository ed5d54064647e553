//! The cloud that is in force, which a reload of its config replaces while the controllers go on.
//!
//! Each slot forwards to the cloud of the moment. Which slots there are is settled when the first cloud is built: the
//! controllers were chosen by them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use cloud_provider::load_balancer::{Description, Identity, Observed, Owned, Spec};
use cloud_provider::{
    Capability, Changes, Cloud, ClusterIdentity, Clusters, Error, Existence, Freshness, Instances,
    LoadBalancers, NodeRef, Route, Routes, Snapshot, Volume, VolumeRequest, Volumes,
};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, PersistentVolume, Service};

/// The cloud in force; clones are the same.
#[derive(Clone)]
pub(in crate::app) struct Current(Arc<RwLock<Cloud>>);

impl Current {
    pub(in crate::app) fn new(cloud: Cloud) -> Self {
        Self(Arc::new(RwLock::new(cloud)))
    }

    /// A cloud that always speaks to the one in force.
    pub(in crate::app) fn cloud(&self) -> Cloud {
        let mut cloud = self.now();
        cloud.instances = cloud.instances.map(|_| Arc::new(self.clone()) as _);
        cloud.load_balancers = cloud.load_balancers.map(|_| Arc::new(self.clone()) as _);
        cloud.routes = cloud.routes.map(|_| Arc::new(self.clone()) as _);
        cloud.volumes = cloud.volumes.map(|_| Arc::new(self.clone()) as _);
        cloud.clusters = cloud.clusters.map(|_| Arc::new(self.clone()) as _);
        cloud
    }

    /// Puts another cloud in force, if it can do what the first one could.
    pub(in crate::app) fn replace(&self, cloud: Cloud) -> Result<(), &'static str> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if Capability::ALL.into_iter().any(|each| cloud.can(each) != current.can(each)) {
            return Err("what the cloud can do changed with it: restart this process to use it");
        }
        *current = cloud;
        Ok(())
    }

    fn now(&self) -> Cloud {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A slot of the cloud in force; [`Current::replace`] sees to it that it is always there.
    fn slot<S>(&self, choose: impl FnOnce(Cloud) -> Option<S>, missing: Capability) -> Result<S, Error> {
        choose(self.now()).ok_or_else(|| Error::not_implemented(missing.missing()))
    }

    fn instances(&self) -> Result<Arc<dyn Instances>, Error> {
        self.slot(|cloud| cloud.instances, Capability::Instances)
    }

    fn balancers(&self) -> Result<Arc<dyn LoadBalancers>, Error> {
        self.slot(|cloud| cloud.load_balancers, Capability::LoadBalancers)
    }

    fn routes(&self) -> Result<Arc<dyn Routes>, Error> {
        self.slot(|cloud| cloud.routes, Capability::Routes)
    }

    fn volumes(&self) -> Result<Arc<dyn Volumes>, Error> {
        self.slot(|cloud| cloud.volumes, Capability::Volumes)
    }

    fn clusters(&self) -> Result<Arc<dyn Clusters>, Error> {
        self.slot(|cloud| cloud.clusters, Capability::Clusters)
    }
}

#[async_trait]
impl Instances for Current {
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        self.instances()?.lookup(nodes, freshness).await
    }

    async fn list(&self) -> Result<Option<Snapshot>, Error> {
        self.instances()?.list().await
    }
}

#[async_trait]
impl LoadBalancers for Current {
    fn describe(&self) -> Description {
        self.balancers().map(|slot| slot.describe()).unwrap_or_default()
    }

    fn name(&self, identity: &Identity) -> String {
        self.balancers().map_or_else(|_| identity.default_name(), |slot| slot.name(identity))
    }

    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error> {
        self.balancers()?.get(spec).await
    }

    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error> {
        self.balancers()?.ensure(spec, changes).await
    }

    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error> {
        self.balancers()?.update_backends(spec, changes).await
    }

    async fn delete(
        &self,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        self.balancers()?.delete(identity, service, changes).await
    }

    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        self.balancers()?.list_owned(cluster).await
    }
}

#[async_trait]
impl Routes for Current {
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        self.routes()?.list(cluster).await
    }

    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        self.routes()?.create(cluster, hint, route, changes).await
    }

    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error> {
        self.routes()?.delete(cluster, route, changes).await
    }
}

#[async_trait]
impl Volumes for Current {
    async fn create(&self, request: &VolumeRequest, changes: &Changes) -> Result<Volume, Error> {
        self.volumes()?.create(request, changes).await
    }

    async fn delete(&self, id: &str, changes: &Changes) -> Result<(), Error> {
        self.volumes()?.delete(id, changes).await
    }

    async fn attach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<String, Error> {
        self.volumes()?.attach(id, node, changes).await
    }

    async fn detach(&self, id: &str, node: &NodeRef, changes: &Changes) -> Result<(), Error> {
        self.volumes()?.detach(id, node, changes).await
    }

    async fn resize(&self, id: &str, bytes: u64, changes: &Changes) -> Result<u64, Error> {
        self.volumes()?.resize(id, bytes, changes).await
    }

    async fn get(&self, id: &str) -> Result<Volume, Error> {
        self.volumes()?.get(id).await
    }

    async fn list(&self) -> Result<Vec<Volume>, Error> {
        self.volumes()?.list().await
    }

    async fn labels_for(&self, volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>, Error> {
        self.volumes()?.labels_for(volume).await
    }
}

#[async_trait]
impl Clusters for Current {
    async fn list(&self) -> Result<Vec<String>, Error> {
        self.clusters()?.list().await
    }

    async fn control_plane_address(&self, cluster: &str) -> Result<String, Error> {
        self.clusters()?.control_plane_address(cluster).await
    }
}
