//! What happens between two changes of the intent: backends fail and come back, somebody else changes our tables or takes an
//! address, the time of a connection is over. Only a process that leads acts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::{EventType, Subject};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::warn;

use super::ruleset::{Ruleset, Set};
use super::sync::{Kernel, State};
use super::{Inner, listener, metrics, plan, tables, told};
use crate::intent::{Intent, Uid};
use crate::netlink::{TableWatch, Writer};

/// Several verdicts that come together are one change.
const TOGETHER: Duration = Duration::from_millis(10);
/// A change by somebody else may go on for a moment.
const SETTLED: Duration = Duration::from_millis(50);
/// How long to wait after trouble with netlink before listening again.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// The reason of an Event about something that was put right.
const REASON: &str = "LoadBalancerDrifted";

/// Runs until it is aborted or the process ends.
pub(super) async fn run(inner: Arc<Inner>, mut tables: TableWatch, scan: Duration) {
    tokio::select! {
        () = inner.leadership.leads() => {}
        () = inner.shutdown.requested() => return,
    }
    inner.forget_the_gone().await;
    let mut news = inner.checks.news();
    let mut disturbed = inner.addresses.as_ref().map(super::place::Place::disturbed);
    let mut scan = interval(scan);
    scan.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counted = metrics::Counted::default();
    loop {
        let due = inner.state.lock().await.drains.iter().map(|drain| drain.due).min();
        tokio::select! {
            () = inner.shutdown.requested() => return,
            changed = news.changed() => {
                if changed.is_err() {
                    return;
                }
                sleep(TOGETHER).await;
                news.mark_unchanged();
                inner.if_leading(async |state| inner.settle(state).await).await;
            }
            () = arrives(due) => inner.if_leading(async |state| inner.end_drained(state).await).await,
            writer = tables.next() => match writer {
                Ok(Writer::Known(number)) if inner.writers.wrote(number) => {}
                Ok(_) => {
                    sleep(SETTLED).await;
                    inner.look().await;
                }
                Err(error) => {
                    warn!(why = told(&error), "cannot hear who changes tables");
                    sleep(AFTER_TROUBLE).await;
                }
            },
            () = moves(&mut disturbed) => {
                inner.if_leading(async |state| inner.look_for_addresses(state).await).await;
            }
            _ = scan.tick() => {
                inner.look().await;
                inner.if_leading(async |state| inner.look_for_addresses(state).await).await;
                if inner.leadership.may_act() {
                    counted.tell(&inner).await;
                }
            }
        }
    }
}

async fn arrives(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn moves(news: &mut Option<watch::Receiver<u64>>) {
    let changed = match news {
        Some(news) => news.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

impl Inner {
    async fn if_leading(&self, act: impl AsyncFnOnce(&mut State)) {
        let mut state = self.state.lock().await;
        // Asked last: the lock may have been waited for.
        if self.leadership.may_act() {
            act(&mut state).await;
        }
    }

    /// Compares the kernel with what it was told, and puts right what differs. Reading may take a while, and no change of
    /// ours waits for it: what was read before one is not compared.
    async fn look(&self) {
        let before = self.state.lock().await.syncs;
        let found = match tables::read().await {
            Ok(found) => found,
            Err(error) => return warn!(why = told(&error), "cannot read the tables"),
        };
        self.if_leading(async |state| {
            if state.syncs == before {
                self.compare(state, found).await;
            }
        })
        .await;
    }

    async fn compare(&self, state: &mut State, found: Ruleset) {
        let Kernel::Told(expected) = &state.kernel else {
            // It was never told, or the last change failed.
            if !state.intent.balancers.is_empty() {
                self.settle(state).await;
            }
            return;
        };
        let expected = expected.whole();
        if plan::plan(&found, &expected).is_empty() {
            if self.failure().is_some() {
                self.settle(state).await;
            }
            return;
        }
        let affected = affected(&found, &expected, &state.intent);
        warn!(balancers = affected.len(), "somebody changed our tables; they are put right");
        state.kernel = Kernel::Found(found);
        self.settle(state).await;
        for uid in affected {
            self.tell(
                &state.intent,
                &uid,
                "the rules of the load balancer in the kernel were changed by somebody else",
            );
        }
    }

    /// The same for the addresses.
    async fn look_for_addresses(&self, state: &mut State) {
        let Some(place) = &self.addresses else { return };
        if !matches!(state.kernel, Kernel::Told(_)) || state.intent.balancers.is_empty() {
            return;
        }
        let added = match place.hold(&state.intent).await {
            Ok(changes) => changes.added,
            Err(error) => return warn!(why = told(&error), "cannot put virtual addresses on this machine"),
        };
        for address in added {
            warn!(%address, "somebody took a virtual address; it is put back");
            for uid in having(&state.intent, address) {
                self.tell(
                    &state.intent,
                    &uid,
                    &format!("address {address} was taken off the machine by somebody else"),
                );
            }
        }
    }

    fn tell(&self, intent: &Intent, uid: &Uid, what: &str) {
        let Some(balancer) = intent.balancers.get(uid) else { return };
        let subject = Subject::Service {
            namespace: balancer.namespace.clone(),
            name: balancer.name.clone(),
            uid: uid.clone(),
        };
        let message = match self.failure() {
            None => format!("{what}; it was put right"),
            Some(why) => format!("{what}, and it cannot be put right yet: {why}"),
        };
        self.events.record(&subject, EventType::Warning, REASON, &message);
    }
}

fn having(intent: &Intent, address: IpAddr) -> Vec<Uid> {
    let balancers = intent.balancers.iter();
    balancers
        .filter(|(_, balancer)| balancer.addresses.contains(&address))
        .map(|(uid, _)| uid.clone())
        .collect()
}

/// The balancers that a difference is about; all, if it is in what they share.
fn affected(found: &Ruleset, expected: &Ruleset, intent: &Intent) -> Vec<Uid> {
    let (found, expected) = (parts(found), parts(expected));
    let differs = |uid: &&Uid| {
        let label = listener::label(uid);
        found.get(label.as_str()) != expected.get(label.as_str())
    };
    let own: Vec<Uid> = intent.balancers.keys().filter(differs).cloned().collect();
    if own.is_empty() { intent.balancers.keys().cloned().collect() } else { own }
}

/// What of the tables belongs to a balancer alone, by its name: chains with their rules, and places that lead to them.
fn parts(ruleset: &Ruleset) -> BTreeMap<&str, Vec<(&str, Vec<&str>)>> {
    let mut parts: BTreeMap<&str, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for table in ruleset.tables.values() {
        for (name, chain) in &table.chains {
            if let Some(label) = listener::label_in(name) {
                let rules = chain.rules.iter().map(|rule| rule.comment.as_str()).collect();
                parts.entry(label).or_default().push((name, rules));
            }
        }
        for (key, value) in table.sets.values().filter_map(Set::elements).flatten() {
            let target = value.as_deref().and_then(|value| value.strip_prefix("goto "));
            if let Some(label) = target.and_then(listener::label_in) {
                parts.entry(label).or_default().push((key, Vec::new()));
            }
        }
    }
    parts
}
