//! Where routes stand: the kernel's main table.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use cloud_provider::{Decision, Error, Permit};

use crate::netlink::{Netlink, NetlinkError, Route};

/// A table of routes of ours.
#[async_trait]
pub trait Table: Send + Sync + 'static {
    /// All of ours, of every cluster. A list that stopped before its end is an error.
    async fn list(&self) -> Result<Vec<Route>, TableError>;

    /// The addresses of this machine.
    async fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, TableError>;

    /// Makes a route, or replaces one of ours to the same destination. One that is there already is success.
    async fn make(&self, route: &Route, replaces: bool, permit: &Permit) -> Result<(), TableError>;

    /// Removes a route. One that is gone already is success.
    async fn remove(&self, route: &Route, permit: &Permit) -> Result<(), TableError>;
}

/// Why a table did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TableError(#[from] pub io::Error);

impl TableError {
    /// As an error of the contract; `attempt` says what was tried.
    pub fn during(self, attempt: impl Into<String>) -> Error {
        let (decision, advice) = match self.0.kind() {
            io::ErrorKind::PermissionDenied => (Decision::Unauthorized, None),
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
                let why = "the node's address must be in a network that this machine is in";
                (Decision::Other, Some(why))
            }
            _ => (Decision::Other, None),
        };
        let error = Error::new(decision, attempt);
        match advice {
            Some(advice) => error.because(format!("{}: {advice}", self.0)),
            None => error.because(self.0),
        }
    }
}

impl From<NetlinkError> for TableError {
    fn from(error: NetlinkError) -> Self {
        Self(io::Error::new(error.kind(), error))
    }
}

/// The kernel's table, in the network namespace of whoever opened it.
#[derive(Debug, Clone)]
pub struct Kernel {
    netlink: Netlink,
}

impl Kernel {
    /// Opens it.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { netlink: Netlink::open()? })
    }
}

#[async_trait]
impl Table for Kernel {
    async fn list(&self) -> Result<Vec<Route>, TableError> {
        Ok(self.netlink.routes()?)
    }

    async fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, TableError> {
        Ok(self.netlink.addresses()?.into_iter().map(|address| address.ip).collect())
    }

    async fn make(&self, route: &Route, replaces: bool, _: &Permit) -> Result<(), TableError> {
        let made = if replaces { self.netlink.replace_route(route) } else { self.netlink.add_route(route) };
        match made {
            // Somebody with our number made it meanwhile: what is wanted holds.
            Err(error) if error.is_there_already() => Ok(self.netlink.replace_route(route)?),
            made => Ok(made?),
        }
    }

    async fn remove(&self, route: &Route, _: &Permit) -> Result<(), TableError> {
        match self.netlink.remove_route(route) {
            Err(error) if !error.is_gone() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
