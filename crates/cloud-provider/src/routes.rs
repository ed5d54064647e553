//! Routes between the pod networks of the nodes.

use async_trait::async_trait;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::NodeAddress;

use crate::changes::Changes;
use crate::cluster::ClusterIdentity;
use crate::error::Error;

/// A cloud's route table.
#[async_trait]
pub trait Routes: Send + Sync + 'static {
    /// All routes that this provider manages for the cluster. A list that stopped before its end is an error.
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error>;

    /// Makes a route. `hint` is the Node's UID: unique per node, but the same for both families of a dual-stack node,
    /// so a name made of it must add the family or the CIDR. Making a route that already exists is success.
    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error>;

    /// Removes a route exactly as it was listed. Removing one that is gone is success.
    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error>;
}

/// One route.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// The cloud's own name for it; empty on a route that is yet to be made.
    pub name: String,
    /// The name of the Node it leads to, where the provider can tell.
    pub target_node: Option<String>,
    /// The addresses it leads to. `None` on a listed route: this provider does not tell, so they are not compared.
    /// On a route that is to be made they are those of the Node.
    pub target_addresses: Option<Vec<NodeAddress>>,
    /// Where it leads: a node's pod network.
    pub destination: IpNet,
    /// The target is gone, and the cloud drops what is sent there.
    pub blackhole: bool,
}

impl Route {
    /// A route to this destination, with nothing else known.
    pub fn new(destination: IpNet) -> Self {
        Self { name: String::new(), target_node: None, target_addresses: None, destination, blackhole: false }
    }

    /// A route to be made: to this node, at these addresses.
    #[must_use]
    pub fn to_node(mut self, name: impl Into<String>, addresses: Vec<NodeAddress>) -> Self {
        self.target_node = Some(name.into());
        self.target_addresses = Some(addresses);
        self
    }

    /// The cloud's own name for it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: IFACE-32, IFACE-35
    #[test]
    fn a_listed_route_that_tells_no_addresses_differs_from_one_with_none() {
        let untold = Route::new("10.244.1.0/24".parse().unwrap());
        let empty = Route::new("10.244.1.0/24".parse().unwrap()).to_node("a", Vec::new());
        assert_eq!(untold.target_addresses, None);
        assert_eq!(empty.target_addresses, Some(Vec::new()));
        assert!(!untold.blackhole);
    }
}
