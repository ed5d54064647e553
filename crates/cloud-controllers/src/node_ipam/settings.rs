//! What node IPAM was told: the flags as they were typed become ranges that can be used, or the reason why not.

use std::time::Duration;

use ipnet::IpNet;

use super::cidr_set::{CidrSet, Uncuttable};
use crate::pod_networks::{PodNetworks, Unreadable, is_ipv6};

/// How node IPAM works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many Nodes are worked on at once.
    pub workers: usize,
    /// What a Node waits after its first failure; doubles with each further one.
    pub retry_base: Duration,
    /// What a Node waits at most.
    pub retry_max: Duration,
    /// How long what is being written may take to finish when the controller is stopped.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 30,
            retry_base: Duration::from_millis(250),
            retry_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}

/// The flags, as they were typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// `--allocate-node-cidrs`.
    pub allocate: bool,
    /// `--cidr-allocator-type`.
    pub allocator: String,
    /// `--cluster-cidr`.
    pub cluster_cidr: String,
    /// `--service-cluster-ip-range`.
    pub service_range: String,
    /// `--node-cidr-mask-size`; 0 is not set.
    pub mask: u8,
    /// `--node-cidr-mask-size-ipv4`; 0 is not set.
    pub mask_ipv4: u8,
    /// `--node-cidr-mask-size-ipv6`; 0 is not set.
    pub mask_ipv6: u8,
}

/// Upstream's defaults: nothing is allocated.
impl Default for Typed {
    fn default() -> Self {
        Self {
            allocate: false,
            allocator: RANGE_ALLOCATOR.to_owned(),
            cluster_cidr: String::new(),
            service_range: String::new(),
            mask: 0,
            mask_ipv4: 0,
            mask_ipv6: 0,
        }
    }
}

/// The one allocator there is.
pub const RANGE_ALLOCATOR: &str = "RangeAllocator";

/// A node's mask where no flag says otherwise.
const MASK_IPV4: u8 = 24;
const MASK_IPV6: u8 = 64;

/// Why node IPAM does not run. The process goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Idle {
    /// Nobody asked for it.
    #[error("--allocate-node-cidrs is false")]
    NotWanted,
    /// An allocator that does not exist any more.
    #[error(
        "invalid CIDR allocator type {0:?}: only RangeAllocator exists; the others went with the cloud providers that were built into Kubernetes"
    )]
    NoSuchAllocator(String),
    /// No pod networks.
    #[error(transparent)]
    Networks(#[from] Unreadable),
    /// A range of the Services that cannot be kept free.
    #[error(
        "--service-cluster-ip-range has {0:?}, which is no CIDR; without it, pods could get the addresses of Services"
    )]
    NoServiceRange(String),
    /// More ranges than a cluster can have.
    #[error("--service-cluster-ip-range {0:?} must be one network, or one of each family")]
    ServiceRanges(String),
    /// The general mask says nothing about which of two families.
    #[error(
        "--node-cidr-mask-size is for clusters with one pod network; with two, use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"
    )]
    MaskForBoth,
    /// Both kinds of masks.
    #[error("--node-cidr-mask-size excludes --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6")]
    MaskTwice,
    /// A mask for a family that the cluster does not have.
    #[error("{0} is set, and --cluster-cidr has no network of that family")]
    MaskForNone(&'static str),
    /// The masks do not fit.
    #[error(transparent)]
    Uncuttable(#[from] Uncuttable),
}

/// The pod networks cut into blocks, and what to keep free of them.
#[derive(Debug, Clone)]
pub struct Ranges {
    pub(super) sets: Vec<CidrSet>,
    pub(super) services: Vec<IpNet>,
}

impl Ranges {
    /// What the flags mean.
    pub fn of(typed: &Typed) -> Result<Self, Idle> {
        if !typed.allocate {
            return Err(Idle::NotWanted);
        }
        if typed.allocator != RANGE_ALLOCATOR {
            return Err(Idle::NoSuchAllocator(typed.allocator.clone()));
        }
        let networks = PodNetworks::parse(&typed.cluster_cidr)?;
        let services = service_ranges(&typed.service_range)?;
        let (ipv4, ipv6) = masks(typed, &networks)?;
        let cut = |network: &IpNet| CidrSet::new(*network, if is_ipv6(network) { ipv6 } else { ipv4 });
        let sets = networks.as_slice().iter().map(cut).collect::<Result<_, _>>()?;
        Ok(Self { sets, services })
    }
}

fn service_ranges(text: &str) -> Result<Vec<IpNet>, Idle> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let read = |part: &str| part.trim().parse().map_err(|_| Idle::NoServiceRange(part.trim().to_owned()));
    let ranges = text.split(',').map(read).collect::<Result<Vec<IpNet>, _>>()?;
    match ranges[..] {
        [_] => Ok(ranges),
        [one, other] if is_ipv6(&one) != is_ipv6(&other) => Ok(ranges),
        _ => Err(Idle::ServiceRanges(text.to_owned())),
    }
}

/// The masks of a node's blocks, IPv4 and IPv6.
fn masks(typed: &Typed, networks: &PodNetworks) -> Result<(u8, u8), Idle> {
    let or = |mask: u8, default: u8| if mask == 0 { default } else { mask };
    let per_family = (or(typed.mask_ipv4, MASK_IPV4), or(typed.mask_ipv6, MASK_IPV6));
    if networks.is_dual_stack() {
        return if typed.mask == 0 { Ok(per_family) } else { Err(Idle::MaskForBoth) };
    }
    if typed.mask != 0 && (typed.mask_ipv4 != 0 || typed.mask_ipv6 != 0) {
        return Err(Idle::MaskTwice);
    }
    let only_ipv6 = networks.as_slice().iter().all(is_ipv6);
    match (only_ipv6, typed.mask_ipv4, typed.mask_ipv6) {
        (true, 1.., _) => Err(Idle::MaskForNone("--node-cidr-mask-size-ipv4")),
        (false, _, 1..) => Err(Idle::MaskForNone("--node-cidr-mask-size-ipv6")),
        _ => Ok((or(typed.mask, per_family.0), or(typed.mask, per_family.1))),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn typed(cluster_cidr: &str, masks: [u8; 3]) -> Typed {
        let [mask, mask_ipv4, mask_ipv6] = masks;
        let cluster_cidr = cluster_cidr.to_owned();
        Typed { allocate: true, cluster_cidr, mask, mask_ipv4, mask_ipv6, ..Typed::default() }
    }

    /// Proves: IPAM-2, IPAM-3
    #[test]
    fn nothing_is_allocated_unless_asked_for() {
        assert_eq!(Typed::default().allocator, "RangeAllocator");
        assert_eq!(Ranges::of(&Typed::default()).unwrap_err(), Idle::NotWanted);
    }

    /// Proves: IPAM-6
    #[rstest]
    #[case("10.0.0.0/8", [0, 0, 0], &[65_536])]
    #[case("10.0.0.0/8", [26, 0, 0], &[262_144])]
    #[case("10.0.0.0/8", [0, 25, 0], &[131_072])]
    #[case("fd00::/56", [0, 0, 0], &[256])]
    #[case("fd00::/56", [60, 0, 0], &[16])]
    #[case("fd00::/56", [0, 0, 72], &[65_536])]
    #[case("10.0.0.0/16,fd00::/56", [0, 0, 0], &[256, 256])]
    #[case("fd00::/56,10.0.0.0/16", [0, 20, 58], &[4, 16])]
    fn masks_default_to_24_and_64_and_follow_their_flags(
        #[case] cluster_cidr: &str,
        #[case] masks: [u8; 3],
        #[case] blocks: &[u32],
    ) {
        let ranges = Ranges::of(&typed(cluster_cidr, masks)).unwrap();
        assert_eq!(ranges.sets.iter().map(CidrSet::max).collect::<Vec<_>>(), blocks);
    }

    /// Proves: IPAM-6, IPAM-7
    #[rstest]
    #[case("", [0, 0, 0], "--cluster-cidr is not set")]
    #[case("10.0.0.0/16,fd00::/56", [24, 0, 0], "with two, use --node-cidr-mask-size-ipv4")]
    #[case("10.0.0.0/16", [24, 24, 0], "excludes")]
    #[case("10.0.0.0/16", [0, 0, 64], "--node-cidr-mask-size-ipv6 is set, and --cluster-cidr has no network")]
    #[case("fd00::/56", [0, 24, 0], "--node-cidr-mask-size-ipv4 is set, and --cluster-cidr has no network")]
    #[case("10.0.0.0/26", [0, 0, 0], "invalid --cluster-cidr 10.0.0.0/26")]
    fn flags_that_contradict_each_other_are_named(
        #[case] cluster_cidr: &str,
        #[case] masks: [u8; 3],
        #[case] why: &str,
    ) {
        let idle = Ranges::of(&typed(cluster_cidr, masks)).unwrap_err().to_string();
        assert!(idle.contains(why), "{idle}");
    }

    /// Proves: IPAM-2, IPAM-5
    #[rstest]
    #[case("", Ok(0))]
    #[case("10.96.0.0/12", Ok(1))]
    #[case("10.96.0.0/12, fd01::/112", Ok(2))]
    #[case("10.96.0.0/12,10.112.0.0/12", Err("must be one network, or one of each family"))]
    #[case("10.96.0.0/12,fd01::/112,fd02::/112", Err("must be one network, or one of each family"))]
    #[case("ten", Err("has \"ten\", which is no CIDR"))]
    fn the_range_of_the_services_is_one_network_or_one_of_each_family(
        #[case] range: &str,
        #[case] expected: Result<usize, &str>,
    ) {
        let flags = Typed { service_range: range.to_owned(), ..typed("10.244.0.0/16", [0; 3]) };
        match (Ranges::of(&flags), expected) {
            (Ok(ranges), Ok(count)) => assert_eq!(ranges.services.len(), count),
            (Err(idle), Err(why)) => assert!(idle.to_string().contains(why), "{idle}"),
            (got, _) => panic!("{got:?}"),
        }
    }

    /// Proves: IPAM-8
    #[rstest]
    #[case("CloudAllocator")]
    #[case("IPAMFromCluster")]
    #[case("IPAMFromCloud")]
    fn allocators_that_are_gone_are_named(#[case] allocator: &str) {
        let flags = Typed { allocator: allocator.to_owned(), ..typed("10.244.0.0/16", [0; 3]) };
        let idle = Ranges::of(&flags).unwrap_err().to_string();
        assert!(idle.starts_with(&format!("invalid CIDR allocator type {allocator:?}")), "{idle}");
    }
}
