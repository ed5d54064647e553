//! Why a virtual address is not where it should be.

use std::io;
use std::net::IpAddr;

use super::relay;
use crate::netlink::NetlinkError;
use crate::program::ProgramError;

/// Why an address is not on the machine, or not told to anybody.
#[derive(Debug, thiserror::Error)]
pub enum VipError {
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The interface that the config names does not exist.
    #[error("there is no interface {0}: correct dataPlane.interface, or make the interface")]
    NoInterface(String),
    /// No interface leads towards an address.
    #[error("no route leads towards {0}, so no interface can have it: name one in dataPlane.interface")]
    NoWay(IpAddr),
    /// The kernel does not keep our mark.
    #[error(
        "the kernel does not keep who made an address, so ours could not be told from others: version 5.18 or newer is needed"
    )]
    OldKernel,
    /// No packet can be sent to the neighbours, or none heard from them.
    #[error("{0}; this needs the capability NET_RAW")]
    Packets(&'static str, #[source] io::Error),
    /// What passes connections on to a former machine cannot be removed.
    #[error("removing the tables {table}", table = relay::TABLE)]
    Relay(#[source] ProgramError),
}
