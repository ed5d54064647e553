//! Addresses on interfaces.

use std::net::IpAddr;

use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::PROTOCOL;

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The length of its prefix.
    pub length: u8,
    /// The number of its interface.
    pub link: u32,
    /// Who put it there; nothing on a kernel before 5.18.
    pub protocol: Option<u8>,
}

impl Address {
    /// Whether it carries our mark.
    pub fn is_ours(&self) -> bool {
        self.protocol == Some(PROTOCOL)
    }
}

pub(super) fn all() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(AddressMessage::default())
}

fn message(ip: IpAddr, length: u8, link: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = length;
    message.header.index = link;
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    message
}

/// Never the source of what this machine sends of its own accord: an IPv6 address is deprecated from the start, and an
/// IPv4 address comes after those whose network holds it. It is usable at once, because whoever takes it over knows that
/// it is free, so nobody is asked (`nodad`).
pub(super) fn add(ip: IpAddr, link: u32) -> RouteNetlinkMessage {
    let mut message = message(ip, if ip.is_ipv4() { 32 } else { 128 }, link);
    if ip.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
        let mut lifetime = CacheInfo::default();
        (lifetime.ifa_preferred, lifetime.ifa_valid) = (0, u32::MAX);
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute));
        message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    }
    message.attributes.push(AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)));
    RouteNetlinkMessage::NewAddress(message)
}

pub(super) fn remove(address: &Address) -> RouteNetlinkMessage {
    RouteNetlinkMessage::DelAddress(message(address.ip, address.length, address.link))
}

pub(super) fn read(message: RouteNetlinkMessage) -> Option<Address> {
    let (RouteNetlinkMessage::NewAddress(message) | RouteNetlinkMessage::DelAddress(message)) = message
    else {
        return None;
    };
    let (mut ip, mut protocol) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // On a link between two, the other end is called the address.
            AddressAttribute::Local(local) => ip = Some(*local),
            AddressAttribute::Address(address) => ip = ip.or(Some(*address)),
            AddressAttribute::Protocol(found) => protocol = Some(u8::from(*found)),
            _ => {}
        }
    }
    Some(Address { ip: ip?, length: message.header.prefix_len, link: message.header.index, protocol })
}
