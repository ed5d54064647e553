//! Interfaces, as the C library lists them: their names and hardware addresses need no netlink.

use std::collections::BTreeMap;
use std::io;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;

use super::{Hardware, NetlinkError};

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its Ethernet address; `None` where it has no neighbours to tell anything, as the loopback.
    pub hardware: Option<Hardware>,
    /// Where a packet socket sends to.
    pub(crate) socket: LinkAddr,
}

impl Link {
    /// All interfaces, by name.
    pub fn all() -> Result<BTreeMap<String, Self>, NetlinkError> {
        let attempt = |error| NetlinkError::new("listing the interfaces", io::Error::from(error));
        let found = getifaddrs().map_err(attempt)?;
        let links = found.filter_map(|entry| {
            let socket = *entry.address.as_ref()?.as_link_addr()?;
            let speaks = !entry.flags.intersects(InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP);
            let hardware = socket.addr().filter(|_| speaks && socket.halen() == 6);
            let index = u32::try_from(socket.ifindex()).ok()?;
            Some((entry.interface_name, Self { index, hardware, socket }))
        });
        Ok(links.collect())
    }
}
