//! The data plane `nft`: the kernel forwards, and this keeps it told what.
//!
//! The rules are the kernel's, so they forward whether or not this process lives: a restart, an upgrade or a lost lease
//! changes nothing for anybody's connection. What this process adds is the knowledge who serves, and the repair of what
//! somebody else changed. It touches the kernel only while it may act.
//!
//! In reading order: `picture` is all that an intent asks for, from `frame`, which all balancers share, and what `render` says of
//! each (`listener`, `share`, `unmodified` are its parts), by `usable`, the choice among the backends that `checks` asks; `plan` is
//! the way there, from the picture before or from what `read` finds; `tables` and `conntrack` have the effects; `sync` puts these in
//! order and [`Nft`] holds it together; `watch` repairs; `leftovers` is for whoever ends it all.

use std::sync::{Arc, Mutex as BlockingMutex};

use async_trait::async_trait;
use cloud_provider::context::{EventSink, Leadership, Metrics, ServiceReader, Shutdown};
use cloud_provider::{ClusterIdentity, Context, Permit};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::config::AddressChoice;
use crate::intent::{Held, Intent, Protocol, ProxyProtocol, Status, Store, StoreError};
use crate::netlink::{NetlinkError, TableWatch};
use crate::plane::{DataPlane, Forwarding, PlaneError};
use crate::proxy::FeedError;
use crate::vip::VipError;

mod checks;
mod conntrack;
mod frame;
mod kernel;
mod leftovers;
mod listener;
mod metrics;
mod networks;
mod options;
mod picture;
mod place;
mod plan;
mod read;
mod render;
mod ruleset;
mod share;
mod status;
mod sync;
mod tables;
mod take_over;
mod traffic;
mod unmodified;
mod usable;
mod watch;
mod writers;

use self::checks::Checks;
use self::sync::State;
use self::writers::Writers;

pub use self::leftovers::{cleanup, found};
pub use self::options::Options;
pub use crate::program::ProgramError;

/// Why the data plane cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The kept intent cannot be read.
    #[error("taking up the kept intent")]
    State(#[from] StoreError),
    /// The kernel does not talk to this process.
    #[error(
        "opening the kernel's tables and addresses: the data plane nft needs root, or the capabilities NET_ADMIN and NET_RAW"
    )]
    Kernel(#[from] VipError),
}

impl From<NetlinkError> for NftError {
    fn from(error: NetlinkError) -> Self {
        Self::Kernel(error.into())
    }
}

/// The data plane in the kernel.
pub struct Nft {
    inner: Arc<Inner>,
    /// End with this value.
    _watching: Vec<AbortOnDropHandle<()>>,
}

struct Inner {
    held: Held,
    checks: Checks,
    /// Where virtual addresses are put; `None` where others lead them here.
    addresses: Option<place::Place>,
    cluster: ClusterIdentity,
    services: Arc<dyn ServiceReader>,
    leadership: Arc<dyn Leadership>,
    shutdown: Arc<dyn Shutdown>,
    events: Arc<dyn EventSink>,
    metrics: Arc<dyn Metrics>,
    /// Held over a whole change.
    state: Mutex<State>,
    /// What the last change ended with, for the status.
    failure: BlockingMutex<Option<String>>,
    writers: Writers,
}

impl Nft {
    /// Takes up what the last process had. Changes nothing: the kernel is touched by a change that was let through, and by
    /// repairs while this process leads.
    pub async fn open(options: Options, context: &Context) -> Result<Self, NftError> {
        let held = match options.state {
            Some(path) => Held::take_up(Store::at(path))?,
            None => Held::default(),
        };
        let addresses = match &options.addresses {
            AddressChoice::Found => Some(place::Place::open(None).await?),
            AddressChoice::Interface(name) => Some(place::Place::open(Some(name)).await?),
            AddressChoice::Routed => None,
        };
        let tables = TableWatch::open(ruleset::TABLE)?;
        let state = State::with(held.now().await);
        let inner = Arc::new(Inner {
            held,
            checks: Checks::none(),
            addresses,
            cluster: context.cluster.clone(),
            services: Arc::clone(&context.services),
            leadership: Arc::clone(&context.leadership),
            shutdown: Arc::clone(&context.shutdown),
            events: Arc::clone(&context.events),
            metrics: Arc::clone(&context.metrics),
            state: Mutex::new(state),
            failure: BlockingMutex::default(),
            writers: Writers::default(),
        });
        let mut watching = vec![tokio::spawn(watch::run(Arc::clone(&inner), tables, options.scan))];
        if let Some(place) = &inner.addresses {
            watching.push(tokio::spawn(place.clone().hand_over(Arc::clone(&inner.leadership))));
        }
        Ok(Self { inner, _watching: watching.into_iter().map(AbortOnDropHandle::new).collect() })
    }
}

#[async_trait]
impl DataPlane for Nft {
    fn forwarding(&self) -> Forwarding {
        Forwarding::Kernel
    }

    async fn intent(&self) -> Result<Intent, PlaneError> {
        Ok((*self.inner.held.now().await).clone())
    }

    async fn status(&self) -> Result<Status, PlaneError> {
        let intent = self.inner.held.now().await;
        Ok(status::of(&intent, &self.inner.checks, self.inner.failure().as_deref()))
    }

    async fn status_of(&self, uid: &str) -> Result<Status, PlaneError> {
        let intent = self.inner.held.now().await;
        Ok(status::of_one(&intent, uid, &self.inner.checks, self.inner.failure().as_deref()))
    }

    async fn apply(&self, intent: Intent, _: &Permit) -> Result<u64, PlaneError> {
        refuse(&intent)?;
        let inner = Arc::clone(&self.inner);
        // In a task of its own: a caller that loses interest in the middle must not leave half a change.
        let change = tokio::spawn(async move {
            let carried = inner.held.change(intent, async |intent| inner.carry_out(intent).await);
            carried.await
        });
        let changed = change.await.unwrap_or_else(|panicked| Err(FeedError::Failed(panicked.to_string())));
        Ok(changed?)
    }
}

/// What the kernel cannot do and nobody may believe it does.
fn refuse(intent: &Intent) -> Result<(), PlaneError> {
    let asks = |version: Option<ProxyProtocol>| version.is_some();
    match intent.balancers.values().find(|balancer| asks(balancer.settings.proxy_protocol)) {
        None => Ok(()),
        Some(balancer) => Err(PlaneError::Refused(format!(
            "{} asks for the PROXY protocol, which only the data plane proxy speaks",
            balancer.full_name()
        ))),
    }
}

/// An error and its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Whether a protocol has connections that are worth keeping when a backend leaves.
fn is_drained(protocol: Protocol) -> bool {
    protocol == Protocol::Tcp
}

#[cfg(test)]
mod tests;
