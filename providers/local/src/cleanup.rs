//! Everything of ours in this machine's kernel, to be removed when nobody balances here any more.
//!
//! Managers leave it on purpose, so that traffic flows on without them. All of it carries our mark, and nothing that
//! does not is touched.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use cloud_provider::Error;

use crate::netlink::{Address, Netlink, NetlinkError, Route};
use crate::{nft, vip};

/// What is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The virtual addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// The routes, of every cluster.
    pub routes: Vec<Route>,
    /// The tables of rules.
    pub tables: Vec<String>,
}

impl Found {
    /// Looks, and changes nothing.
    pub async fn look() -> Result<Self, Error> {
        let attempt = "looking for what is ours on this machine";
        let tables = nft::found().await.map_err(|error| Error::from_source(attempt, error))?;
        let look = || {
            let netlink = Netlink::open()?;
            let ours = netlink.addresses()?.into_iter().filter(Address::is_ours);
            let addresses = ours.map(|address| address.ip).collect();
            Ok::<_, NetlinkError>(Self { addresses, routes: netlink.routes()?, tables })
        };
        look().map_err(|error| Error::from_source(attempt, error))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.iter().try_for_each(|address| writeln!(f, "address  {address}"))?;
        self.routes.iter().try_for_each(|route| writeln!(f, "route    {route}"))?;
        self.tables.iter().try_for_each(|table| writeln!(f, "table    {table}"))?;
        if *self == Self::default() { writeln!(f, "nothing of ours") } else { Ok(()) }
    }
}

/// Removes it all; what it was.
pub async fn remove() -> Result<Found, Error> {
    let attempt = "removing what is ours on this machine";
    let failed = |error| Error::from_source(attempt, error);
    let removed = vip::cleanup().await.map_err(|error| Error::from_source(attempt, error))?;
    let netlink = Netlink::open().map_err(failed)?;
    let routes = netlink.routes().map_err(failed)?;
    for route in &routes {
        match netlink.remove_route(route) {
            Err(error) if !error.is_gone() => return Err(failed(error)),
            _ => {}
        }
    }
    // After the addresses: no packet comes in for rules that are gone.
    let tables = nft::cleanup().await.map_err(|error| Error::from_source(attempt, error))?;
    Ok(Found { addresses: removed.addresses, routes, tables })
}
