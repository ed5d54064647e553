//! What a kubelet with `--node-ip` asks for: the annotation is read as strictly as the Go library reads it, and chooses
//! among the addresses that the cloud knows (`GetNodeAddressesFromNodeIP` upstream, KEP-3705).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::NodeAddress;

/// Why the addresses that a kubelet asks for cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeIpError {
    /// An entry is no IP address.
    #[error("could not parse {0:?}")]
    Unreadable(String),
    /// Two of one family, or more than two.
    #[error("must contain either a single IP or a dual-stack pair of IPs")]
    NotAPair,
    /// `0.0.0.0` or `::` beside another address.
    #[error("dual-stack node IP cannot include '0.0.0.0' or '::'")]
    UnspecifiedInPair,
    /// The cloud knows no such address of the instance.
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NotInCloud(IpAddr),
}

/// Reads the annotation: one IP or one of each family, without spaces.
pub fn parse(annotation: &str) -> Result<Vec<IpAddr>, NodeIpError> {
    let wanted: Vec<IpAddr> = annotation
        .split(',')
        .map(|entry| parse_ip(entry).ok_or_else(|| NodeIpError::Unreadable(entry.to_owned())))
        .collect::<Result<_, _>>()?;
    match wanted.as_slice() {
        [one, other] if one.is_ipv6() == other.is_ipv6() => Err(NodeIpError::NotAPair),
        [one, other] if one.is_unspecified() || other.is_unspecified() => Err(NodeIpError::UnspecifiedInPair),
        [_] | [_, _] => Ok(wanted),
        _ => Err(NodeIpError::NotAPair),
    }
}

/// Chooses among the cloud's addresses.
///
/// For each wanted IP, in order, all addresses that are equal by value, in the cloud's spelling; then, in the cloud's
/// order, the addresses of all types that had no match. Other addresses of a matched type are left out.
pub fn choose(cloud: &[NodeAddress], wanted: &[IpAddr]) -> Result<Vec<NodeAddress>, NodeIpError> {
    let mut chosen: Vec<NodeAddress> = Vec::new();
    for ip in wanted {
        let before = chosen.len();
        chosen.extend(cloud.iter().filter(|each| parse_ip(&each.address) == Some(*ip)).cloned());
        if chosen.len() == before {
            return Err(NodeIpError::NotInCloud(*ip));
        }
    }
    let matched: Vec<String> = chosen.iter().map(|each| each.type_.clone()).collect();
    chosen.extend(cloud.iter().filter(|each| !matched.contains(&each.type_)).cloned());
    Ok(chosen)
}

/// An IP address as Go's older parser reads it: leading zeros in decimal parts are allowed, and an IPv4 address in
/// IPv6 dress is the IPv4 address.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let (head, decimal) = match text.rfind(':') {
        Some(colon) => text.split_at(colon + 1),
        None => ("", text),
    };
    let parts: Vec<&str> = decimal.split('.').map(without_leading_zeros).collect();
    format!("{head}{}", parts.join(".")).parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn without_leading_zeros(part: &str) -> &str {
    match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0",
        rest => rest,
    }
}
