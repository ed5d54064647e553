//! The cluster in the metric of a route.

use cloud_provider::ClusterIdentity;

/// The upper byte of each metric of ours; the others are the cluster's.
const OURS: u32 = 0x4e00_0000;

/// The metric of every route of a cluster.
///
/// INVARIANT: it is how a cluster's routes are found again by every later release. FNV-1a over the identity, folded
/// to 24 bits.
pub fn metric(cluster: &ClusterIdentity) -> u32 {
    let Some(id) = cluster.id() else { return OURS };
    let hash = id
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    OURS | (hash >> 24) ^ (hash & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use cloud_provider::ClusterId;

    use super::*;

    #[test]
    fn it_never_changes_and_tells_clusters_apart() {
        let of = |id: &str| metric(&ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid(id.into())));
        assert_eq!(of("3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f"), 0x4e43_1592);
        assert_eq!(of("elsewhere"), 0x4e16_c993);
        assert_eq!(metric(&ClusterIdentity::default()), 0x4e00_0000);
    }
}
