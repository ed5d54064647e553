//! Routes of our protocol in the main table.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::PROTOCOL;

/// A route of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// What becomes of a packet.
    pub kind: Kind,
    /// Which of several routes to one destination it is.
    pub metric: u32,
}

/// What becomes of a packet that takes a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It goes to this neighbour.
    Via(IpAddr),
    /// It goes nowhere: it is dropped, or the neighbour's interface is down.
    Nowhere,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Via(gateway) => write!(f, "{} via {gateway}", self.destination),
            Kind::Nowhere => write!(f, "{} to nowhere", self.destination),
        }
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// One question for each family.
pub(super) fn ours() -> [RouteNetlinkMessage; 2] {
    [AddressFamily::Inet, AddressFamily::Inet6].map(|family| {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.protocol = RouteProtocol::Other(PROTOCOL);
        RouteNetlinkMessage::GetRoute(message)
    })
}

fn message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(route.destination.addr());
    message.header.destination_prefix_length = route.destination.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Other(PROTOCOL);
    message.attributes = vec![
        RouteAttribute::Destination(route.destination.network().into()),
        RouteAttribute::Priority(route.metric),
    ];
    message
}

pub(super) fn make(route: &Route) -> RouteNetlinkMessage {
    let mut message = message(route);
    message.header.scope = RouteScope::Universe;
    match route.kind {
        Kind::Via(gateway) => {
            message.header.kind = RouteType::Unicast;
            message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        }
        Kind::Nowhere => message.header.kind = RouteType::BlackHole,
    }
    RouteNetlinkMessage::NewRoute(message)
}

/// Whatever it leads to by now.
pub(super) fn remove(route: &Route) -> RouteNetlinkMessage {
    let mut message = message(route);
    message.header.scope = RouteScope::NoWhere;
    RouteNetlinkMessage::DelRoute(message)
}

pub(super) fn towards(ip: IpAddr) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(ip);
    message.header.destination_prefix_length = if ip.is_ipv4() { 32 } else { 128 };
    message.attributes = vec![RouteAttribute::Destination(ip.into())];
    RouteNetlinkMessage::GetRoute(message)
}

/// The interface of a route that was asked for.
pub(super) fn output(message: RouteNetlinkMessage) -> Option<u32> {
    let RouteNetlinkMessage::NewRoute(message) = message else { return None };
    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(link) => Some(*link),
        _ => None,
    })
}

/// A route of ours in the main table; nothing of all others.
pub(super) fn read(message: RouteNetlinkMessage) -> Option<Route> {
    let (RouteNetlinkMessage::NewRoute(message) | RouteNetlinkMessage::DelRoute(message)) = message else {
        return None;
    };
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(PROTOCOL) || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut table = u32::from(header.table);
    let (mut destination, mut gateway, mut metric) = (None, None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    if table != u32::from(RouteHeader::RT_TABLE_MAIN) {
        return None;
    }
    let is_dead = header.flags.intersects(RouteFlags::Dead | RouteFlags::Linkdown);
    let kind = match gateway {
        Some(gateway) if header.kind == RouteType::Unicast && !is_dead => Kind::Via(gateway),
        _ => Kind::Nowhere,
    };
    let destination = IpNet::new(destination?, header.destination_prefix_length).ok()?;
    Some(Route { destination, kind, metric })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}
