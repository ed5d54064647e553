//! The data plane `nft`: the kernel forwards, and this keeps it told what.
//!
//! The rules are the kernel's, so they forward whether or not this process lives: a restart, an upgrade or a lost lease
//! changes nothing for anybody's connection. What this process adds is the knowledge who serves, and the repair of what
//! somebody else changed. It touches the kernel only while it may act.
//!
//! In reading order: `render` says which tables an intent asks for (`listener`, `share`, `unmodified` are its parts), from the
//! intent and `usable`, the choice among the backends that `checks` asks; `plan` is the way there from what `read` finds; `tables`
//! and `conntrack` have the effects; [`Nft`] holds it together; `watch` repairs.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::context::{EventSink, Leadership, Metrics, ServiceReader, Shutdown};
use cloud_provider::{ClusterIdentity, Context, Permit};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::config::{AddressChoice, KernelChoice};
use crate::intent::{Delivery, Held, Intent, Protocol, ProxyProtocol, Status, Store, StoreError};
use crate::netlink::{NetlinkError, TableWatch};
use crate::plane::{DataPlane, Forwarding, PlaneError};
use crate::proxy::FeedError;
use crate::vip::VipError;

mod checks;
mod conntrack;
mod kernel;
mod listener;
mod metrics;
mod networks;
mod place;
mod plan;
mod program;
mod read;
mod render;
mod ruleset;
mod share;
mod status;
mod tables;
mod take_over;
mod traffic;
mod unmodified;
mod usable;
mod watch;

use self::checks::Checks;
use self::render::{Scene, render};
use self::ruleset::Ruleset;
use self::traffic::{Drain, Traffic};
use self::usable::Choices;

pub use self::program::ProgramError;

/// How often the kernel is asked whether it still has what it was told, unless somebody says otherwise.
const SCAN: Duration = Duration::from_secs(10);
/// How long the first look at the backends may take before the tables that the last process left are touched.
const FIRST_LOOK: Duration = Duration::from_millis(1500);
/// How long a change waits for the first answers of backends that are new.
const NEXT_LOOK: Duration = Duration::from_millis(150);

/// How many of the processes that changed tables for us are remembered.
const WRITERS: usize = 64;

/// What the plane is told when it is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file that keeps the last intent; without one it ends with the process.
    pub state: Option<PathBuf>,
    /// Where the virtual addresses are put and announced.
    pub addresses: AddressChoice,
    /// How often the kernel is asked whether it still has what it was told.
    pub scan: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { state: None, addresses: AddressChoice::Found, scan: SCAN }
    }
}

impl Options {
    /// What a config asks for.
    pub fn of(choice: &KernelChoice) -> Self {
        Self { state: Some(choice.state.clone()), addresses: choice.addresses.clone(), ..Self::default() }
    }
}

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
    /// The processes that changed tables for us a moment ago: their news are none.
    writers: BlockingMutex<VecDeque<u32>>,
}

struct State {
    /// What is carried out.
    intent: Arc<Intent>,
    /// What the kernel has, as far as is known; `None` before it was read.
    kernel: Option<Ruleset>,
    /// Where connections lead.
    traffic: Traffic,
    /// Connections that may go on for a while.
    drains: Vec<Drain>,
    /// How often the kernel was told.
    syncs: u64,
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
        let state = State {
            intent: held.now().await,
            kernel: None,
            traffic: Traffic::default(),
            drains: Vec::new(),
            syncs: 0,
        };
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
            writers: BlockingMutex::default(),
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

impl Inner {
    /// Makes a new intent true. What fails is told by the status and tried again.
    async fn carry_out(&self, intent: Arc<Intent>) {
        let mut state = self.state.lock().await;
        state.intent = intent;
        self.settle(&mut state).await;
    }

    /// Makes the kernel agree with the intent and with what is known of the backends.
    async fn settle(&self, state: &mut State) {
        let outcome = self.sync(state).await;
        let why = outcome.as_ref().err().map(|error| told(error));
        if let Some(why) = &why {
            warn!(why, "the kernel could not be told; it is tried again");
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    async fn sync(&self, state: &mut State) -> Result<(), SyncError> {
        state.syncs += 1;
        self.checks.follow(&state.intent);
        let patience = if state.kernel.is_none() { FIRST_LOOK } else { NEXT_LOOK };
        self.checks.first_answers(patience).await;
        let choices = self.choices(&state.intent);
        let wanted = self.wanted(&state.intent, &choices)?;
        // Not known again until the change is made.
        let now = match state.kernel.take() {
            Some(known) => known,
            None => tables::read().await?,
        };
        if tables::change(&now, &wanted, |number| self.writes(number)).await? {
            info!(revision = state.intent.revision, "the tables were changed");
        }
        state.kernel = Some(wanted);
        // After the rules, so that nobody finds an address where nothing is served yet.
        if let Some(place) = &self.addresses {
            place.hold(&state.intent).await?;
        }
        let_answers_in(&state.intent);
        let traffic = Traffic::of(&state.intent, &choices);
        let before = std::mem::replace(&mut state.traffic, traffic);
        state.drains.extend(state.traffic.drains_after(&before, &state.intent, Instant::now()));
        let astray = state.traffic.astray_after(&before);
        if !astray.is_empty() {
            conntrack::forget(&astray).await?;
        }
        Ok(())
    }

    /// Ends the connections whose time is over.
    async fn end_drained(&self, state: &mut State) {
        let now = Instant::now();
        let (over, left) = state.drains.drain(..).partition(|drain| drain.due <= now);
        state.drains = left;
        let over: Vec<Drain> = over;
        let flows = state.traffic.still_left(&over);
        if let Err(error) = conntrack::end(&flows).await {
            warn!(why = told(&error), "cannot end connections whose time is over");
        }
    }

    fn choices(&self, intent: &Intent) -> Choices {
        Choices::make(intent, |balancer, key, backend| self.checks.health(&balancer.settings, key, backend))
    }

    fn wanted(&self, intent: &Intent, choices: &Choices) -> Result<Ruleset, SyncError> {
        let networks = networks::read().unwrap_or_else(|error| {
            warn!(%error, "cannot read which networks are near: clients there may lose answers");
            networks::Networks::new()
        });
        let guarded = match &self.addresses {
            Some(place) => place.own(intent)?,
            None => BTreeSet::new(),
        };
        Ok(render(&Scene { intent, choices, networks: &networks, guarded: &guarded }))
    }

    /// Notes a process that changes tables for us.
    fn writes(&self, number: u32) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if writers.len() == WRITERS {
            writers.pop_front();
        }
        writers.push_back(number);
    }

    fn wrote(&self, number: u32) -> bool {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lets packets in that come back from the virtual addresses of Services without node ports.
fn let_answers_in(intent: &Intent) {
    let ports = intent.balancers.values().flat_map(|balancer| balancer.ports.values());
    let unmodified = ports.filter(|port| port.delivery == Delivery::Unmodified);
    let addresses = unmodified.flat_map(|port| &port.backends).map(|backend| &backend.address);
    if let Err(error) = kernel::accept_answers(addresses) {
        warn!(%error, "cannot let answers from virtual addresses in: set accept_local where the nodes are");
    }
}

/// Why the kernel is not as it should be.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("changing the tables")]
    Tables(#[from] ProgramError),
    #[error("putting virtual addresses on this machine")]
    Addresses(#[from] VipError),
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

/// Our tables in this machine's kernel; none where the program `nft` is not there to have made one.
pub async fn found() -> Result<Vec<String>, ProgramError> {
    Ok(names(&known().await?))
}

/// Removes our tables, and what the kernel remembers of connections through them. Tells which they were.
pub async fn cleanup() -> Result<Vec<String>, ProgramError> {
    let found = known().await?;
    tables::change(&found, &Ruleset::default(), |_| {}).await?;
    let places = traffic::listeners_in(&found);
    if !places.is_empty() {
        conntrack::forget(&places).await?;
    }
    Ok(names(&found))
}

async fn known() -> Result<Ruleset, ProgramError> {
    match tables::read().await {
        Err(ProgramError::Missing { .. }) => Ok(Ruleset::default()),
        other => other,
    }
}

fn names(ruleset: &Ruleset) -> Vec<String> {
    ruleset.tables.keys().map(|family| format!("{family} {}", ruleset::TABLE)).collect()
}

/// Whether a protocol has connections that are worth keeping when a backend leaves.
fn is_drained(protocol: Protocol) -> bool {
    protocol == Protocol::Tcp
}

#[cfg(test)]
mod tests;
