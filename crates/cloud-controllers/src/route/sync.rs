//! The effects on one Node: its missing routes are made, and its condition says whether it is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::well_known::event_reasons;
use cloud_provider::{ClusterIdentity, Decision, Error, Routes};
use controller_kit::cache::{Cache, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::{Recorder, reference};
use controller_kit::log::report;
use controller_kit::queue::{Priority, Queue};
use controller_kit::worker::Outcome;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::Instant;

use super::condition::{Written, identity};
use super::metrics::Metrics;
use super::plan::Wish;
use super::settings::Settings;
use super::table::{Need, Table};
use super::{NO_CIDR_REASON, Work};
use crate::around::LeaseGate;
use crate::news::News;
use crate::pod_networks::PodNetworks;

/// How long one request to the API server may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// Why routes are compared with Nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// It was time.
    Periodic,
    /// A Node came, went or changed.
    NodeChange,
}

/// What runs over one Node and over the whole table share.
pub(super) struct Core {
    pub(super) api: Api<Node>,
    pub(super) nodes: Cache<Node>,
    /// For what somebody waits for.
    pub(super) urgent: Arc<dyn Routes>,
    /// For comparing what should not have changed.
    pub(super) calm: Arc<dyn Routes>,
    pub(super) gate: LeaseGate,
    pub(super) cluster: ClusterIdentity,
    pub(super) networks: PodNetworks,
    pub(super) events: Recorder,
    pub(super) clock: SharedClock,
    pub(super) metrics: Metrics,
    pub(super) settings: Settings,
    pub(super) queue: Queue<Work>,
    pub(super) news: News,
    pub(super) memory: Mutex<Memory>,
}

/// What is remembered between runs.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) table: Table,
    pub(super) written: Written,
    /// Nodes without pod CIDRs: since when.
    pub(super) without: BTreeMap<String, Instant>,
    /// Whether a Node's change asks for the next pass.
    pub(super) asked: bool,
    /// When the table was last listed.
    pub(super) listed: Option<Instant>,
}

/// What came of one CIDR of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A route is there.
    Met,
    /// A route was made.
    Created,
    /// No route leads there, and a pass over the table is tried again anyway.
    Stuck,
    /// No route leads there; when the cloud asks to be asked again, if it says.
    Failed(Option<Duration>),
    /// Somebody else will see to it, or it was recorded instead of made: the condition is not ours to write.
    NotOurs,
    /// This process may no longer hold the lease.
    Fenced,
}

impl Core {
    /// One run of one Node.
    pub(super) async fn sync_node(&self, key: &Key) -> Outcome {
        let Some(node) = self.nodes.get(key) else { return Outcome::Done };
        let wish = Wish::of(&node);
        if wish.cidrs.is_empty() && wish.garbled.is_empty() {
            return self.without_cidrs(&node).await;
        }
        self.memory().without.remove(&wish.node);
        // The first pass over the table comes back to this Node, and so does the cloud's word on its addresses.
        if wish.is_early || !self.memory().table.is_known() {
            return Outcome::Done;
        }
        let fates = self.meet(&node, &wish).await;
        let failed = |fate: &Fate| matches!(fate, Fate::Failed(_) | Fate::Fenced);
        let word = match &fates {
            fates if fates.iter().any(failed) => "error",
            fates if fates.contains(&Fate::Created) => "changed",
            _ => "noop",
        };
        self.metrics.synced(word, Trigger::NodeChange);
        let reached = fates.iter().all(|fate| matches!(fate, Fate::Met | Fate::Created));
        let silent = fates.iter().any(|fate| matches!(fate, Fate::NotOurs | Fate::Fenced));
        let told = silent || self.tell_condition(&node, reached).await.is_ok();
        let after =
            fates.iter().filter_map(|fate| if let Fate::Failed(after) = fate { *after } else { None });
        match (fates.iter().any(failed), after.min()) {
            (true, Some(after)) => Outcome::RequeueAfter(after),
            (true, None) => Outcome::Requeue,
            (false, _) if !told => Outcome::Requeue,
            (false, _) => {
                if reached {
                    self.news.forget(&wish.node);
                }
                Outcome::Done
            }
        }
    }

    /// Makes the routes that are missing; what came of each CIDR.
    async fn meet(&self, node: &Node, wish: &Wish) -> Vec<Fate> {
        let mut fates = Vec::new();
        if !wish.garbled.is_empty() {
            let garbled = wish.garbled.join(", ");
            let message = format!("Cannot read the pod CIDRs {garbled} of node {}", wish.node);
            self.warn(node, event_reasons::FAILED_TO_CREATE_ROUTE, &message);
            fates.push(Fate::Stuck);
        }
        for cidr in &wish.cidrs {
            fates.push(match self.need(wish, cidr) {
                Need::Met => Fate::Met,
                Need::Stuck => Fate::Stuck,
                Need::Create => self.create(node, wish, *cidr).await,
                Need::Cleared => {
                    self.ask_for_pass();
                    Fate::NotOurs
                }
            });
        }
        fates
    }

    pub(super) fn need(&self, wish: &Wish, cidr: &IpNet) -> Need {
        let is_node = |name: &str| self.nodes.get(&Key::cluster(name)).is_some();
        self.memory().table.need(self.networks.as_slice(), wish, cidr, is_node)
    }

    async fn create(&self, node: &Node, wish: &Wish, cidr: IpNet) -> Fate {
        let route = wish.route(cidr);
        let changes = self.gate.changes_for(format!("node {}", wish.node));
        if let Err(error) = self.urgent.create(&self.cluster, &wish.uid, &route, &changes).await {
            return self.not_created(node, cidr, &error);
        }
        tracing::info!(node = wish.node, %cidr, "Created a route");
        self.memory().table.made(route, Instant::now());
        let current = self.nodes.get(&Key::of(node));
        if current.is_none_or(|current| identity(&current).1 != wish.uid) {
            // The Node went while its route was made.
            self.ask_for_pass();
        }
        Fate::Created
    }

    fn not_created(&self, node: &Node, cidr: IpNet, error: &Error) -> Fate {
        let (name, uid) = identity(node);
        let (advice, after) = match error.decision() {
            Decision::ImplementedElsewhere | Decision::NotImplemented | Decision::Recorded => {
                return Fate::NotOurs;
            }
            Decision::Fenced => return Fate::Fenced,
            // Nothing is wrong.
            Decision::RetryAfter { after } => return Fate::Failed(Some(*after)),
            Decision::Throttled { after } => ("it is tried again more slowly", *after),
            Decision::QuotaExceeded => ("make room in the cloud's route table", None),
            Decision::Unauthorized => ("let the credential in the cloud config manage routes", None),
            Decision::InvalidConfig => ("correct the cloud config", None),
            Decision::NotOwned => ("a route that is not this cluster's is in the way", None),
            _ => ("it is tried again", None),
        };
        self.metrics.failed("create");
        let why = error.report();
        let message = format!("Cannot create a route {uid} to {cidr} for node {name}: {why}; {advice}");
        self.warn(node, event_reasons::FAILED_TO_CREATE_ROUTE, &message);
        Fate::Failed(after)
    }

    /// A Node that has no pod CIDRs, be it not yet or for ever.
    async fn without_cidrs(&self, node: &Node) -> Outcome {
        let (name, _) = identity(node);
        let since = *self.memory().without.entry(name.to_owned()).or_insert_with(Instant::now);
        if self.memory().table.is_unrouted(name) && self.tell_condition(node, false).await.is_err() {
            return Outcome::Requeue;
        }
        let left = self.settings.patience.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Outcome::RequeueAfter(left);
        }
        let message = format!(
            "Node {name} has no pod CIDR, so no route leads to its pods; run node IPAM \
             (--allocate-node-cidrs, here or in kube-controller-manager) or set spec.podCIDRs"
        );
        self.warn(node, NO_CIDR_REASON, &message);
        Outcome::Done
    }

    /// Says on the Node whether it is reached, if it does not say so already.
    async fn tell_condition(&self, node: &Node, reached: bool) -> Result<(), ()> {
        let patch = self.memory().written.patch(node, reached, self.clock.now());
        let Some(patch) = patch else { return Ok(()) };
        let (name, uid) = identity(node);
        let write = patch.only_for_uid(uid);
        let why = match tokio::time::timeout(DEADLINE, write.apply(&self.api, name)).await {
            Ok(Ok(current)) => {
                self.memory().written.note(&current, reached);
                return Ok(());
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 422 && self.is_another(node).await => {
                return Ok(());
            }
            Ok(Err(error)) => report(&error).to_string(),
            Err(_) => format!("no answer within {}s", DEADLINE.as_secs()),
        };
        self.metrics.failed("condition");
        tracing::warn!(node = name, err = why, "Cannot write whether a node is reached");
        Err(())
    }

    /// Whether the name has another Node now.
    async fn is_another(&self, node: &Node) -> bool {
        let (name, uid) = identity(node);
        let current = self.api.get_opt(name).await;
        current.is_ok_and(|current| current.is_none_or(|current| identity(&current).1 != uid))
    }

    /// Asks for the table to be listed soon, with whatever else asks for it by then.
    pub(super) fn ask_for_pass(&self) {
        let mut memory = self.memory();
        memory.asked = true;
        let spaced = memory.listed.map(|listed| self.settings.spacing.saturating_sub(listed.elapsed()));
        let delay = self.settings.gather.max(spaced.unwrap_or_default());
        self.queue.add_after(Work::Table, delay, Priority::NORMAL);
    }

    /// Tells a trouble once.
    pub(super) fn warn(&self, node: &Node, reason: &str, message: &str) {
        let (name, _) = identity(node);
        if self.news.is_news(name, message) {
            tracing::warn!(node = name, reason, message, "Trouble with a node's routes");
            self.events.warning(&reference(node), reason, message);
        }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
