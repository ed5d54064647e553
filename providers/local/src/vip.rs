//! Virtual addresses: on this machine's interfaces while it answers for them, and told to the neighbours when it begins
//! to.
//!
//! The kernel is the only memory. An address of ours carries our mark there ([`crate::netlink::PROTOCOL`]), so that a
//! manager that starts finds what the one before it left, and nobody else's address is ever touched. `plan` decides what
//! to put and to take, [`announce`] tells the neighbours, [`hear`] listens to the other balancer machines, [`hand_over`]
//! decides which of them gives way, and `contradiction` when a leader says so; `told` is what the neighbours were told,
//! `former` remembers who had an address before, and `relay` keeps connections that were open through it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::netlink::{Address, Hardware, Link, Netlink, NetlinkError, News, Watch};

pub mod announce;
mod arp;
mod contradiction;
mod error;
mod former;
pub mod hand_over;
pub mod hear;
mod neighbour;
mod plan;
mod relay;
mod told;

use announce::Announcer;
pub use error::VipError;
use former::Others;
use relay::Relays;

/// How long to wait after trouble with netlink before listening again.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// What a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Put on an interface.
    pub added: BTreeSet<IpAddr>,
    /// Taken off.
    pub removed: BTreeSet<IpAddr>,
    /// Wanted, and on an interface already by somebody else's hand. They are left to whoever put them there.
    pub theirs: BTreeSet<IpAddr>,
}

/// What a cleanup removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// The addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// The virtual addresses of this machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Addresses {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    netlink: Netlink,
    interface: Option<String>,
    announcer: Announcer,
    /// What this process answers for, and told.
    announced: Mutex<BTreeMap<IpAddr, Link>>,
    others: Mutex<Others>,
    relays: Mutex<Relays>,
    disturbed: watch::Receiver<u64>,
    _listener: tokio_util::task::AbortOnDropHandle<()>,
}

impl Addresses {
    /// The addresses on this interface; without one, each on the interface that leads towards it.
    ///
    /// They belong to the network namespace of the calling thread.
    #[expect(clippy::unused_async, reason = "it needs the runtime on which it listens")]
    pub async fn open(interface: Option<&str>) -> Result<Self, VipError> {
        let netlink = Netlink::open()?;
        let announcer = Announcer::open()?;
        let (ticks, disturbed) = watch::channel(0);
        let listener = tokio::spawn(listen(Watch::open()?, ticks));
        let inner = Inner {
            netlink,
            interface: interface.map(str::to_owned),
            announcer,
            announced: Mutex::default(),
            others: Mutex::default(),
            relays: Mutex::default(),
            disturbed,
            _listener: tokio_util::task::AbortOnDropHandle::new(listener),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes exactly these the addresses of ours on this machine. Those that this process did not answer for yet are
    /// announced, also if a process before it left them here.
    pub async fn hold(&self, wanted: &BTreeSet<IpAddr>) -> Result<Changes, VipError> {
        let here = self.inner.netlink.addresses()?;
        let plan = plan::plan(&here, wanted);
        let links = Link::all()?;
        let mut changes = Changes { theirs: plan.theirs, ..Changes::default() };
        for address in &plan.remove {
            self.remove(address)?;
            changes.removed.insert(address.ip);
        }
        let places = plan.add.iter().map(|ip| Ok((*ip, self.link_for(*ip, &links)?)));
        let places = places.collect::<Result<BTreeMap<IpAddr, Link>, VipError>>()?;
        // Before the first packet can come here.
        self.relay(&places, &links).await;
        for (ip, link) in &places {
            match self.inner.netlink.add_address(*ip, link.index) {
                Err(error) if !error.is_there_already() => return Err(error.into()),
                _ => changes.added.insert(*ip),
            };
        }
        // Read again only if something was added: what was here and is not removed still is.
        let held = if changes.added.is_empty() {
            let stay = |address: &Address| address.is_ours() && !plan.remove.contains(address);
            here.into_iter().filter(stay).collect()
        } else {
            self.ours()?
        };
        if let Some(unmarked) = changes.added.iter().find(|ip| held.iter().all(|each| each.ip != **ip)) {
            self.undo(*unmarked)?;
            return Err(VipError::OldKernel);
        }
        // What was taken off and is back is news to the neighbours again.
        self.announced().retain(|ip, _| !changes.added.contains(ip));
        self.announce_new(&held, &links);
        Ok(changes)
    }

    /// The addresses of ours that are on this machine, as the kernel tells.
    #[expect(clippy::unused_async, reason = "whoever holds addresses elsewhere would have to wait for them")]
    pub async fn held(&self) -> Result<BTreeSet<IpAddr>, VipError> {
        Ok(self.ours()?.into_iter().map(|address| address.ip).collect())
    }

    /// Counts how often something happened after which an address of ours may be gone. An address that is wanted is
    /// then held again by [`Addresses::hold`].
    pub fn disturbed(&self) -> watch::Receiver<u64> {
        self.inner.disturbed.clone()
    }

    /// Takes an address of ours off this machine, because another one answers for it. Whether it was here.
    pub fn give_way(&self, ip: IpAddr) -> Result<bool, VipError> {
        let Some(address) = self.ours()?.into_iter().find(|address| address.ip == ip) else {
            return Ok(false);
        };
        self.remove(&address)?;
        Ok(true)
    }

    fn ours(&self) -> Result<Vec<Address>, NetlinkError> {
        let here = self.inner.netlink.addresses()?;
        Ok(here.into_iter().filter(Address::is_ours).collect())
    }

    fn remove(&self, address: &Address) -> Result<(), NetlinkError> {
        self.announced().remove(&address.ip);
        remove(&self.inner.netlink, address)
    }

    /// Takes off what was just put on and came back without our mark.
    fn undo(&self, ip: IpAddr) -> Result<(), NetlinkError> {
        let here = self.inner.netlink.addresses()?;
        here.iter().filter(|address| address.ip == ip).try_for_each(|address| self.remove(address))
    }

    fn link_for(&self, ip: IpAddr, links: &BTreeMap<String, Link>) -> Result<Link, VipError> {
        if let Some(name) = &self.inner.interface {
            return links.get(name).copied().ok_or_else(|| VipError::NoInterface(name.clone()));
        }
        let index = self.inner.netlink.link_towards(ip)?;
        links.values().find(|link| Some(link.index) == index).copied().ok_or(VipError::NoWay(ip))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(hardware: Hardware) -> String {
    hardware.map(|byte| format!("{byte:02x}")).join(":")
}

/// The hardware addresses of this machine.
fn own_hardware() -> Result<BTreeSet<Hardware>, NetlinkError> {
    Ok(Link::all()?.into_values().filter_map(|link| link.hardware).collect())
}

fn remove(netlink: &Netlink, address: &Address) -> Result<(), NetlinkError> {
    match netlink.remove_address(address) {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// Counts what may have taken an address of ours away.
async fn listen(mut watch: Watch, ticks: watch::Sender<u64>) {
    loop {
        match watch.next().await {
            Ok(news) if news.iter().all(|news| matches!(news, News::RouteGone(_))) => {}
            Ok(_) => ticks.send_modify(|count| *count += 1),
            Err(error) => {
                tracing::warn!(%error, "Cannot hear what happens to the virtual addresses");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    }
}

/// Takes every address of ours off this machine, and nothing else.
pub async fn cleanup() -> Result<Removed, VipError> {
    relay::end().await.map_err(VipError::Relay)?;
    let netlink = Netlink::open()?;
    let addresses = netlink.addresses()?.into_iter().filter(Address::is_ours).collect::<Vec<_>>();
    addresses.iter().try_for_each(|address| remove(&netlink, address))?;
    Ok(Removed { addresses: addresses.into_iter().map(|address| address.ip).collect() })
}
