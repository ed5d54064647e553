//! The effects of node IPAM: it reads the truth once, then writes one patch per Node, and tells what it cannot do.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::well_known::event_reasons;
use controller_kit::cache::{Cache, Key};
use controller_kit::events::{Recorder, reference};
use controller_kit::log::report;
use controller_kit::patch::node::Change;
use controller_kit::worker::Outcome;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use super::ledger::{Ledger, Oddities};
use super::metrics::Metrics;
use super::plan::{Wish, wish};
use super::{ODD_REASON, UNKNOWN_OUTCOME};
use crate::around::LeaseGate;
use crate::news::News;

/// How often a write is tried in one go.
const TRIES: u32 = 3;

/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How many Nodes are read in one request.
const PAGE: u32 = 500;

pub(super) struct Core {
    pub(super) api: Api<Node>,
    pub(super) nodes: Cache<Node>,
    pub(super) events: Recorder,
    pub(super) gate: LeaseGate,
    pub(super) metrics: Metrics,
    pub(super) ledger: Mutex<Ledger>,
    /// Nodes for which there was no block.
    pub(super) waiting: Mutex<BTreeSet<Key>>,
    /// The UIDs of Nodes that have CIDRs, by name, whatever the cache shows.
    pub(super) settled: Mutex<HashMap<String, String>>,
    pub(super) news: News,
}

/// How a write ended.
enum Written {
    /// The Node has pod CIDRs, ours or others.
    Has(Box<Node>),
    /// The Node is gone, or another one has its name.
    Gone,
    /// It was refused, or nobody knows.
    Failed(String),
    /// This process may not write now.
    Fenced,
}

impl Core {
    /// Reads all Nodes from the storage itself and takes note of what they hold: a cache may lag behind what a former
    /// leader wrote. Returns those that the cache does not have.
    pub(super) async fn take_stock(&self) -> Result<Vec<Key>, kube::Error> {
        let mut strangers = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = self.api.list(&page).await?;
            for node in &list.items {
                if let Wish::Has(cidrs) = wish(node) {
                    self.note(node, cidrs);
                }
                let key = Key::of(node);
                if self.nodes.get(&key).is_none() {
                    strangers.push(key);
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(strangers),
            }
        }
    }

    /// One run of one Node.
    pub(super) async fn sync(&self, key: &Key) -> Outcome {
        let Some(node) = self.nodes.get(key) else {
            self.forget(key.name());
            return Outcome::Done;
        };
        match wish(&node) {
            Wish::Has(cidrs) => self.note(&node, cidrs),
            Wish::Garbled(cidrs) => self.odd(&node, &format!("cannot be read: {}", cidrs.join(", "))),
            Wish::Leaving => {}
            // What was written may not have come back yet, and CIDRs that a Node has it keeps.
            Wish::Needs if self.is_settled(&node) => {}
            Wish::Needs => return self.allocate(key, &node).await,
        }
        Outcome::Done
    }

    /// The Node of this name is gone. Returns one that has waited for a block, if one became free.
    pub(super) fn gone(&self, node: &Node) -> Option<Key> {
        let (name, uid) = identity(node);
        self.news.forget(name);
        if self.is_settled(node) {
            self.settled().remove(name);
        }
        let freed = self.change(|ledger| ledger.forget_uid(name, uid));
        let mut waiting = self.waiting();
        waiting.remove(&Key::of(node));
        if freed { waiting.pop_first() } else { None }
    }

    async fn allocate(&self, key: &Key, node: &Node) -> Outcome {
        let (name, uid) = identity(node);
        let claimed = self.change(|ledger| {
            let claimed = ledger.claim(name, uid);
            if claimed.is_ok() {
                self.metrics.handed_out(ledger);
            }
            claimed
        });
        let cidrs = match claimed {
            Ok(cidrs) => cidrs,
            Err(exhausted) => {
                self.waiting().insert(key.clone());
                let message =
                    format!("No node CIDR is left: {exhausted}; extend --cluster-cidr or remove nodes");
                self.tell(node, event_reasons::CIDR_NOT_AVAILABLE, &message);
                return Outcome::Requeue;
            }
        };
        self.waiting().remove(key);
        match self.write(node, &cidrs).await {
            Written::Has(current) => {
                if let Wish::Has(has) = wish(&current) {
                    tracing::info!(node = name, cidrs = ?has, "Node has its CIDRs");
                    self.note(&current, has);
                }
                Outcome::Done
            }
            Written::Gone => {
                self.change(|ledger| ledger.forget_uid(name, uid));
                Outcome::Done
            }
            Written::Fenced => Outcome::Requeue,
            Written::Failed(why) => {
                let message = format!("Cannot assign {} to node {name}: {why}", listed(&cidrs));
                self.tell(node, event_reasons::CIDR_ASSIGNMENT_FAILED, &message);
                Outcome::Requeue
            }
        }
    }

    /// Writes the CIDRs to this very Node, which refuses them if it has others already.
    async fn write(&self, node: &Node, cidrs: &[IpNet]) -> Written {
        let (name, uid) = identity(node);
        let cidrs: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
        let Ok(Some(patch)) = Change::of(node).pod_cidrs(&cidrs).patch() else {
            return Written::Has(Box::new(node.clone()));
        };
        let patch = patch.only_for_uid(uid);
        let mut why = String::new();
        for _ in 0..TRIES {
            if !self.gate.may_start() {
                return Written::Fenced;
            }
            why = match tokio::time::timeout(DEADLINE, patch.apply(&self.api, name)).await {
                Ok(Ok(current)) => return Written::Has(Box::new(current)),
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Written::Gone,
                Ok(Err(error)) if is_refusal(&error) => return self.explain(node, &error).await,
                Ok(Err(error)) => report(&error).to_string(),
                Err(_) => UNKNOWN_OUTCOME.to_owned(),
            };
        }
        Written::Failed(why)
    }

    /// The server called a write invalid: is it another Node, has this one CIDRs by now, or are ours wrong?
    async fn explain(&self, node: &Node, refusal: &kube::Error) -> Written {
        let (name, uid) = identity(node);
        match self.api.get_opt(name).await {
            Ok(Some(current)) if identity(&current).1 == uid => match wish(&current) {
                Wish::Needs => Written::Failed(report(refusal).to_string()),
                _ => Written::Has(Box::new(current)),
            },
            Ok(_) => Written::Gone,
            Err(error) => Written::Failed(report(&error).to_string()),
        }
    }

    /// Takes note of what a Node has.
    fn note(&self, node: &Node, cidrs: Vec<IpNet>) {
        let (name, uid) = identity(node);
        self.news.forget(name);
        self.settled().insert(name.to_owned(), uid.to_owned());
        let Oddities { outside, shared_with } = self.change(|ledger| ledger.hold(name, uid, cidrs));
        if !outside.is_empty() {
            self.odd(node, &format!("lie outside the cluster's pod networks: {}", listed(&outside)));
        }
        if !shared_with.is_empty() {
            self.odd(node, &format!("are also used by {}", shared_with.join(", ")));
        }
    }

    /// Whether this very Node is known to have CIDRs.
    fn is_settled(&self, node: &Node) -> bool {
        let (name, uid) = identity(node);
        self.settled().get(name).is_some_and(|settled| settled == uid)
    }

    fn forget(&self, name: &str) {
        self.settled().remove(name);
        self.change(|ledger| ledger.forget(name));
    }

    fn odd(&self, node: &Node, how: &str) {
        self.tell(node, ODD_REASON, &format!("The pod CIDRs of node {} {how}", identity(node).0));
    }

    /// Tells a trouble once.
    fn tell(&self, node: &Node, reason: &str, message: &str) {
        let (name, _) = identity(node);
        if self.news.is_news(name, message) {
            tracing::warn!(node = name, reason, message, "Trouble with a node's CIDRs");
            self.events.warning(&reference(node), reason, message);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut ledger);
        self.metrics.show(&ledger);
        answer
    }

    fn settled(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(node: &Node) -> (&str, &str) {
    (node.metadata.name.as_deref().unwrap_or_default(), node.metadata.uid.as_deref().unwrap_or_default())
}

/// Invalid: pod CIDRs cannot be changed once they are set, and a UID never.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

fn listed(cidrs: &[IpNet]) -> String {
    cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
