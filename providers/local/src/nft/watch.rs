//! What happens between two changes of the intent: backends fail and come back, somebody else changes our tables, the time of
//! a connection is over. Only a process that leads acts.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::{EventType, Subject};
use tokio::time::{Instant, interval, sleep_until};
use tracing::warn;

use super::ruleset::{Ruleset, Set};
use super::{Inner, State, listener, metrics, plan, tables, told};
use crate::intent::{Intent, Uid};

/// Several verdicts that come together are one change.
const TOGETHER: Duration = Duration::from_millis(10);
/// The reason of an Event about something that was put right.
const REASON: &str = "LoadBalancerDrifted";

/// Runs until it is aborted or the process ends.
pub(super) async fn run(inner: Arc<Inner>, scan: Duration) {
    tokio::select! {
        () = inner.leadership.leads() => {}
        () = inner.shutdown.requested() => return,
    }
    let mut news = inner.checks.news();
    let mut scan = interval(scan);
    let mut counted = metrics::Counted::default();
    loop {
        let drained = {
            let state = inner.state.lock().await;
            state.drains.iter().map(|drain| drain.due).min()
        };
        let drained = async {
            match drained {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = inner.shutdown.requested() => return,
            changed = news.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(TOGETHER).await;
                news.mark_unchanged();
                if inner.leadership.may_act() {
                    let mut state = inner.state.lock().await;
                    inner.settle(&mut state).await;
                }
            }
            () = drained => {
                if inner.leadership.may_act() {
                    let mut state = inner.state.lock().await;
                    if let Err(error) = inner.end_drained(&mut state).await {
                        warn!(why = told(&error), "cannot end connections whose time is over");
                    }
                }
            }
            _ = scan.tick() => {
                if inner.leadership.may_act() {
                    let mut state = inner.state.lock().await;
                    inner.look(&mut state).await;
                    counted.tell(&inner, &state.intent).await;
                }
            }
        }
    }
}

impl Inner {
    /// Compares the kernel with what it was told, and puts right what differs.
    async fn look(&self, state: &mut State) {
        let Some(expected) = &state.kernel else {
            // It was never told, or the last change failed.
            if !state.intent.balancers.is_empty() {
                self.settle(state).await;
            }
            return;
        };
        let start = Instant::now();
        let found = match tables::read().await {
            Ok(found) => found,
            Err(error) => return warn!(why = told(&error), "cannot read the tables"),
        };
        tracing::debug!(took = ?start.elapsed(), "read the tables");
        if plan::plan(&found, expected).is_empty() {
            return;
        }
        let affected = affected(&found, expected, &state.intent);
        warn!(balancers = affected.len(), "somebody changed our tables; they are put right");
        state.kernel = Some(found);
        self.settle(state).await;
        let outcome = self.failure();
        for uid in affected {
            let Some(balancer) = state.intent.balancers.get(&uid) else { continue };
            let subject = Subject::Service {
                namespace: balancer.namespace.clone(),
                name: balancer.name.clone(),
                uid: uid.clone(),
            };
            let message = match &outcome {
                None => "the rules of the load balancer in the kernel were changed by somebody else, and were put right"
                    .to_owned(),
                Some(why) => format!(
                    "the rules of the load balancer in the kernel were changed by somebody else, and cannot be put right yet: {why}"
                ),
            };
            self.events.record(&subject, EventType::Warning, REASON, &message);
        }
    }
}

/// The balancers that a difference is about; all, if it is in what they share.
fn affected(found: &Ruleset, expected: &Ruleset, intent: &Intent) -> Vec<Uid> {
    let own: Vec<Uid> = intent
        .balancers
        .keys()
        .filter(|uid| {
            let label = format!("-{}-", listener::label(uid));
            parts(found, &label) != parts(expected, &label)
        })
        .cloned()
        .collect();
    if own.is_empty() { intent.balancers.keys().cloned().collect() } else { own }
}

/// What of the tables bears this name: chains with their rules, and places that lead to them.
fn parts<'a>(ruleset: &'a Ruleset, label: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut parts = Vec::new();
    for table in ruleset.tables.values() {
        for (name, chain) in table.chains.iter().filter(|(name, _)| name.contains(label)) {
            parts.push((name.as_str(), chain.rules.iter().map(|rule| rule.comment.as_str()).collect()));
        }
        for elements in table.sets.values().filter_map(Set::elements) {
            let leading = elements
                .iter()
                .filter(|(_, value)| value.as_ref().is_some_and(|value| value.contains(label)))
                .map(|(key, _)| key.as_str());
            parts.extend(leading.map(|key| (key, Vec::new())));
        }
    }
    parts
}
