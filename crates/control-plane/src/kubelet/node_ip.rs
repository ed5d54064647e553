//! The argument of `--node-ip`. Follows upstream's `component-helpers/node/util/ips.go`.

use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that a kubelet was told to use: none, one, or one of each family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIp {
    primary: Option<IpAddr>,
    secondary: Option<IpAddr>,
    ignored: Vec<String>,
}

/// A `--node-ip` that a kubelet refuses to start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeIpError {
    /// More than two addresses, or two of one family.
    #[error("reading --node-ip: it must hold a single address, or one of each family")]
    NotAPair,
    /// A pair with 0.0.0.0 or :: in it.
    #[error("reading --node-ip: a pair cannot hold 0.0.0.0 or ::")]
    UnspecifiedInPair,
}

impl NodeIp {
    /// The address named first.
    pub fn primary(&self) -> Option<IpAddr> {
        self.primary
    }

    /// The address of the other family.
    pub fn secondary(&self) -> Option<IpAddr> {
        self.secondary
    }

    /// What could not be read and was left out; a kubelet logs it and goes on.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Whether it names an address, rather than nothing or just a family (0.0.0.0, ::).
    pub fn is_specified(&self) -> bool {
        self.primary.is_some_and(|address| !address.is_unspecified())
    }
}

impl FromStr for NodeIp {
    type Err = NodeIpError;

    fn from_str(flag: &str) -> Result<Self, NodeIpError> {
        let mut addresses = Vec::new();
        let mut ignored = Vec::new();
        for entry in flag.split(',').map(str::trim).filter(|_| !flag.is_empty()) {
            match entry.parse::<IpAddr>() {
                // An IPv4 address in IPv6 clothes is an IPv4 address, as in Go.
                Ok(address) => addresses.push(address.to_canonical()),
                Err(_) => ignored.push(entry.to_owned()),
            }
        }
        match *addresses {
            [] => Ok(Self { ignored, ..Self::default() }),
            [primary] => Ok(Self { primary: Some(primary), secondary: None, ignored }),
            [first, second] if first.is_ipv6() == second.is_ipv6() => Err(NodeIpError::NotAPair),
            [first, second] if first.is_unspecified() || second.is_unspecified() => {
                Err(NodeIpError::UnspecifiedInPair)
            }
            [first, second] => Ok(Self { primary: Some(first), secondary: Some(second), ignored }),
            _ => Err(NodeIpError::NotAPair),
        }
    }
}

impl From<IpAddr> for NodeIp {
    fn from(address: IpAddr) -> Self {
        Self { primary: Some(address), ..Self::default() }
    }
}

impl From<std::net::Ipv4Addr> for NodeIp {
    fn from(address: std::net::Ipv4Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<std::net::Ipv6Addr> for NodeIp {
    fn from(address: std::net::Ipv6Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<(std::net::Ipv4Addr, std::net::Ipv6Addr)> for NodeIp {
    fn from((primary, secondary): (std::net::Ipv4Addr, std::net::Ipv6Addr)) -> Self {
        Self { primary: Some(primary.into()), secondary: Some(secondary.into()), ..Self::default() }
    }
}
