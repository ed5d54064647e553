//! What the route controller was told, and whether it can run at all.

use std::time::Duration;

use cloud_provider::{Capability, Cloud};

use crate::pod_networks::{PodNetworks, Unreadable};

/// How the route controller works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many Nodes are worked on at once.
    pub workers: usize,
    /// How many routes are removed at once.
    pub removers: usize,
    /// How often the whole table is compared though nothing changed: `--route-reconciliation-period`. Upstream's 10 s
    /// is its only way to learn of a Node; here it is the second net.
    pub audit_period: Duration,
    /// How long changes are gathered before the table is listed because of them.
    pub gather: Duration,
    /// How long after a list the next one comes at the earliest, however much changes.
    pub spacing: Duration,
    /// How long a Node may be without pod CIDRs before that is told.
    pub patience: Duration,
    /// What a Node, or the table, waits after its first failure; doubles with each further one.
    pub retry_base: Duration,
    /// What they wait at most.
    pub retry_max: Duration,
    /// How long what is being written may take to finish when the controller is stopped.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 32,
            removers: 16,
            audit_period: Duration::from_secs(5 * 60),
            gather: Duration::from_secs(1),
            spacing: Duration::from_secs(10),
            patience: Duration::from_secs(60),
            retry_base: Duration::from_millis(500),
            retry_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}

/// Why the route controller does not run. The process goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Idle {
    /// Nobody wants it.
    #[error("--configure-cloud-routes is false")]
    NotWanted,
    /// The cloud has no routes.
    #[error("the cloud provider does not support routes")]
    NoRoutes,
    /// Which routes are ours cannot be told.
    #[error(transparent)]
    Networks(#[from] Unreadable),
}

/// The pod networks that routes are kept for, or why there is nothing to keep.
pub fn networks(configure: bool, cloud: &Cloud, cluster_cidr: &str) -> Result<PodNetworks, Idle> {
    if !configure {
        return Err(Idle::NotWanted);
    }
    if !cloud.can(Capability::Routes) {
        return Err(Idle::NoRoutes);
    }
    Ok(PodNetworks::parse(cluster_cidr)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cloud_provider::Context;
    use provider_fake::clock::TokioClock;
    use provider_fake::{Config, World};

    use super::*;

    /// Proves: ROUTE-1, ROUTE-2, ROUTE-3, ROUTE-5, ROUTE-6
    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_named_and_nothing_is_fatal() {
        let world = World::new(Config::default(), Arc::new(TokioClock::start()));
        let (able, unable) = (world.cloud(&Context::inert()), Cloud::new("small"));
        let why =
            |configure, cloud: &Cloud, cidr: &str| networks(configure, cloud, cidr).unwrap_err().to_string();
        assert_eq!(why(false, &able, "10.244.0.0/16"), "--configure-cloud-routes is false");
        assert_eq!(why(true, &unable, "10.244.0.0/16"), "the cloud provider does not support routes");
        let missing = "--cluster-cidr is not set, so the cluster's pod networks are not known";
        assert_eq!(why(true, &able, ""), missing);
        assert!(why(true, &able, "ten").contains("\"ten\", which is no CIDR"));
        // Whether anybody allocates node CIDRs is not asked.
        assert_eq!(
            networks(true, &able, "10.244.0.0/16"),
            PodNetworks::parse("10.244.0.0/16").map_err(Idle::from)
        );
    }
}
