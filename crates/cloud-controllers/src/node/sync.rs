//! The effects of the node controller: it asks, plans, and writes.
//!
//! A new Node costs at most two writes: its status with the addresses, and then, built on the answer to the first, all
//! the rest with the taint's removal. A Node is therefore never open to pods without its addresses. Neither write can
//! hit another Node of the same name, and the second fails if the Node's taints changed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::well_known::event_reasons;
use cloud_provider::{Existence, Instance, NodeRef};
use controller_kit::cache::{Cache, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::{Recorder, reference};
use controller_kit::log::report;
use controller_kit::patch::Patch;
use controller_kit::random::Randomness;
use controller_kit::worker::Outcome;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::condition;
use super::failure::Failure;
use super::lookup::{Lookup, Purpose};
use super::metrics::Metrics;
use super::plan::{self, Plan};
use super::settings::Settings;
use super::waiting::Waiting;

/// How often a write is tried on a Node that changes under our hands; each try reads it anew.
const TRIES: u32 = 5;

/// The pause before such a try, and up to as much again.
const PAUSE: Duration = Duration::from_millis(100);

/// What initialising and refreshing share.
pub(super) struct Core {
    pub(super) api: Api<Node>,
    pub(super) nodes: Cache<Node>,
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) events: Recorder,
    pub(super) clock: SharedClock,
    pub(super) random: Randomness,
    pub(super) metrics: Metrics,
    /// A permit for each Node that may be written at once.
    pub(super) writers: Semaphore,
    pub(super) settings: Settings,
    pub(super) waiting: Waiting,
}

/// How a write ended that did not succeed.
#[derive(Debug)]
pub(super) enum Setback {
    /// The Node is gone, or another one has its name: nothing is left to do.
    Gone,
    /// Tried again later.
    Failed(Failure),
}

impl Core {
    /// One run of one Node. Failures are told here; the queue only learns when to come back.
    pub(super) async fn sync(&self, key: &Key) -> Outcome {
        let node = self.nodes.get(key).filter(|node| node.metadata.deletion_timestamp.is_none());
        let Some(node) = node else {
            self.waiting.forget(key.name());
            return Outcome::Done;
        };
        if plan::is_uninitialised(&node) {
            return self.initialise(&node).await;
        }
        self.welcome_untold(&node);
        self.waiting.forget(key.name());
        match self.write(&node, &plan::mirror(&node, self.settings.labels), None).await {
            Ok(_) | Err(Setback::Gone) => Outcome::Done,
            Err(Setback::Failed(failure)) => {
                tracing::warn!(node = key.name(), err = failure.message, "Cannot make a node's labels agree");
                Outcome::Requeue
            }
        }
    }

    async fn initialise(&self, node: &Node) -> Outcome {
        let (name, uid) = identity(node);
        if !self.waiting.seen(name, uid, version(node), Instant::now()) {
            return Outcome::Done;
        }
        let answer = self.lookup.one(&NodeRef::from(node), Purpose::Initialise).await;
        let failure = match (&*answer, Failure::of(&answer)) {
            (_, Some(failure)) => failure,
            (Existence::Found(instance), None) => match self.adopt(node, instance).await {
                Ok(()) | Err(Setback::Gone) => return Outcome::Done,
                Err(Setback::Failed(failure)) => failure,
            },
            // Another cloud's: its own controllers initialise it.
            _ => return Outcome::Done,
        };
        let after = failure.after;
        self.tell(node, &failure).await;
        after.map_or(Outcome::Requeue, Outcome::RequeueAfter)
    }

    /// Plans and writes until it is done or tried often enough.
    async fn adopt(&self, node: &Node, instance: &Instance) -> Result<(), Setback> {
        // Nobody closes it.
        let _permit = self.writers.acquire().await.ok();
        let mut node = node.clone();
        for attempt in 1.. {
            if !plan::is_uninitialised(&node) {
                self.welcome_untold(&node);
                return Ok(());
            }
            let plan = plan::initialise(&node, instance, &self.settings.nets)
                .map_err(|refusal| Setback::Failed(Failure::from(&refusal)))?;
            let error = match self.write_initial(&node, &plan).await {
                Ok(node) => {
                    self.welcome(&node, &plan);
                    return Ok(());
                }
                Err(error) => error,
            };
            if is_unanswered(&error) {
                self.waiting.unanswered(identity(&node).0, plan);
            } else if !is_race(&error) {
                return Err(Setback::Failed(Failure::write(&error)));
            }
            if attempt >= TRIES {
                return Err(Setback::Failed(Failure::write(&error)));
            }
            tokio::time::sleep(self.random.jitter(PAUSE, 1.0)).await;
            let current = self.read(&node).await?;
            // An invalid write of an unchanged Node would be as invalid the next time.
            if is_invalid(&error) && version(&current) == version(&node) {
                return Err(Setback::Failed(Failure::write(&error)));
            }
            node = current;
        }
        Ok(())
    }

    /// Addresses first, then the rest on top of the answer.
    async fn write_initial(&self, node: &Node, plan: &Plan) -> Result<Node, kube::Error> {
        let (name, uid) = identity(node);
        let resolved = condition::resolved(node, self.clock.now());
        let mut current = None;
        if let Some(patch) = condition::together(plan.status_patch(node), resolved) {
            current = Some(patch.only_for_uid(uid).apply(&self.api, name).await?);
        }
        let base = current.as_ref().unwrap_or(node);
        match plan.object_patch(base) {
            Ok(Some(patch)) => patch.only_for_uid(uid).apply(&self.api, name).await,
            Ok(None) => Ok(base.clone()),
            Err(missing) => Err(kube::Error::Service(Box::new(missing))),
        }
    }

    /// Tells of a Node that is initialised by a write whose answer was lost, however long ago.
    fn welcome_untold(&self, node: &Node) {
        let (name, uid) = identity(node);
        if let Some(plan) = self.waiting.untold(name, uid) {
            self.welcome(node, &plan);
        }
    }

    /// Tells that a Node is ready to be used.
    fn welcome(&self, node: &Node, plan: &Plan) {
        let (name, _) = identity(node);
        let age = node.metadata.creation_timestamp.as_ref().map(|created| {
            let age = self.clock.now().duration_since(created.0);
            Duration::try_from(age).unwrap_or_default().as_secs_f64()
        });
        if let Some(age) = age {
            self.metrics.taint_removal_delay.observe(age);
        }
        self.events.normal(&reference(node), event_reasons::SYNCED, "Node synced successfully");
        if let Some(age) = age {
            self.metrics.initial_sync_delay.observe(age);
        }
        if let Some(waited) = self.waiting.done(name, version(node), Instant::now()) {
            self.metrics.initialization.observe(waited.as_secs_f64());
        }
        for note in &plan.notes {
            tracing::warn!(node = name, %note, "The cloud's answer was not taken as it is");
        }
        tracing::info!(node = name, "Initialized a node");
    }

    /// Counts a failure, and tells it where people look, if it is new.
    async fn tell(&self, node: &Node, failure: &Failure) {
        let (name, uid) = identity(node);
        self.metrics.failed(failure.reason);
        if !self.waiting.failed(name, failure, Instant::now()) {
            tracing::debug!(node = name, reason = failure.reason, "Still cannot initialize a node");
            return;
        }
        tracing::warn!(
            node = name,
            reason = failure.reason,
            err = failure.message,
            "Cannot initialize a node"
        );
        self.events.warning(&reference(node), failure.reason, &*failure.message);
        let patch = condition::failing(node, failure, self.clock.now());
        if let Some(patch) = patch
            && let Err(error) = patch.only_for_uid(uid).apply(&self.api, name).await
        {
            tracing::debug!(node = name, err = %report(&error), "Cannot write the condition of a node");
        }
    }

    /// Carries out a plan for an initialised Node, and what else there is for its status; whether anything was written.
    pub(super) async fn write(
        &self,
        node: &Node,
        plan: &Plan,
        status: Option<Patch>,
    ) -> Result<bool, Setback> {
        let object = plan
            .object_patch(node)
            .map_err(|missing| Setback::Failed(Failure::write(&kube::Error::Service(Box::new(missing)))))?;
        let status = condition::together(plan.status_patch(node), status);
        let patches: Vec<Patch> = status.into_iter().chain(object).collect();
        let (name, uid) = identity(node);
        let wrote = !patches.is_empty();
        for patch in patches {
            if let Err(error) = patch.only_for_uid(uid).apply(&self.api, name).await {
                if is_race(&error) || is_gone(&error) {
                    // Says whether it was the Node that changed, or what we wanted to write.
                    self.read(node).await?;
                }
                return Err(Setback::Failed(Failure::write(&error)));
            }
        }
        Ok(wrote)
    }

    /// The Node as it is now, if it is still the same.
    async fn read(&self, node: &Node) -> Result<Node, Setback> {
        let (name, uid) = identity(node);
        match self.api.get_opt(name).await {
            Ok(Some(current)) if identity(&current).1 == uid => Ok(current),
            Ok(_) => Err(Setback::Gone),
            Err(error) => Err(Setback::Failed(Failure::write(&error))),
        }
    }
}

/// A Node's name and UID.
pub(super) fn identity(node: &Node) -> (&str, &str) {
    (node.metadata.name.as_deref().unwrap_or_default(), node.metadata.uid.as_deref().unwrap_or_default())
}

/// A Node's version, where versions can be compared, which Kubernetes promises since 1.35 and etcd always gave.
fn version(node: &Node) -> Option<u64> {
    node.metadata.resource_version.as_deref()?.parse().ok()
}

/// Somebody else wrote, or the name has another Node now (which the server calls invalid, because a UID cannot change).
fn is_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409) || is_invalid(error)
}

/// Nobody knows whether it was done.
fn is_unanswered(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(_))
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
