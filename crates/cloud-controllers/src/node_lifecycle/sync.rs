//! The effects of the node lifecycle controller: one pass over all Nodes. It asks, [judges](super::judge), and acts.
//!
//! A Node that is not ready is looked up. If the cloud says that it has no instance, the question is asked again a few
//! seconds later, of the cloud itself, together with Nodes that must exist; only then is it judged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Existence, NodeRef, Power};
use controller_kit::cache::Cache;
use controller_kit::clock::SharedClock;
use controller_kit::events::Recorder;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::Instant;

use super::ALLOW_DELETION;
use super::judge::{self, Case, Picture, Suspicion, Verdict};
use super::memory::{Breaker, Deletions, Memory};
use super::metrics::Metrics;
use super::plan::{Sight, is_ready};
use super::settings::Settings;
use crate::node::{Lookup, Purpose};

/// So many plausible answers that there is no instance, with some time between them, are believed.
const ENOUGH: u32 = 2;

/// All that a pass needs and remembers.
pub(super) struct Core {
    pub(super) api: Api<Node>,
    pub(super) nodes: Cache<Node>,
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) events: Recorder,
    pub(super) clock: SharedClock,
    pub(super) metrics: Metrics,
    pub(super) settings: Settings,
    pub(super) memory: Memory,
    pub(super) deletions: Deletions,
    /// By the scheme of provider IDs, as everything that is about one cloud.
    pub(super) breakers: BTreeMap<String, Breaker>,
}

impl Core {
    /// One pass. Returns when the next Node wants to be looked up.
    pub(super) async fn pass(&mut self) -> Option<Instant> {
        let began = Instant::now();
        let nodes = self.nodes.list();
        self.memory.see(nodes.iter().map(|node| (uid(node), is_ready(node))), began);
        for node in nodes.iter().filter(|node| is_ready(node)) {
            self.taint(node, Sight::Ready).await;
        }
        let due = nodes.iter().filter(|node| self.memory.is_due(uid(node), began));
        let (suspects, watched): (Vec<_>, Vec<_>) =
            due.cloned().partition(|node| self.memory.is_absent(uid(node)));
        if !watched.is_empty() {
            self.watch(&nodes, watched).await;
        }
        if !suspects.is_empty() {
            self.confirm(&nodes, suspects).await;
        }
        self.metrics.pass.observe(began.elapsed().as_secs_f64());
        self.memory.next_due()
    }

    /// Looks up Nodes that are not ready. Those that the cloud does not know are asked for once more before witnesses, so
    /// that what is later confirmed was not first said by an inventory that nobody should have believed.
    async fn watch(&mut self, nodes: &[Arc<Node>], watched: Vec<Arc<Node>>) {
        let answers = self.ask(&watched, Purpose::Watch).await;
        let mut unknown = Vec::new();
        for (node, answer) in watched.into_iter().zip(&answers) {
            if matches!(&**answer, Existence::Absent(_)) {
                unknown.push(node);
            } else {
                self.settle(&node, answer).await;
            }
        }
        for (cloud, suspects) in by_cloud(unknown) {
            let (answers, testimony) =
                self.ask_before_witnesses(&cloud, nodes, &suspects, Purpose::Suspect).await;
            for (node, answer) in suspects.iter().zip(&answers) {
                self.settle(node, answer).await;
                if testimony.is_plausible() {
                    self.memory.sighted(uid(node));
                }
            }
        }
    }

    pub(super) async fn ask(&self, nodes: &[Arc<Node>], purpose: Purpose) -> Vec<Arc<Existence>> {
        let asked: Vec<NodeRef> = nodes.iter().map(|node| NodeRef::from(&**node)).collect();
        self.lookup.many(&asked, purpose).await
    }

    /// Takes in an answer about a Node that is not ready.
    async fn settle(&mut self, node: &Arc<Node>, answer: &Existence) {
        let (now, absent) = (Instant::now(), matches!(answer, Existence::Absent(_)));
        self.metrics.answered(answer);
        self.memory.answered(uid(node), absent, &self.settings, now);
        if let Existence::Unknown(doubt) = answer
            && self.memory.is_news(uid(node), "unknown", now)
        {
            tracing::warn!(node = name(node), err = %controller_kit::log::report(doubt), "Cannot tell whether a node's instance exists; the node is left alone");
        }
        let off = matches!(answer, Existence::Found(instance) if instance.power == Power::Off);
        let off_for = self.memory.off(uid(node), off, now);
        let sight = match (off_for, self.settings.out_of_service_after) {
            (Some(off_for), Some(enough)) if off_for >= enough => Sight::OutOfService,
            _ => Sight::NotReady(answer),
        };
        self.taint(node, sight).await;
    }

    /// Asks again for Nodes that seem to be gone, one cloud at a time.
    async fn confirm(&mut self, nodes: &[Arc<Node>], suspects: Vec<Arc<Node>>) {
        let mut blocked = 0;
        for (cloud, suspects) in by_cloud(suspects) {
            blocked += self.confirm_cloud(&cloud, nodes, suspects).await;
        }
        self.metrics.blocked.set(blocked);
        let open = self.breakers.values().filter(|breaker| breaker.is_open()).count();
        self.metrics.breaker_open.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    /// Returns how many Nodes were refused.
    async fn confirm_cloud(&mut self, cloud: &str, nodes: &[Arc<Node>], suspects: Vec<Arc<Node>>) -> i64 {
        let (answers, testimony) = self.ask_before_witnesses(cloud, nodes, &suspects, Purpose::Confirm).await;
        let mut cases = Vec::new();
        for (node, answer) in suspects.iter().zip(&answers) {
            self.settle(node, answer).await;
            if !matches!(&**answer, Existence::Absent(_)) {
                continue;
            }
            // What no plausible answer said before is heard for the first time now.
            if testimony.is_plausible() && self.memory.sighted(uid(node)) < ENOUGH {
                self.memory.look_at(uid(node), Instant::now() + self.settings.confirm_after);
            } else {
                cases.push(Arc::clone(node));
            }
        }
        if cases.is_empty() {
            return 0;
        }
        let ours: Vec<&Arc<Node>> = nodes.iter().filter(|node| is_of(node, cloud)).collect();
        let picture = Picture {
            witnesses: testimony.found,
            denied: testimony.denied,
            unsure: testimony.unsure,
            ..self.picture(cloud, &ours)
        };
        self.decide(cloud, &picture, cases).await
    }

    fn picture(&mut self, cloud: &str, ours: &[&Arc<Node>]) -> Picture {
        self.deletions.forget_before(self.settings.budget.window, Instant::now());
        let is_there = |deleted: &str| ours.iter().any(|node| uid(node) == deleted);
        let deleted = self.deletions.of(cloud).filter(|deleted| !is_there(deleted)).count();
        let absent = ours.iter().filter(|node| self.memory.is_absent(uid(node))).count();
        let nodes = ours.len() + deleted;
        Picture {
            nodes,
            vanished: absent + deleted,
            witnesses: 0,
            denied: 0,
            unsure: 0,
            budget: self.settings.budget.of(nodes).saturating_sub(self.deletions.of(cloud).count()),
        }
    }

    async fn decide(&mut self, cloud: &str, picture: &Picture, cases: Vec<Arc<Node>>) -> i64 {
        let now = Instant::now();
        let open = self.breakers.get(cloud).is_some_and(Breaker::is_open);
        let suspicion = judge::suspect(picture, open, &self.settings);
        let suspicion = self.look_at_breaker(cloud, suspicion, now);
        let (mut budget, mut blocked) = (picture.budget, 0);
        for node in cases {
            let case = self.case(&node, now);
            // A second try on a Node that may be deleted already costs nothing.
            let tried = self.deletions.contains(uid(&node));
            let left = if tried { budget.max(1) } else { budget };
            let picture = Picture { budget: left, ..*picture };
            match judge::judge(&case, &picture, suspicion.as_ref(), &self.settings) {
                Verdict::Delete => {
                    if suspicion.is_some() || left == 0 {
                        self.tell_override(&node, suspicion.as_ref());
                    }
                    if self.delete(&node).await {
                        self.deletions.note(cloud, uid(&node), Instant::now());
                        budget = budget.saturating_sub(usize::from(!tried));
                    }
                }
                Verdict::Taint => {
                    self.tell_gone(&node, "it is tainted, as the policy says");
                    self.taint(&node, Sight::Gone).await;
                }
                Verdict::Report => self.tell_gone(&node, "it is only reported, as the policy says"),
                Verdict::Refuse(refusal) => {
                    blocked += 1;
                    self.tell_refusal(&node, &refusal);
                }
            }
        }
        blocked
    }

    /// Tells when the breaker opens and closes.
    fn look_at_breaker(&mut self, cloud: &str, seen: Option<Suspicion>, now: Instant) -> Option<Suspicion> {
        let breaker = self.breakers.entry(cloud.to_owned()).or_default();
        let was_open = breaker.is_open();
        let suspicion = breaker.look(seen, self.settings.breaker.cool_down, now).cloned();
        match (&suspicion, was_open) {
            (Some(why), false) => {
                tracing::error!(cloud, %why, "Nodes seem to have vanished, and that is not believed: none is deleted");
            }
            (None, true) => tracing::info!(cloud, "What the cloud shows is plausible again"),
            _ => {}
        }
        suspicion
    }

    fn case(&self, node: &Node, now: Instant) -> Case {
        let wall = self.clock.now();
        let created = node.metadata.creation_timestamp.as_ref();
        let annotations = node.metadata.annotations.as_ref();
        Case {
            // A timestamp from the future counts as an age of nothing.
            age: created.map(|at| Duration::try_from(wall.duration_since(at.0)).unwrap_or_default()),
            known_for: self.memory.known_for(uid(node), now),
            has_provider_id: !cloud_of(node).is_empty(),
            allowed: annotations.and_then(|all| all.get(ALLOW_DELETION)).is_some_and(|value| value == "true"),
        }
    }
}

pub(super) fn uid(node: &Node) -> &str {
    node.metadata.uid.as_deref().unwrap_or_default()
}

pub(super) fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The scheme of a Node's provider ID; nothing if it has none.
fn cloud_of(node: &Node) -> &str {
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    id.split_once("://").map_or(id, |(scheme, _)| scheme)
}

/// Nodes by the cloud that they are of.
fn by_cloud(nodes: Vec<Arc<Node>>) -> BTreeMap<String, Vec<Arc<Node>>> {
    let mut clouds: BTreeMap<String, Vec<Arc<Node>>> = BTreeMap::new();
    for node in nodes {
        clouds.entry(cloud_of(&node).to_owned()).or_default().push(node);
    }
    clouds
}

/// Whether a Node says something about a cloud; about Nodes without a provider ID every Node does.
pub(super) fn is_of(node: &Node, cloud: &str) -> bool {
    cloud.is_empty() || cloud_of(node) == cloud
}
