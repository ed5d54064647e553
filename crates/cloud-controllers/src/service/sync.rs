//! The effects of the service controller for one Service: it asks [`plan`](super::plan) what is next, does it, and asks
//! again. Here is what all steps share: reading, writing, telling.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::load_balancer::Identity;
use cloud_provider::{Changes, ClusterIdentity, Decision, Error, LoadBalancers};
use controller_kit::cache::{Cache, Key};
use controller_kit::clock::SharedClock;
use controller_kit::events::{Recorder, reference};
use controller_kit::log::report;
use controller_kit::patch::Patch;
use controller_kit::queue::Priority;
use controller_kit::worker::Outcome;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use tokio::time::Instant;

use super::backends::Roster;
use super::balancers::Balancers;
use super::failure::Failure;
use super::lanes::{Lane, Lanes};
use super::ledger::{Ledger, event_reason, uid};
use super::metrics::Metrics;
use super::plan::{self, Step};
use super::settings::Settings;
use super::status;
use super::wish::{self, Terms};
use crate::around::LeaseGate;
use crate::around::gate::Mode;

/// After so many steps in one run others get their turn. More than a few happen only if somebody edits meanwhile.
const STEPS: usize = 8;

/// What all steps share.
pub(super) struct Core {
    pub(super) client: kube::Client,
    pub(super) services: Cache<Service>,
    pub(super) roster: Roster,
    pub(super) balancers: Balancers,
    pub(super) gate: LeaseGate,
    pub(super) cluster: ClusterIdentity,
    pub(super) events: Recorder,
    pub(super) clock: SharedClock,
    pub(super) metrics: Metrics,
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    pub(super) lanes: Lanes,
}

/// How a step ended that did not succeed.
#[derive(Debug)]
pub(super) enum Setback {
    /// The Service is gone or another one has its name: nothing is left to do for this one.
    Gone,
    /// This process only watches: what would be done is recorded.
    Watching,
    /// This process may not lead at the moment; if it still does, it is tried again.
    Fenced,
    /// Tried again later.
    Failed(Failure),
}

impl Core {
    /// One run of one Service. Failures are told here; the queue only learns when to come back.
    pub(super) async fn sync(&self, key: &Key, lane: Lane) -> Outcome {
        self.ledger.see(key, self.services.get(key).as_ref());
        for former in self.ledger.departed(key) {
            if let Err(setback) = self.remove_departed(key, &former).await {
                return verdict(&setback);
            }
        }
        for _ in 0..STEPS {
            let Some((service, step)) = self.next(key) else { return Outcome::Done };
            if step == Step::Rest {
                return Outcome::Done;
            }
            if lane == Lane::Urgent && !step.is_urgent() && step != Step::Mend {
                self.lanes.add(Lane::Upkeep, key.clone(), Priority::NORMAL);
                return Outcome::Done;
            }
            let done = match step {
                Step::Rest => Ok(()),
                Step::Ensure => self.ensure(&service, lane).await,
                Step::UpdateBackends => self.update_backends(&service).await,
                Step::Look => self.look(&service).await,
                Step::Mend => self.mend(&service).await,
                Step::CleanUp => self.clean_up(&service).await,
            };
            if let Err(setback) = done {
                let ours = step == Step::CleanUp || wish::wants(&service, &self.terms());
                if let Setback::Failed(failure) = &setback
                    && ours
                {
                    self.tell(&service, failure, step == Step::CleanUp).await;
                }
                return verdict(&setback);
            }
        }
        Outcome::RequeueAfter(Duration::from_secs(1))
    }

    /// The Service in its newest version, and what to do for it.
    pub(super) fn next(&self, key: &Key) -> Option<(Arc<Service>, Step)> {
        let terms = self.terms();
        let (service, mut known) = self.ledger.current(key)?;
        if wish::wants(&service, &terms) && wish::is_held(&service) {
            // Whoever put the finalizer there may have made something, and somebody may take the finalizer away.
            known.holds = self.ledger.hold(&service);
        }
        let step = plan::next(&service, &known, &self.roster.of(&service), &terms);
        Some((service, step))
    }

    pub(super) fn terms(&self) -> Terms {
        Terms::new(&self.balancers.create.describe(), &self.settings.classes)
    }

    pub(super) fn handle(&self, lane: Lane) -> &dyn LoadBalancers {
        match lane {
            Lane::Urgent => &*self.balancers.create,
            Lane::Upkeep => &*self.balancers.refresh,
        }
    }

    pub(super) fn identity(&self, service: &Service) -> Identity {
        Identity::of(service, &self.cluster)
    }

    pub(super) fn changes(&self, service: &Service) -> Changes {
        self.gate.changes_for(format!("service {}", Key::of(service)))
    }

    /// Whether this process only watches: then it writes nothing, anywhere.
    pub(super) fn only_watches(&self) -> bool {
        self.gate.mode() == Mode::Observe
    }

    /// Puts right what stands on the Service.
    async fn mend(&self, service: &Service) -> Result<(), Setback> {
        let Some((_, known)) = self.ledger.current(&Key::of(service)) else { return Err(Setback::Gone) };
        let Some(applied) = &known.applied else { return Ok(()) };
        if let Some(patch) = status::mend(service, applied, self.clock.now()) {
            self.write(service, patch).await?;
        }
        let waited = self.ledger.with(service, |entry| std::mem::take(&mut entry.waiting)).unwrap_or(false);
        if waited && applied.status.is_some() {
            self.metrics.provisioned.observe(self.age(service));
        }
        Ok(())
    }

    /// Sends a patch of the status subresource to this very Service, and remembers the answer.
    pub(super) async fn write(&self, service: &Service, patch: Patch) -> Result<Arc<Service>, Setback> {
        if self.only_watches() {
            return Err(Setback::Watching);
        }
        if !self.gate.may_start() {
            return Err(Setback::Fenced);
        }
        let key = Key::of(service);
        let api: Api<Service> = Api::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        let error = match patch.only_for_uid(uid(service)).apply(&api, key.name()).await {
            Ok(written) => {
                let written = Arc::new(written);
                self.ledger.wrote(&written);
                return Ok(written);
            }
            Err(error) => error,
        };
        if !matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409 | 422)) {
            return Err(Setback::Failed(Failure::write(&error)));
        }
        // Says whether it was the Service that went or changed, or what we wanted to write.
        match api.get_opt(key.name()).await {
            Ok(Some(current)) if uid(&current) == uid(service) => {
                self.ledger.wrote(&Arc::new(current));
                Err(Setback::Failed(Failure::write(&error)))
            }
            Ok(_) => Err(Setback::Gone),
            Err(error) => Err(Setback::Failed(Failure::write(&error))),
        }
    }

    /// Records an Event about a Service, unless this process only watches or no longer leads.
    pub(super) fn normal(&self, service: &Service, reason: &str, message: &str) {
        if self.gate.may_start() {
            self.events.normal(&reference(service), reason, message);
        }
    }

    /// The same for what somebody should look at.
    pub(super) fn warning(&self, service: &Service, reason: &str, message: impl Into<String>) {
        if self.gate.may_start() {
            self.events.warning(&reference(service), reason, message);
        }
    }

    /// Counts a failure, and tells it where people look, if it is new.
    async fn tell(&self, service: &Service, failure: &Failure, blocked: bool) {
        self.metrics.failed(failure.reason);
        let key = Key::of(service);
        if !self.ledger.failed(service, failure, Instant::now()) {
            tracing::debug!(service = %key, reason = failure.reason, "Still cannot sync a load balancer");
            return;
        }
        tracing::warn!(service = %key, reason = failure.reason, err = failure.message, "Cannot sync a load balancer");
        if failure.pending {
            self.normal(service, event_reason(failure), &failure.message);
        } else {
            self.warning(
                service,
                event_reason(failure),
                format!("Error syncing load balancer: {}", failure.message),
            );
        }
        let Some((service, _)) = self.ledger.current(&key) else { return };
        let patch = status::complain(&service, failure, blocked, self.clock.now());
        if let Err(Setback::Failed(failure)) = self.write(&service, patch).await {
            tracing::debug!(service = %key, err = failure.message, "Cannot write the condition of a service");
        }
    }

    /// How old a Service is, in seconds.
    pub(super) fn age(&self, service: &Service) -> f64 {
        let created = service.metadata.creation_timestamp.as_ref();
        let age = created.map(|created| self.clock.now().duration_since(created.0));
        age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default().as_secs_f64()
    }

    /// A Service that was deleted before its load balancer was: its finalizer was taken away, or it never had one.
    async fn remove_departed(&self, key: &Key, former: &Arc<Service>) -> Result<(), Setback> {
        use cloud_provider::well_known::event_reasons::{
            DELETE_LOAD_BALANCER_FAILED, DELETED_LOAD_BALANCER, DELETING_LOAD_BALANCER,
        };
        self.normal(former, DELETING_LOAD_BALANCER, "Deleting load balancer");
        match self.delete(former).await {
            Ok(()) => {
                self.normal(former, DELETED_LOAD_BALANCER, "Deleted load balancer");
                self.ledger.is_clean(key, former);
                Ok(())
            }
            Err(setback) => {
                if let Setback::Failed(failure) = &setback {
                    self.metrics.failed(failure.reason);
                    let message = format!("Error deleting load balancer: {}", failure.message);
                    self.warning(former, DELETE_LOAD_BALANCER_FAILED, message);
                    tracing::warn!(service = %key, err = failure.message, "Cannot remove the load balancer of a service that is gone");
                }
                Err(setback)
            }
        }
    }

    /// Has the cloud remove everything of a Service, also what was never finished.
    pub(super) async fn delete(&self, service: &Service) -> Result<(), Setback> {
        let identity = self.identity(service);
        let deleted = self.balancers.refresh.delete(&identity, Some(service), &self.changes(service)).await;
        match deleted {
            Ok(()) => Ok(()),
            Err(error) => match error.decision() {
                Decision::NotFound | Decision::ImplementedElsewhere => Ok(()),
                _ => Err(setback(&error, "failed to delete load balancer")),
            },
        }
    }
}

/// What a failed call means for the step; `attempt` says what it was, in upstream's words.
pub(super) fn setback(error: &Error, attempt: &str) -> Setback {
    match error.decision() {
        Decision::Fenced => Setback::Fenced,
        Decision::Recorded => {
            tracing::debug!(err = %report(error), "A change was recorded");
            Setback::Watching
        }
        _ => Setback::Failed(Failure::of(error, attempt)),
    }
}

fn verdict(setback: &Setback) -> Outcome {
    match setback {
        Setback::Gone | Setback::Watching => Outcome::Done,
        Setback::Failed(failure) if failure.hopeless => Outcome::Done,
        Setback::Failed(Failure { after: Some(after), .. }) => Outcome::RequeueAfter(*after),
        Setback::Failed(_) | Setback::Fenced => Outcome::Requeue,
    }
}
