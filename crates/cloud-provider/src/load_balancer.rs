//! Load balancers: what a cloud gives a Service of type `LoadBalancer`.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};

use crate::changes::Changes;
use crate::cluster::ClusterIdentity;
use crate::error::Error;
use crate::ownership::Proof;

mod description;
mod endpoints;
mod source_ranges;
mod spec;

pub use description::{Annotation, AnnotationType, Description, Feature};
pub use endpoints::{Endpoint, Endpoints};
pub use source_ranges::SourceRanges;
pub use spec::{Affinity, Family, HealthCheck, Port, Protocol, Spec, TrafficPolicy};

/// A cloud's load balancers.
///
/// A type of balancer that another controller makes answers `ImplementedElsewhere` from [`ensure`] and
/// [`update_backends`]; [`get`] then reports only what this provider made. Services and nodes are read-only here: what
/// the user sees of them is written by the service controller alone.
///
/// [`ensure`]: LoadBalancers::ensure
/// [`update_backends`]: LoadBalancers::update_backends
/// [`get`]: LoadBalancers::get
#[async_trait]
pub trait LoadBalancers: Send + Sync + 'static {
    /// What this provider can do and which annotations it reads: data for refusals, docs and suggestions.
    fn describe(&self) -> Description;

    /// The name that the balancer has, or would have. A pure function of the identity.
    fn name(&self, identity: &Identity) -> String {
        identity.default_name()
    }

    /// What the cloud has for this Service; `None` if it says that there is nothing. Changes nothing.
    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error>;

    /// Converges the cloud fully to the spec and its nodes: creates, updates, removes what is no longer asked for.
    /// Idempotent: it finds by tag or name what an earlier, interrupted call made. Never waits for a slow cloud:
    /// pending work answers `RetryAfter`.
    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error>;

    /// Makes the spec's nodes the backends, exactly those, and changes nothing else. `NotFound` if the balancer is gone.
    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error>;

    /// Removes the balancer and every leftover of one that was never finished. Success when nothing is there. The
    /// Service is given while it is still known; the identity always suffices.
    async fn delete(
        &self,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error>;

    /// Everything in the cloud that is provably this cluster's, whether or not its Service still exists.
    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error>;
}

/// Which Service of which cluster a balancer serves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterIdentity,
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// The Service's UID.
    pub uid: String,
}

impl Identity {
    /// The identity of this Service's balancer.
    pub fn of(service: &Service, cluster: &ClusterIdentity) -> Self {
        Self {
            cluster: cluster.clone(),
            namespace: service.metadata.namespace.clone().unwrap_or_default(),
            name: service.metadata.name.clone().unwrap_or_default(),
            uid: service.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// Upstream's default name: `a` and the UID without its dashes, cut to 32 bytes.
    ///
    /// INVARIANT: balancers in the field carry this name; another spelling would leak every one of them.
    pub fn default_name(&self) -> String {
        let mut name = String::from("a");
        name.extend(self.uid.chars().filter(|c| *c != '-'));
        let mut end = name.len().min(32);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name
    }
}

/// What a cloud has for one Service.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The addresses it answers at.
    pub status: LoadBalancerStatus,
    /// Whether it is as the spec wants it.
    pub agreement: Agreement,
}

/// Whether what the cloud has is what the spec wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// Read back and equal in everything that `ensure` would set.
    Same,
    /// Different, in these points, in words for an Event.
    Different(Vec<String>),
    /// This provider cannot tell without an `ensure`.
    Untold,
}

/// Cloud objects that are provably this cluster's.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    /// The Service they were made for, as far as the tags tell.
    pub identity: Identity,
    /// The objects, for the report: "listener 7f", "address 203.0.113.9".
    pub objects: Vec<String>,
    /// Why they are ours.
    pub proof: Proof,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn identity(uid: &str) -> Identity {
        Identity {
            cluster: ClusterIdentity::default(),
            namespace: "default".into(),
            name: "web".into(),
            uid: uid.into(),
        }
    }

    /// Proves: IFACE-12
    #[rstest]
    #[case("3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f", "a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8")]
    #[case("short", "ashort")]
    #[case("", "a")]
    fn the_default_name_is_a_and_31_digits_of_the_uid(#[case] uid: &str, #[case] name: &str) {
        assert_eq!(identity(uid).default_name(), name);
        assert!(identity(uid).default_name().len() <= 32);
    }

    #[test]
    fn a_name_of_long_letters_is_cut_between_letters() {
        assert_eq!(identity(&"ü".repeat(40)).default_name().len(), 31);
    }
}
