//! The networks that this machine has a leg in: a backend answers clients of its own network past this machine.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// A route that leads through somebody else.
const THROUGH_A_GATEWAY: u32 = 0x2;
/// The files of the network that this thread is in.
const FOUR: &str = "/proc/thread-self/net/route";
const SIX: &str = "/proc/thread-self/net/ipv6_route";

/// The networks at each interface.
pub(super) type Networks = BTreeMap<String, Vec<IpNet>>;

/// Reads them from the routes of the kernel.
pub(super) fn read() -> io::Result<Networks> {
    let mut networks = Networks::new();
    let mut add = |interface: &str, network| networks.entry(interface.to_owned()).or_default().push(network);
    for line in std::fs::read_to_string(FOUR)?.lines() {
        if let (Some(network), Some(interface)) = (four(line), line.split_whitespace().next()) {
            add(interface, network);
        }
    }
    // A machine may be without IPv6.
    for line in std::fs::read_to_string(SIX).unwrap_or_default().lines() {
        if let (Some(network), Some(interface)) = (six(line), line.split_whitespace().next_back()) {
            add(interface, network);
        }
    }
    Ok(networks)
}

/// The interface on whose link this address is, for IPv4.
pub(super) fn leg(address: IpAddr) -> Option<String> {
    let routes = std::fs::read_to_string(FOUR).ok()?;
    let near = routes.lines().filter_map(|line| Some((four(line)?, line.split_whitespace().next()?)));
    let nearest = near.filter(|(network, _)| network.contains(&address));
    nearest.max_by_key(|(network, _)| network.prefix_len()).map(|(_, interface)| interface.to_owned())
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`, addresses in hexadecimal, lowest byte first.
fn four(line: &str) -> Option<IpNet> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| u32::from_str_radix(fields.get(index)?, 16).ok();
    let (destination, flags, mask) = (number(1)?, number(3)?, number(7)?);
    if flags & THROUGH_A_GATEWAY != 0 {
        return None;
    }
    let length = u8::try_from(mask.count_ones()).ok()?;
    on_link(IpAddr::from(Ipv4Addr::from(destination.swap_bytes())), length)
}

/// `destination length source length next-hop metric references uses flags device`, all in hexadecimal.
fn six(line: &str) -> Option<IpNet> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let destination = Ipv6Addr::from(u128::from_str_radix(fields.first()?, 16).ok()?);
    let length = u8::from_str_radix(fields.get(1)?, 16).ok()?;
    let next_hop = u128::from_str_radix(fields.get(4)?, 16).ok()?;
    let is_loopback = *fields.get(9)? == "lo";
    // Link-local addresses are no clients of a virtual address.
    let is_local_link = destination.segments()[0] & 0xffc0 == 0xfe80 || destination.is_multicast();
    if next_hop != 0 || is_loopback || is_local_link {
        return None;
    }
    on_link(IpAddr::from(destination), length)
}

/// A network with room for others than one, and not everything.
fn on_link(address: IpAddr, length: u8) -> Option<IpNet> {
    let network = IpNet::new(address, length).ok()?;
    (length > 0 && length < network.max_prefix_len()).then(|| network.trunc())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::on_link("eth0\t0000B10A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", Some("10.177.0.0/24"))]
    #[case::through_a_gateway("eth0\t0001F40A\t0B00B10A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0", None)]
    #[case::the_default("eth0\t00000000\t0100B10A\t0003\t0\t0\t0\t00000000\t0\t0\t0", None)]
    #[case::one_address("eth0\t0100B20A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0", None)]
    #[case::the_heading("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU", None)]
    fn only_networks_on_the_link_are_near(#[case] line: &str, #[case] network: Option<&str>) {
        assert_eq!(four(line), network.map(|text| text.parse().unwrap()));
    }

    #[rstest]
    #[case::on_link("fd770000000000000000000000000000 40", "eth0", Some("fd77::/64"))]
    #[case::loopback("00000000000000000000000000000001 80", "lo", None)]
    #[case::link_local("fe800000000000000000000000000000 40", "eth0", None)]
    #[case::multicast("ff000000000000000000000000000000 08", "eth0", None)]
    fn the_same_for_ipv6(#[case] start: &str, #[case] device: &str, #[case] network: Option<&str>) {
        let zero = "0".repeat(32);
        let line = format!("{start} {zero} 00 {zero} 00000100 00000001 00000000 00000001     {device}");
        assert_eq!(six(&line), network.map(|text| text.parse().unwrap()));
        let through = format!("{start} {zero} 00 fd770000000000000000000000000002 0 0 0 3 {device}");
        assert_eq!(six(&through), None);
    }
}
