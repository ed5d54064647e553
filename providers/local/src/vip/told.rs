//! What the neighbours were told: each address when this process begins to answer for it, and again for those who missed it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::{Addresses, lock};
use crate::netlink::{Address, Link};

/// When a new address is announced again, after the first time: a single packet may be lost, and a switch that just
/// learnt of a cable forwards nothing for a while.
const AGAIN: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

impl Addresses {
    /// Tells the neighbours once more of every address that this process answers for.
    pub fn announce_all(&self) {
        let announced = self.announced().clone();
        for (ip, link) in &announced {
            self.inner.announcer.tell(*ip, link);
        }
        self.tell_own(announced.values());
    }

    /// Tells the neighbours once more of this address, if this process answers for it.
    pub fn announce_again(&self, ip: IpAddr) {
        let link = self.announced().get(&ip).copied();
        if let Some(link) = link {
            self.inner.announcer.tell(ip, &link);
        }
    }

    /// Whether this process answers for an address.
    pub fn answers_for(&self, ip: IpAddr) -> bool {
        self.announced().contains_key(&ip)
    }

    /// Says what this machine's own addresses on these interfaces are.
    fn tell_own<'a>(&self, links: impl Iterator<Item = &'a Link>) {
        let links: BTreeMap<u32, &Link> = links.map(|link| (link.index, link)).collect();
        let here = self.inner.netlink.addresses().unwrap_or_default();
        for address in here.iter().filter(|address| !address.is_ours() && address.length < 32) {
            if let Some(link) = links.get(&address.link) {
                self.inner.announcer.tell_own(address.ip, link);
            }
        }
    }

    /// Tells the neighbours of those addresses that this process did not answer for yet, now and a few times more.
    pub(super) fn announce_new(&self, held: &[Address], links: &BTreeMap<String, Link>) {
        let mut fresh = Vec::new();
        {
            let mut announced = self.announced();
            for address in held {
                let Some(link) = links.values().find(|link| link.index == address.link) else { continue };
                if announced.insert(address.ip, *link).is_none() {
                    fresh.push(address.ip);
                }
            }
        }
        if fresh.is_empty() {
            return;
        }
        tracing::info!(addresses = ?fresh, "Answering for virtual addresses");
        for ip in &fresh {
            self.announce_again(*ip);
        }
        self.tell_own(self.announced().clone().values());
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            for pause in AGAIN {
                tokio::time::sleep(pause).await;
                let Some(inner) = inner.upgrade() else { return };
                let addresses = Self { inner };
                for ip in &fresh {
                    addresses.announce_again(*ip);
                }
                addresses.tell_own(addresses.announced().clone().values());
            }
        });
    }

    /// What this process answers for, and told.
    pub(super) fn announced(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Link>> {
        lock(&self.inner.announced)
    }
}
