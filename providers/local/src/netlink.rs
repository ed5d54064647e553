//! The kernel's interfaces, addresses and routes. The one module that speaks netlink: everybody else sees the plain data
//! of this one, and a new version of the netlink crates touches nothing else.
//!
//! A call here is a system call or two and is answered by the kernel at once, so none of it is asynchronous. A socket
//! belongs to the network namespace of the thread that opened it.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

mod address;
mod link;
mod route;
mod socket;
mod tables;
mod watch;

pub use address::Address;
pub use link::Link;
pub use route::{Kind, Route};
use socket::Socket;
pub use tables::{TableWatch, Writer};
pub use watch::{News, Watch};

/// The number that marks what is ours in the kernel: the protocol of our routes and of our addresses.
///
/// INVARIANT: addresses and routes outlive every release; under another number nobody would find them again. It is none
/// of those that the kernel or a known routing daemon uses.
pub const PROTOCOL: u8 = 78;

/// The length of an Ethernet address.
pub type Hardware = [u8; 6];

/// Why the kernel did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{attempt}")]
pub struct NetlinkError {
    attempt: String,
    #[source]
    source: io::Error,
}

impl NetlinkError {
    fn new(attempt: impl Into<String>, source: io::Error) -> Self {
        Self { attempt: attempt.into(), source }
    }

    /// What the kernel answered.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Whether what should be made is there already.
    pub fn is_there_already(&self) -> bool {
        self.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether what should be removed is not there.
    pub fn is_gone(&self) -> bool {
        // ESRCH for routes, EADDRNOTAVAIL for addresses, ENODEV where their interface went with them.
        let code = self.source.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        [rustix::io::Errno::SRCH, rustix::io::Errno::ADDRNOTAVAIL, rustix::io::Errno::NODEV]
            .iter()
            .any(|gone| code == Some(*gone))
    }
}

/// A conversation with the kernel. Cheap to clone; clones take turns.
#[derive(Debug, Clone)]
pub struct Netlink {
    socket: Arc<Mutex<Socket>>,
}

impl Netlink {
    /// Opens one in the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::open().map_err(|error| NetlinkError::new("opening a netlink socket", error))?;
        Ok(Self { socket: Arc::new(Mutex::new(socket)) })
    }

    /// All addresses of all interfaces.
    pub fn addresses(&self) -> Result<Vec<Address>, NetlinkError> {
        let found = self.turn(|socket| socket.dump(&address::all()));
        let found = found.map_err(|error| NetlinkError::new("listing the addresses", error))?;
        Ok(found.into_iter().filter_map(address::read).collect())
    }

    /// Puts an address on an interface, marked as ours.
    pub fn add_address(&self, ip: IpAddr, link: u32) -> Result<(), NetlinkError> {
        let done = self.turn(|socket| socket.change(address::add(ip, link), socket::Manner::New));
        done.map_err(|error| NetlinkError::new(format!("putting address {ip} on interface {link}"), error))
    }

    /// Takes an address off its interface. The kernel does not compare the mark: the caller must have seen it.
    pub fn remove_address(&self, address: &Address) -> Result<(), NetlinkError> {
        let done = self.turn(|socket| socket.change(address::remove(address), socket::Manner::Old));
        let attempt = || format!("taking address {} off interface {}", address.ip, address.link);
        done.map_err(|error| NetlinkError::new(attempt(), error))
    }

    /// The routes of our protocol in the main table.
    pub fn routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for request in route::ours() {
            let found = self.turn(|socket| socket.dump(&request));
            let found = found.map_err(|error| NetlinkError::new("listing the routes", error))?;
            // A kernel that does not know the filter sends all of them.
            routes.extend(found.into_iter().filter_map(route::read));
        }
        Ok(routes)
    }

    /// Makes a route that is not there, marked as ours.
    pub fn add_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let done = self.turn(|socket| socket.change(route::make(route), socket::Manner::New));
        done.map_err(|error| NetlinkError::new(format!("making the route {route}"), error))
    }

    /// Makes a route in place of the one to the same destination with the same metric.
    pub fn replace_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let done = self.turn(|socket| socket.change(route::make(route), socket::Manner::Replace));
        done.map_err(|error| NetlinkError::new(format!("changing the route to {route}"), error))
    }

    /// Removes a route of ours. The kernel compares the mark: it never removes another's.
    pub fn remove_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let done = self.turn(|socket| socket.change(route::remove(route), socket::Manner::Old));
        done.map_err(|error| NetlinkError::new(format!("removing the route {route}"), error))
    }

    /// The interface through which the kernel would send to this address.
    pub fn link_towards(&self, ip: IpAddr) -> Result<Option<u32>, NetlinkError> {
        let found = self.turn(|socket| socket.ask(route::towards(ip)));
        match found {
            Ok(found) => Ok(found.into_iter().find_map(route::output)),
            Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => Ok(None),
            Err(error) => Err(NetlinkError::new(format!("asking for the way to {ip}"), error)),
        }
    }

    fn turn<T>(&self, action: impl FnOnce(&mut Socket) -> io::Result<T>) -> io::Result<T> {
        action(&mut self.socket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether this process may change the network.
pub fn may_administer() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::NET_ADMIN))
}
