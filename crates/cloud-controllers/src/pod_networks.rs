//! The pod networks of a cluster, as `--cluster-cidr` names them: one, or one of each family. The route controller and
//! node IPAM both stand on it; neither takes the process down when it cannot be read.

use ipnet::IpNet;

/// The cluster's pod networks, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNetworks(Vec<IpNet>);

/// Why `--cluster-cidr` names no pod networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Nothing was given.
    #[error("--cluster-cidr is not set, so the cluster's pod networks are not known")]
    Missing,
    /// Something that is no CIDR.
    #[error("--cluster-cidr has {0:?}, which is no CIDR such as 10.244.0.0/16")]
    NoCidr(String),
    /// More than a cluster can have.
    #[error("--cluster-cidr names {0} networks; at most one of each family is possible")]
    TooMany(usize),
    /// Two of one family.
    #[error(
        "--cluster-cidr names {0} and {1}, which are of the same family; two networks must be one IPv4 and one IPv6"
    )]
    SameFamily(IpNet, IpNet),
}

impl PodNetworks {
    /// Reads the value of `--cluster-cidr`: a comma-separated list.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        if text.trim().is_empty() {
            return Err(Unreadable::Missing);
        }
        let read = |part: &str| {
            let part = part.trim();
            part.parse().map(|cidr: IpNet| cidr.trunc()).map_err(|_| Unreadable::NoCidr(part.to_owned()))
        };
        let networks = text.split(',').map(read).collect::<Result<Vec<IpNet>, _>>()?;
        match networks[..] {
            [first, second] if is_ipv6(&first) == is_ipv6(&second) => {
                Err(Unreadable::SameFamily(first, second))
            }
            [_] | [_, _] => Ok(Self(networks)),
            _ => Err(Unreadable::TooMany(networks.len())),
        }
    }

    /// The networks.
    pub fn as_slice(&self) -> &[IpNet] {
        &self.0
    }

    /// Whether there is one of each family.
    pub fn is_dual_stack(&self) -> bool {
        self.0.len() == 2
    }
}

/// The family of a network.
pub(crate) fn is_ipv6(network: &IpNet) -> bool {
    matches!(network, IpNet::V6(_))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.244.0.0/16", &["10.244.0.0/16"])]
    #[case(" 10.244.7.9/16 ", &["10.244.0.0/16"])]
    #[case("fd00::/48,10.244.0.0/16", &["fd00::/48", "10.244.0.0/16"])]
    fn one_network_or_one_of_each_family_is_read_in_order(#[case] text: &str, #[case] networks: &[&str]) {
        let read = PodNetworks::parse(text).unwrap();
        let shown: Vec<String> = read.as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(shown, networks);
        assert_eq!(read.is_dual_stack(), networks.len() == 2);
    }

    /// Proves: ROUTE-4, IPAM-4
    #[rstest]
    #[case("", "--cluster-cidr is not set")]
    #[case("10.244.0.0", "has \"10.244.0.0\", which is no CIDR")]
    #[case("10.244.0.0/16,", "has \"\", which is no CIDR")]
    #[case("10.1.0.0/16,10.2.0.0/16", "are of the same family")]
    #[case("fd00::/48,fd01::/48", "are of the same family")]
    #[case("10.1.0.0/16,fd00::/48,10.2.0.0/16", "names 3 networks")]
    fn anything_else_is_refused_with_the_reason(#[case] text: &str, #[case] why: &str) {
        let refused = PodNetworks::parse(text).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
