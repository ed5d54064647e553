//! Whose is it? Nothing is changed or deleted without a [`Proof`], and a proof cannot be made up: it comes only from
//! the checks in this module.
//!
//! Three things prove ownership: our tag with this cluster's identity; upstream's own name or tag for this very
//! Service's UID, as a Go manager left it; and for routes, which many clouds cannot tag, upstream's rule.

use std::fmt;

use ipnet::IpNet;

use crate::cluster::ClusterIdentity;
use crate::error::Error;
use crate::routes::Route;

/// The key of the tag that carries the cluster's identity.
///
/// INVARIANT: written on cloud objects that outlive every release; a new spelling would orphan them all. Lower case
/// letters and '-' only, because some clouds allow no more in a tag's key.
pub const CLUSTER_TAG: &str = "nephos-cluster";

/// The key of the tag that carries the UID of the Service (or the Node) that a cloud object serves.
///
/// INVARIANT: as [`CLUSTER_TAG`].
pub const OWNER_TAG: &str = "nephos-owner";

/// Evidence that a cloud object belongs to this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof(Ground);

/// What a proof rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ground {
    /// It carries [`CLUSTER_TAG`] with this cluster's identity.
    ClusterTag,
    /// It carries upstream's name or tag for this Service's UID. Our tag is to be stamped on the next ensure.
    UpstreamName,
    /// It is a route into this cluster's pod network, by name or by node.
    RouteRule,
    /// This process created it moments ago and holds the ID that the cloud answered.
    JustCreated,
}

impl Proof {
    /// What the proof rests on.
    pub fn ground(&self) -> &Ground {
        &self.0
    }

    /// Our tag with this cluster's identity. A tag of another cluster is a hard stop, never an adoption.
    pub fn by_cluster_tag(cluster: &ClusterIdentity, tag: Option<&str>) -> Result<Proof, Error> {
        match (cluster.id(), tag) {
            (Some(id), Some(tag)) if id.as_str() == tag => Ok(Proof(Ground::ClusterTag)),
            (Some(id), Some(tag)) => {
                Err(Error::not_owned(format!("it is tagged for cluster {tag}; this cluster is {id}")))
            }
            (Some(_), None) => Err(Error::not_owned(format!("it carries no {CLUSTER_TAG} tag"))),
            (None, _) => Err(Error::not_owned(
                "this cluster's own identity is unknown: allow reading the kube-system namespace or configure a cluster ID",
            )),
        }
    }

    /// Upstream's name or tag for this very Service. `found` is what stands on the cloud object and `expected` is
    /// what upstream's scheme gives for the Service; `uid` must be part of it, because a name alone proves nothing.
    /// `cluster_tag` is our tag, if the object carries one: a foreign one beats any name.
    pub fn by_upstream_name(
        cluster: &ClusterIdentity,
        uid: &str,
        expected: &str,
        found: &str,
        cluster_tag: Option<&str>,
    ) -> Result<Proof, Error> {
        if cluster_tag.is_some() {
            return Self::by_cluster_tag(cluster, cluster_tag);
        }
        let squeezed: String = uid.chars().filter(char::is_ascii_alphanumeric).collect();
        let unique: String = squeezed.chars().take(31).collect();
        let carries_uid = !unique.is_empty()
            && found.chars().filter(char::is_ascii_alphanumeric).collect::<String>().contains(&unique);
        if found == expected && carries_uid {
            Ok(Proof(Ground::UpstreamName))
        } else {
            Err(Error::not_owned(format!(
                "its name {found:?} does not prove that it serves Service UID {uid}"
            )))
        }
    }

    /// Upstream's rule for routes that cannot be tagged, narrowed by what its users suffered from: the destination
    /// lies in a pod network of this cluster, **and** the route either carries a name that we give, or leads to a
    /// node of this cluster, or is a black hole.
    pub fn by_route_rule(
        cluster_cidrs: &[IpNet],
        route: &Route,
        carries_our_name: bool,
        is_node_of_cluster: impl Fn(&str) -> bool,
    ) -> Result<Proof, Error> {
        if !cluster_cidrs.iter().any(|cidr| touches(cidr, &route.destination)) {
            return Err(Error::not_owned(format!(
                "{} is outside the cluster's pod networks",
                route.destination
            )));
        }
        let ours = carries_our_name
            || route.blackhole
            || route.target_node.as_deref().is_some_and(is_node_of_cluster);
        if ours {
            Ok(Proof(Ground::RouteRule))
        } else {
            Err(Error::not_owned(format!("route {} leads to no node of this cluster", route.destination)))
        }
    }

    /// For the steps that follow a create in the same pass: `permit` shows that the create went through the gate.
    pub fn by_creation(_permit: &crate::changes::Permit) -> Proof {
        Proof(Ground::JustCreated)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Ground::ClusterTag => "cluster tag",
            Ground::UpstreamName => "upstream name",
            Ground::RouteRule => "route rule",
            Ground::JustCreated => "just created",
        })
    }
}

/// Whether the first or the last address of `inner` lies in `outer`: upstream's "responsible for this route".
fn touches(outer: &IpNet, inner: &IpNet) -> bool {
    outer.contains(&inner.network()) || outer.contains(&inner.broadcast())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::ClusterId;
    use crate::error::Decision;

    const UID: &str = "3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f";

    fn cluster() -> ClusterIdentity {
        ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid("uid-1".into()))
    }

    #[test]
    fn our_tag_is_proof_and_a_foreign_tag_is_a_hard_stop() {
        assert!(Proof::by_cluster_tag(&cluster(), Some("uid-1")).is_ok());
        for tag in [Some("uid-2"), None, Some("")] {
            let refused = Proof::by_cluster_tag(&cluster(), tag).unwrap_err();
            assert_eq!(refused.decision(), &Decision::NotOwned);
        }
    }

    #[test]
    fn a_cluster_that_does_not_know_itself_owns_nothing_by_tag() {
        let nobody = ClusterIdentity::default();
        assert!(Proof::by_cluster_tag(&nobody, Some("uid-1")).is_err());
        assert!(Proof::by_cluster_tag(&nobody, None).is_err());
    }

    #[rstest]
    #[case("a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", "a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", None, true)]
    #[case("a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", "another", None, false)]
    // The OpenStack shape has no UID in it: two clusters with the same name would share it.
    #[case("kube_service_kubernetes_default_web", "kube_service_kubernetes_default_web", None, false)]
    #[case("a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", "a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", Some("uid-2"), false)]
    #[case("a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", "a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8", Some("uid-1"), true)]
    fn an_upstream_name_proves_only_with_the_uid_in_it(
        #[case] expected: &str,
        #[case] found: &str,
        #[case] tag: Option<&str>,
        #[case] ours: bool,
    ) {
        assert_eq!(Proof::by_upstream_name(&cluster(), UID, expected, found, tag).is_ok(), ours);
    }

    #[rstest]
    #[case("10.244.3.0/24", Some("node-a"), false, false, true)]
    #[case("10.244.3.0/24", Some("stranger"), false, false, false)]
    #[case("10.244.3.0/24", None, false, true, true)]
    #[case("10.244.3.0/24", None, true, false, true)]
    #[case("192.168.0.0/24", Some("node-a"), true, true, false)]
    #[case("0.0.0.0/0", Some("node-a"), true, false, false)]
    fn a_route_is_ours_inside_the_pod_network_and_by_name_node_or_blackhole(
        #[case] destination: &str,
        #[case] target: Option<&str>,
        #[case] named: bool,
        #[case] blackhole: bool,
        #[case] ours: bool,
    ) {
        let mut route = Route::new(destination.parse().unwrap());
        route.target_node = target.map(str::to_owned);
        route.blackhole = blackhole;
        let pods = ["10.244.0.0/16".parse().unwrap()];
        assert_eq!(Proof::by_route_rule(&pods, &route, named, |node| node == "node-a").is_ok(), ours);
    }
}
