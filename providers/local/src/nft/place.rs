//! The virtual addresses of all balancers on this machine.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::Leadership;
use tokio::sync::watch;
use tracing::warn;

use super::told;
use crate::intent::Intent;
use crate::netlink::{Address, Netlink};
use crate::vip::{Addresses, Changes, VipError, hand_over};

/// How long to wait after trouble before other machines are listened to again.
const AFTER_TROUBLE: Duration = Duration::from_secs(5);

/// Where virtual addresses are put.
#[derive(Debug, Clone)]
pub(super) struct Place {
    addresses: Addresses,
    netlink: Netlink,
}

impl Place {
    /// On this interface; without one, on the interface that leads towards an address.
    pub(super) async fn open(interface: Option<&str>) -> Result<Self, VipError> {
        Ok(Self { addresses: Addresses::open(interface).await?, netlink: Netlink::open()? })
    }

    /// Makes exactly the addresses of this intent ours on this machine.
    pub(super) async fn hold(&self, intent: &Intent) -> Result<Changes, VipError> {
        self.addresses.hold(&all(intent)).await
    }

    /// The addresses of this intent that are, or will be, on this machine by our hand. Where somebody else put one, the
    /// machine's own services may be there too.
    pub(super) fn own(&self, intent: &Intent) -> Result<BTreeSet<IpAddr>, VipError> {
        let here = self.netlink.addresses()?;
        let theirs: BTreeSet<IpAddr> =
            here.iter().filter(|address| !Address::is_ours(address)).map(|address| address.ip).collect();
        Ok(all(intent).difference(&theirs).copied().collect())
    }

    /// Tells when an address of ours may be gone.
    pub(super) fn disturbed(&self) -> watch::Receiver<u64> {
        self.addresses.disturbed()
    }

    /// Keeps one machine for each address, for as long as the process lives, whether or not it leads.
    pub(super) async fn hand_over(self, leadership: Arc<dyn Leadership>) {
        loop {
            if let Err(error) = hand_over::run(self.addresses.clone(), Arc::clone(&leadership)).await {
                warn!(why = told(&error), "cannot hear other balancer machines; it is tried again");
            }
            tokio::time::sleep(AFTER_TROUBLE).await;
        }
    }
}

fn all(intent: &Intent) -> BTreeSet<IpAddr> {
    intent.balancers.values().flat_map(|balancer| &balancer.addresses).copied().collect()
}
