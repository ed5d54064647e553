//! A built cloud: a struct of slots. What stands in a slot is what the cloud can do; an empty slot is a capability
//! that does not exist, for the log at start, the `capabilities` command, the docs and the refusals alike.

use std::fmt;
use std::sync::Arc;

use crate::clusters::Clusters;
use crate::instances::Instances;
use crate::load_balancer::LoadBalancers;
use crate::routes::Routes;
use crate::volumes::Volumes;

/// A cloud, ready to be asked.
#[derive(Clone)]
#[non_exhaustive]
pub struct Cloud {
    /// The provider's name: the scheme of its provider IDs.
    pub name: String,
    /// Whether the cloud objects of this cluster can be told from those of others.
    pub cluster_id: ClusterIdKnowledge,
    /// The machines behind the Nodes.
    pub instances: Option<Arc<dyn Instances>>,
    /// Load balancers for Services.
    pub load_balancers: Option<Arc<dyn LoadBalancers>>,
    /// Routes between pod networks.
    pub routes: Option<Arc<dyn Routes>>,
    /// Block storage.
    pub volumes: Option<Arc<dyn Volumes>>,
    /// Clusters that the cloud knows.
    pub clusters: Option<Arc<dyn Clusters>>,
}

/// What a provider knows of the cluster's ID in its cloud.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClusterIdKnowledge {
    /// This cloud needs none.
    #[default]
    NotNeeded,
    /// It has one.
    Known(String),
    /// It needs one and none is set; the text says where to set it. The manager refuses to start, unless
    /// `--allow-untagged-cloud` is given.
    Missing(String),
}

/// Something that a cloud may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// [`Cloud::instances`].
    Instances,
    /// [`Cloud::load_balancers`].
    LoadBalancers,
    /// [`Cloud::routes`].
    Routes,
    /// [`Cloud::volumes`].
    Volumes,
    /// [`Cloud::clusters`].
    Clusters,
}

impl Capability {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::Instances, Self::LoadBalancers, Self::Routes, Self::Volumes, Self::Clusters];

    /// The word for it in tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::LoadBalancers => "load balancers",
            Self::Routes => "routes",
            Self::Volumes => "volumes",
            Self::Clusters => "clusters",
        }
    }

    /// The sentence that a user reads where a controller needs it and the cloud does not have it. The one about load
    /// balancers is upstream's own.
    pub fn missing(self) -> &'static str {
        match self {
            Self::Instances => "the cloud provider does not support instances",
            Self::LoadBalancers => "the cloud provider does not support external load balancers",
            Self::Routes => "the cloud provider does not support routes",
            Self::Volumes => "the cloud provider does not support volumes",
            Self::Clusters => "the cloud provider does not support clusters",
        }
    }
}

impl Cloud {
    /// A cloud of this name that can do nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cluster_id: ClusterIdKnowledge::default(),
            instances: None,
            load_balancers: None,
            routes: None,
            volumes: None,
            clusters: None,
        }
    }

    /// Says what is known of the cluster's ID.
    #[must_use]
    pub fn with_cluster_id(mut self, knowledge: ClusterIdKnowledge) -> Self {
        self.cluster_id = knowledge;
        self
    }

    /// Fills the slot for instances.
    #[must_use]
    pub fn with_instances(mut self, instances: Arc<dyn Instances>) -> Self {
        self.instances = Some(instances);
        self
    }

    /// Fills the slot for load balancers.
    #[must_use]
    pub fn with_load_balancers(mut self, load_balancers: Arc<dyn LoadBalancers>) -> Self {
        self.load_balancers = Some(load_balancers);
        self
    }

    /// Fills the slot for routes.
    #[must_use]
    pub fn with_routes(mut self, routes: Arc<dyn Routes>) -> Self {
        self.routes = Some(routes);
        self
    }

    /// Fills the slot for volumes.
    #[must_use]
    pub fn with_volumes(mut self, volumes: Arc<dyn Volumes>) -> Self {
        self.volumes = Some(volumes);
        self
    }

    /// Fills the slot for clusters.
    #[must_use]
    pub fn with_clusters(mut self, clusters: Arc<dyn Clusters>) -> Self {
        self.clusters = Some(clusters);
        self
    }

    /// Whether it can do this.
    pub fn can(&self, capability: Capability) -> bool {
        match capability {
            Capability::Instances => self.instances.is_some(),
            Capability::LoadBalancers => self.load_balancers.is_some(),
            Capability::Routes => self.routes.is_some(),
            Capability::Volumes => self.volumes.is_some(),
            Capability::Clusters => self.clusters.is_some(),
        }
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let can: Vec<&str> =
            Capability::ALL.into_iter().filter(|each| self.can(*each)).map(Capability::name).collect();
        write!(f, "Cloud({}: {})", self.name, can.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::error::Error;

    struct NoClusters;

    #[async_trait]
    impl Clusters for NoClusters {
        async fn list(&self) -> Result<Vec<String>, Error> {
            Ok(Vec::new())
        }

        async fn control_plane_address(&self, cluster: &str) -> Result<String, Error> {
            Err(Error::not_found(format!("looking for cluster {cluster}")))
        }
    }

    /// Proves: IFACE-1, IFACE-9, IFACE-10
    #[test]
    fn an_empty_slot_is_a_capability_that_does_not_exist() {
        let cloud = Cloud::new("small").with_clusters(Arc::new(NoClusters));
        let can: Vec<Capability> = Capability::ALL.into_iter().filter(|each| cloud.can(*each)).collect();
        assert_eq!(can, [Capability::Clusters]);
        assert_eq!(
            Capability::LoadBalancers.missing(),
            "the cloud provider does not support external load balancers"
        );
        assert_eq!(format!("{cloud:?}"), "Cloud(small: clusters)");
    }

    /// Proves: IFACE-7
    #[test]
    fn a_cloud_that_needs_no_cluster_id_says_so_instead_of_lying() {
        assert_eq!(Cloud::new("small").cluster_id, ClusterIdKnowledge::NotNeeded);
    }
}
