//! A pass over the whole table: it is listed, what is ours and wanted by nobody is removed, and each Node that lacks
//! something is queued. Routes are removed before others are made in their place.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_provider::{Decision, Error, Route};
use controller_kit::cache::Key;
use controller_kit::queue::Priority;
use controller_kit::worker::Outcome;
use futures::StreamExt;
use tokio::time::{Instant, timeout};

use super::plan::{Claim, Removal, Wish, plan};
use super::proof::TagOnly;
use super::sync::{Core, DEADLINE, Trigger};
use super::table::Need;
use super::{NOT_REMOVED_REASON, Work};

/// What became of a route that should go.
enum Removed {
    Gone,
    /// A Node wants it after all, or somebody else sees to it.
    Kept,
    /// It is not provably ours.
    LeftAlone(String),
    Failed(Error),
}

impl Core {
    /// One pass.
    pub(super) async fn pass(&self) -> Outcome {
        let asked = std::mem::take(&mut self.memory().asked);
        let trigger = if asked { Trigger::NodeChange } else { Trigger::Periodic };
        let slot = if asked { &self.urgent } else { &self.calm };
        let began = Instant::now();
        let routes = match slot.list(&self.cluster).await {
            Ok(routes) => routes,
            Err(error) => return self.not_listed(trigger, &error),
        };
        let wishes: Vec<Wish> = self.nodes.list().iter().map(|node| Wish::of(node)).collect();
        let plan = self.take_in(&routes, &wishes, began);
        let (removed, outcome) = self.remove(plan.remove).await;
        let queued = self.queue_nodes(&wishes);
        self.metrics.synced(if removed > 0 { "changed" } else { "noop" }, trigger);
        tracing::debug!(
            routes = routes.len(),
            removed,
            queued,
            ?trigger,
            "Compared the routes with the nodes"
        );
        outcome
    }

    fn not_listed(&self, trigger: Trigger, error: &Error) -> Outcome {
        // The next try is still for those who asked.
        self.memory().asked |= trigger == Trigger::NodeChange;
        self.metrics.synced("error", trigger);
        self.metrics.failed("list");
        tracing::warn!(err = error.report(), "Cannot list the routes");
        retry(error).map_or(Outcome::Requeue, Outcome::RequeueAfter)
    }

    fn take_in(&self, routes: &[Route], wishes: &[Wish], began: Instant) -> super::plan::Plan {
        let idle = wishes.iter().filter(|wish| wish.cidrs.is_empty()).map(|wish| &*wish.node);
        let idle: BTreeSet<&str> = idle.collect();
        let targets = routes.iter().filter_map(|route| route.target_node.as_deref());
        let unrouted = targets.filter(|target| idle.contains(target)).map(str::to_owned).collect();
        let mut memory = self.memory();
        let plan = plan(self.networks.as_slice(), wishes, routes, |name| memory.table.was_ours(name));
        memory.table.take_in(routes, unrouted, began);
        memory.listed = Some(Instant::now());
        self.metrics.routes.set(i64::try_from(routes.len()).unwrap_or(i64::MAX));
        plan
    }

    /// Removes routes. Returns how many are gone, and when to come back.
    async fn remove(&self, removals: Vec<Removal>) -> (usize, Outcome) {
        let at_once = self.settings.removers.max(1);
        let work = removals.into_iter().map(|removal| async move {
            let removed = self.remove_one(&removal).await;
            (removal.route, removed)
        });
        let mut results = futures::stream::iter(work).buffer_unordered(at_once);
        let (mut gone, mut left, mut outcome) = (0, 0, Outcome::Done);
        while let Some((route, removed)) = results.next().await {
            match removed {
                Removed::Gone => {
                    gone += 1;
                    tracing::info!(cidr = %route.destination, node = route.target_node, "Removed a route");
                    self.memory().table.removed(&route);
                }
                Removed::Kept => {}
                Removed::LeftAlone(why) => {
                    left += 1;
                    self.memory().table.is_foreign(&route);
                    if self.news.is_news(&format!("route {} {}", route.name, route.destination), &why) {
                        tracing::warn!(cidr = %route.destination, name = route.name, node = route.target_node, why, "A route in the pod network leads to no node and is left alone: it is not provably this cluster's");
                    }
                }
                Removed::Failed(error) => {
                    self.memory().table.not_removed(&route);
                    self.not_removed(&route, &error);
                    outcome = sooner(outcome, retry(&error));
                }
            }
        }
        self.metrics.left_alone.set(left);
        (gone, outcome)
    }

    async fn remove_one(&self, removal: &Removal) -> Removed {
        let route = &removal.route;
        match self.is_wanted(route).await {
            Ok(true) => return Removed::Kept,
            Ok(false) => {}
            Err(error) => return Removed::Failed(error),
        }
        let cause = format!("route to {}", route.destination);
        let deleted = match removal.claim {
            Claim::Rule => self.urgent.delete(&self.cluster, route, &self.gate.changes_for(cause)).await,
            Claim::Tag => {
                let gate = TagOnly::before(self.gate.gate_for(cause));
                let deleted = self.urgent.delete(&self.cluster, route, &gate.changes()).await;
                if gate.has_refused() {
                    return Removed::LeftAlone("it carries no tag of this cluster".to_owned());
                }
                deleted
            }
        };
        match deleted {
            Ok(()) => Removed::Gone,
            Err(error) => match error.decision() {
                Decision::NotFound => Removed::Gone,
                Decision::NotOwned => Removed::LeftAlone(error.report()),
                Decision::ImplementedElsewhere | Decision::NotImplemented | Decision::Recorded => {
                    Removed::Kept
                }
                _ => Removed::Failed(error),
            },
        }
    }

    /// Whether the Node that a route leads to wants it, as the API server itself has it: a cache may be behind.
    async fn is_wanted(&self, route: &Route) -> Result<bool, Error> {
        let Some(target) = route.target_node.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(false);
        };
        let attempt = || format!("reading node {target} before its route is removed");
        match timeout(DEADLINE, self.api.get_opt(target)).await {
            Ok(Ok(Some(node))) => {
                let wish = Wish::of(&node);
                // What the cache knows of this Node too was weighed already, duplicates included.
                let known =
                    self.nodes.get(&Key::cluster(target)).is_some_and(|known| Wish::of(&known) == wish);
                Ok(!known && wish.is_met_by(route))
            }
            Ok(Ok(None)) => Ok(false),
            Ok(Err(error)) => Err(Error::from_source(attempt(), error)),
            Err(_) => Err(Error::other(attempt())),
        }
    }

    fn not_removed(&self, route: &Route, error: &Error) {
        if *error.decision() == Decision::Fenced {
            return;
        }
        self.metrics.failed("delete");
        let target = route.target_node.as_deref().unwrap_or_default();
        let message = format!(
            "Cannot remove the route to {}: {}; it is tried again",
            route.destination,
            error.report()
        );
        if let Some(node) = self.nodes.get(&Key::cluster(target)) {
            self.warn(&node, NOT_REMOVED_REASON, &message);
        } else {
            tracing::warn!(node = target, message, "Trouble with the route of a node that is gone");
        }
    }

    /// Queues each Node that lacks something; how many.
    fn queue_nodes(&self, wishes: &[Wish]) -> usize {
        let mut queued = 0;
        for wish in wishes.iter().filter(|wish| !wish.is_early) {
            let key = Key::cluster(&*wish.node);
            let Some(node) = self.nodes.get(&key) else { continue };
            let needs: Vec<Need> = wish.cidrs.iter().map(|cidr| self.need(wish, cidr)).collect();
            let met = wish.garbled.is_empty() && needs.iter().all(|need| *need == Need::Met);
            let lacks = if wish.cidrs.is_empty() && wish.garbled.is_empty() {
                self.memory().table.is_unrouted(&wish.node)
            } else {
                !met || self.memory().written.patch(&node, true, self.clock.now()).is_some()
            };
            if lacks {
                queued += 1;
                self.queue.add(Work::Node(key), Priority::NORMAL);
            }
        }
        queued
    }
}

/// When the cloud asks to be asked again, if it says.
fn retry(error: &Error) -> Option<Duration> {
    match error.decision() {
        Decision::RetryAfter { after } => Some(*after),
        Decision::Throttled { after } => *after,
        _ => None,
    }
}

/// Comes back with back-off if anything failed for no stated time.
fn sooner(outcome: Outcome, after: Option<Duration>) -> Outcome {
    match (outcome, after) {
        (Outcome::Requeue, _) | (_, None) => Outcome::Requeue,
        (Outcome::RequeueAfter(before), Some(after)) => Outcome::RequeueAfter(before.min(after)),
        (Outcome::Done, Some(after)) => Outcome::RequeueAfter(after),
    }
}
