//! Making the kernel agree with the intent and with what is known of the backends: tables first, then addresses, then the
//! connections that lead where nothing is served any more.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::picture::{Picture, Scene};
use super::plan::plan;
use super::ruleset::Ruleset;
use super::traffic::Drain;
use super::{Inner, conntrack, kernel, networks, tables, told};
use crate::intent::{Delivery, Intent};
use crate::program::ProgramError;
use crate::vip::VipError;

/// How long the first look at the backends may take before the tables that the last process left are touched.
const FIRST_LOOK: Duration = Duration::from_millis(1500);
/// How long a change waits for the first answers of backends that are new.
const NEXT_LOOK: Duration = Duration::from_millis(150);

/// What is being carried out.
pub(super) struct State {
    pub(super) intent: Arc<Intent>,
    pub(super) kernel: Kernel,
    /// What was carried out last, to the end.
    picture: Picture,
    /// Connections that may go on for a while.
    pub(super) drains: Vec<Drain>,
    /// How often the kernel was told.
    pub(super) syncs: u64,
}

/// What tables the kernel has, as far as is known.
#[derive(Default)]
pub(super) enum Kernel {
    /// It was not read yet, or the last change failed.
    #[default]
    Unknown,
    /// It was read, and is not what it was told.
    Found(Ruleset),
    /// It has what it was told.
    Told(Picture),
}

/// Why the kernel is not as it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error("changing the tables")]
    Tables(#[from] ProgramError),
    #[error("putting virtual addresses on this machine")]
    Addresses(#[from] VipError),
}

impl State {
    /// Nothing was carried out yet.
    pub(super) fn with(intent: Arc<Intent>) -> Self {
        Self { intent, kernel: Kernel::Unknown, picture: Picture::default(), drains: Vec::new(), syncs: 0 }
    }
}

impl Inner {
    /// Makes a new intent true. What fails is told by the status and tried again.
    pub(super) async fn carry_out(&self, intent: Arc<Intent>) {
        let mut state = self.state.lock().await;
        state.intent = intent;
        self.settle(&mut state).await;
    }

    /// Makes the kernel agree with the intent and with what is known of the backends.
    pub(super) async fn settle(&self, state: &mut State) {
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
        let patience = if matches!(state.kernel, Kernel::Unknown) { FIRST_LOOK } else { NEXT_LOOK };
        self.checks.first_answers(patience).await;
        let wanted = self.wanted(state)?;
        // Not known again until the change is made.
        let before = std::mem::take(&mut state.kernel);
        if self.tell_kernel(before, &wanted).await? {
            info!(revision = state.intent.revision, "the tables were changed");
        }
        state.kernel = Kernel::Told(wanted.clone());
        // After the rules, so that nobody finds an address where nothing is served yet.
        if let Some(place) = &self.addresses {
            place.hold(&state.intent).await?;
        }
        let_answers_in(&state.intent);
        let (were, are) = state.picture.traffic(&wanted);
        state.picture = wanted;
        state.drains.extend(are.drains_after(&were, &state.intent, Instant::now()));
        let astray = are.astray_after(&were);
        if !astray.is_empty() {
            conntrack::forget(&astray).await?;
        }
        Ok(())
    }

    fn wanted(&self, state: &State) -> Result<Picture, SyncError> {
        let networks = networks::read().unwrap_or_else(|error| {
            warn!(%error, "cannot read which networks are near: clients there may lose answers");
            networks::Networks::new()
        });
        let guarded = match &self.addresses {
            Some(place) => place.own(&state.intent)?,
            None => BTreeSet::new(),
        };
        // Counted before it is asked: a verdict that comes meanwhile is news to the next picture.
        let verdicts = self.checks.verdicts();
        let scene = Scene {
            intent: &state.intent,
            health: &|balancer, key, backend| self.checks.health(&balancer.settings, key, backend),
            verdicts,
            networks: &networks,
            guarded: &guarded,
        };
        Ok(state.picture.then(&scene))
    }

    /// Brings the tables from what they are to what is wanted. Whether that took a change.
    async fn tell_kernel(&self, before: Kernel, wanted: &Picture) -> Result<bool, ProgramError> {
        let script = match before {
            Kernel::Told(told) => {
                let script = told.script(wanted);
                match self.write(&script).await {
                    // Somebody changed what the difference was made from.
                    Err(ProgramError::Refused { why, .. }) => {
                        warn!(why, "the tables are not what they were told to be; they are read");
                        plan(&tables::read().await?, &wanted.whole())
                    }
                    written => return written,
                }
            }
            Kernel::Found(found) => plan(&found, &wanted.whole()),
            Kernel::Unknown => plan(&tables::read().await?, &wanted.whole()),
        };
        self.write(&script).await
    }

    async fn write(&self, script: &str) -> Result<bool, ProgramError> {
        if script.is_empty() {
            return Ok(false);
        }
        tables::change(script, |number| self.writers.note(number)).await.map(|()| true)
    }

    /// Ends the connections whose time is over.
    pub(super) async fn end_drained(&self, state: &mut State) {
        let now = Instant::now();
        let (over, left) = state.drains.drain(..).partition(|drain| drain.due <= now);
        state.drains = left;
        let over: Vec<Drain> = over;
        let flows = state.picture.all_traffic().still_left(&over);
        if let Err(error) = conntrack::end(&flows).await {
            warn!(why = told(&error), "cannot end connections whose time is over");
        }
    }

    /// Why the kernel is not as it should be.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lets packets in that come back from the virtual addresses of Services without node ports.
fn let_answers_in(intent: &Intent) {
    let ports = intent.balancers.values().flat_map(|balancer| balancer.ports.values());
    let unmodified = ports.filter(|port| port.delivery == Delivery::Unmodified);
    let addresses: BTreeSet<IpAddr> =
        unmodified.flat_map(|port| &port.backends).map(|backend| backend.address).collect();
    if let Err(error) = kernel::accept_answers(&addresses) {
        warn!(%error, "cannot let answers from virtual addresses in: set accept_local where the nodes are");
    }
}
