//! A run of addresses of one family: `192.0.2.10-192.0.2.20`, `192.0.2.0/28`, `2001:db8::7`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// A run of addresses of one family, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRange {
    /// It is no address, network or pair of addresses.
    #[error(
        "{0:?} is no address, no network and no range: expected 192.0.2.1, 192.0.2.0/28 or 192.0.2.10-192.0.2.20"
    )]
    Unreadable(String),
    /// Its ends are of different families.
    #[error("{0:?} begins in one address family and ends in another")]
    MixedFamilies(String),
    /// It ends before it begins.
    #[error("{0:?} ends before it begins")]
    Reversed(String),
    /// A network whose address has bits set behind its mask is more often a slip than meant.
    #[error("{0:?} has bits set behind its mask: did you mean {1}?")]
    NotANetwork(String, IpNet),
    /// No machine can answer at such addresses.
    #[error("{0:?} has addresses that no machine can answer at: {1} is {2}")]
    Unusable(String, IpAddr, &'static str),
}

impl Range {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether it has an address in common with another one.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4() && self.first <= other.last && other.first <= self.last
    }

    /// Whether its addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Its addresses, from the first to the last.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let make = if self.is_ipv4() { from_v4 } else { from_v6 };
        (number(self.first)..=number(self.last)).map(make)
    }

    /// Whether this is an address that some networks treat as their own.
    pub fn is_edge(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.first != self.last && matches!(address.octets()[3], 0 | 255),
            IpAddr::V6(address) => self.first != self.last && address.octets()[8..] == [0; 8],
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn from_v4(number: u128) -> IpAddr {
    // The numbers come from IPv4 addresses, so the upper bits are zero.
    IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)))
}

fn from_v6(number: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(number))
}

impl FromStr for Range {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let unreadable = || BadRange::Unreadable(text.to_owned());
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            let end = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| unreadable());
            (end(first)?, end(last)?)
        } else if text.contains('/') {
            let net = text.trim().parse::<IpNet>().map_err(|_| unreadable())?;
            if net != net.trunc() {
                return Err(BadRange::NotANetwork(text.to_owned(), net.trunc()));
            }
            (net.network(), net.broadcast())
        } else {
            let address = text.trim().parse().map_err(|_| unreadable())?;
            (address, address)
        };
        if first.is_ipv4() != last.is_ipv4() {
            return Err(BadRange::MixedFamilies(text.to_owned()));
        }
        if last < first {
            return Err(BadRange::Reversed(text.to_owned()));
        }
        let range = Self { first, last };
        match range.unusable() {
            Some((address, why)) => Err(BadRange::Unusable(text.to_owned(), address, why)),
            None => Ok(range),
        }
    }
}

/// Runs of addresses that are nobody's, with the word for them.
const NOBODYS: [(&str, &str, &str); 4] = [
    ("0.0.0.0", "0.255.255.255", "no address of a machine"),
    ("224.0.0.0", "255.255.255.255", "multicast, reserved or broadcast"),
    ("::", "::", "no address of a machine"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
];

impl Range {
    /// The first address in it that no machine can have, and why.
    fn unusable(&self) -> Option<(IpAddr, &'static str)> {
        NOBODYS.iter().find_map(|(first, last, why)| {
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            let nobodys = Self { first, last };
            self.overlaps(&nobodys).then(|| (self.first.max(first), *why))
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}
