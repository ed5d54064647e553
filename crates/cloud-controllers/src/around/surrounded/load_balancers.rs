//! Load balancers, surrounded.

use async_trait::async_trait;
use cloud_provider::load_balancer::{Description, Identity, Observed, Owned, Spec};
use cloud_provider::{Changes, ClusterIdentity, Error, LoadBalancers};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};

use super::super::operation::Operation;
use super::Around;

#[async_trait]
impl LoadBalancers for Around<dyn LoadBalancers> {
    fn describe(&self) -> Description {
        self.slot.describe()
    }

    fn name(&self, identity: &Identity) -> String {
        self.slot.name(identity)
    }

    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error> {
        self.make(Operation::GetLoadBalancer, async { self.slot.get(spec).await }).await
    }

    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error> {
        self.make(Operation::EnsureLoadBalancer, async { self.slot.ensure(spec, changes).await }).await
    }

    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error> {
        self.make(Operation::UpdateBackends, async { self.slot.update_backends(spec, changes).await }).await
    }

    async fn delete(
        &self,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let call = async { self.slot.delete(identity, service, changes).await };
        self.make(Operation::DeleteLoadBalancer, call).await
    }

    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        self.make(Operation::ListOwned, async { self.slot.list_owned(cluster).await }).await
    }
}
