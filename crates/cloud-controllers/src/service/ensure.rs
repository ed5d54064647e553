//! Making load balancers what their Services ask for, and giving them the nodes of now.

use std::sync::Arc;

use cloud_provider::load_balancer::Spec;
use cloud_provider::well_known::event_reasons::{
    ENSURED_LOAD_BALANCER, ENSURING_LOAD_BALANCER, UNAVAILABLE_LOAD_BALANCER, UPDATE_LOAD_BALANCER_FAILED,
    UPDATED_LOAD_BALANCER,
};
use cloud_provider::{Decision, Error};
use controller_kit::cache::Key;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use tokio::time::Instant;

use super::UNSUPPORTED_REASON;
use super::backends::Backends;
use super::failure::Failure;
use super::lanes::Lane;
use super::plan::Applied;
use super::settings::Unsupported;
use super::status;
use super::sync::{Core, Setback, setback};
use super::wish::Print;

const NO_NODES: &str = "There are no available nodes for LoadBalancer";

/// How many nodes an Event names.
const NAMED: usize = 20;

impl Core {
    /// Creates or changes the load balancer, fully. The Service is held before the cloud hears of it.
    pub(super) async fn ensure(&self, service: &Arc<Service>, lane: Lane) -> Result<(), Setback> {
        let (print, backends) = (Print::of(service, &self.terms()), self.roster.of(service));
        let spec = self.spec(service, &print, &backends)?;
        if !self.ledger.hold(service) {
            return Err(Setback::Gone);
        }
        if self.ledger.announces(service, &print) {
            self.normal(service, ENSURING_LOAD_BALANCER, "Ensuring load balancer");
            if backends.is_empty() {
                self.warning(service, UNAVAILABLE_LOAD_BALANCER, NO_NODES);
            }
        }
        if let Some(patch) = status::hold(service)
            && !self.only_watches()
        {
            self.write(service, patch).await?;
        }
        let first =
            self.ledger.with(service, |entry| !std::mem::replace(&mut entry.called, true) && entry.waiting);
        if first == Some(true) {
            self.metrics.first_call.observe(self.age(service));
        }
        let began = Instant::now();
        let result = self.handle(lane).ensure(&spec, &self.changes(service)).await;
        let word = match result.as_ref().map_err(Error::decision) {
            Ok(_) | Err(Decision::ImplementedElsewhere) => "success",
            Err(Decision::RetryAfter { .. }) => "pending",
            Err(_) => "error",
        };
        self.metrics.ensured(word, began.elapsed());
        match result {
            Ok(status) => self.ensured(service, print, backends, status),
            Err(error) if *error.decision() == Decision::ImplementedElsewhere => {
                self.ledger.applied(service, Applied { print, backends, status: None });
                Ok(())
            }
            Err(error) => Err(setback(&error, "failed to ensure load balancer")),
        }
    }

    fn ensured(
        &self,
        service: &Service,
        print: Print,
        backends: Arc<Backends>,
        status: LoadBalancerStatus,
    ) -> Result<(), Setback> {
        if status.ingress.as_ref().is_none_or(Vec::is_empty) {
            return Err(Setback::Failed(Failure::no_address()));
        }
        self.ledger.applied(service, Applied { print, backends, status: Some(status) });
        let drifted = self.ledger.with(service, |entry| std::mem::take(&mut entry.drifted));
        if drifted == Some(true) {
            self.metrics.drift_repaired.inc();
        }
        self.normal(service, ENSURED_LOAD_BALANCER, "Ensured load balancer");
        tracing::info!(service = %Key::of(service), "Ensured a load balancer");
        Ok(())
    }

    pub(super) fn read(&self, service: &Arc<Service>, backends: &Backends) -> Result<Spec, Error> {
        let spec = Spec::new(Arc::clone(service), backends.nodes().to_vec(), &self.cluster)?;
        Ok(spec.with_endpoints(backends.endpoints().cloned()))
    }

    /// Reads a Service. What cannot be read, or asks for what the provider does not have, is refused.
    pub(super) fn spec(
        &self,
        service: &Arc<Service>,
        print: &Print,
        backends: &Backends,
    ) -> Result<Spec, Setback> {
        let refuse = |failure: Failure| {
            self.ledger.with(service, |entry| entry.known.refused = Some(print.clone()));
            Setback::Failed(failure)
        };
        let spec = self.read(service, backends).map_err(|error| refuse(Failure::unreadable(&error)))?;
        let missing = spec.unsupported(&self.balancers.create.describe().features);
        if missing.is_empty() {
            return Ok(spec);
        }
        let failure = Failure::unsupported(&missing);
        match self.settings.unsupported {
            Unsupported::Refuse => Err(refuse(failure)),
            Unsupported::Warn => {
                if self.ledger.announces_refusal(service, print) {
                    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
                    let message = format!(
                        "this cloud's load balancers do not support {}: it has no effect, as the policy allows",
                        names.join(", ")
                    );
                    self.warning(service, UNSUPPORTED_REASON, message);
                }
                Ok(spec)
            }
        }
    }

    /// Gives the load balancer the nodes of now, and nothing else. Whatever goes wrong, the next try is a full ensure.
    pub(super) async fn update_backends(&self, service: &Arc<Service>) -> Result<(), Setback> {
        let Some((_, known)) = self.ledger.current(&Key::of(&**service)) else { return Err(Setback::Gone) };
        let Some(applied) = known.applied else { return Ok(()) };
        let backends = self.roster.of(service);
        let spec =
            self.read(service, &backends).map_err(|error| Setback::Failed(Failure::unreadable(&error)))?;
        let began = Instant::now();
        self.metrics.backend_updates.inc();
        let result = self.balancers.refresh.update_backends(&spec, &self.changes(service)).await;
        self.metrics.update_latency.observe(began.elapsed().as_secs_f64());
        let error = match result {
            Ok(()) => {
                if applied.status.is_some() && backends.is_empty() {
                    self.warning(service, UNAVAILABLE_LOAD_BALANCER, NO_NODES);
                } else if applied.status.is_some() && !applied.backends.has_nodes_of(&backends) {
                    self.normal(service, UPDATED_LOAD_BALANCER, "Updated load balancer with new hosts");
                }
                self.follow(service, applied, backends);
                return Ok(());
            }
            Err(error) if *error.decision() == Decision::ImplementedElsewhere => {
                self.follow(service, applied, backends);
                return Ok(());
            }
            Err(error) => error,
        };
        let setback = setback(&error, "failed to update load balancer with new hosts");
        if matches!(setback, Setback::Watching | Setback::Fenced) {
            return Err(setback);
        }
        self.ledger.with(service, |entry| entry.known.applied = None);
        if *error.decision() == Decision::NotFound {
            // Somebody removed it: it is made again at once, as for any other drift.
            self.metrics.drift_found.inc();
            self.ledger.with(service, |entry| entry.drifted = true);
            return Ok(());
        }
        self.metrics.node_sync_errors.inc();
        self.warning(service, UPDATE_LOAD_BALANCER_FAILED, complaint(&backends, &error.report()));
        Err(setback)
    }

    fn follow(&self, service: &Service, applied: Applied, backends: Arc<Backends>) {
        self.ledger.with(service, |entry| {
            entry.known.applied = Some(Applied { backends, ..applied });
            entry.node_sync = None;
        });
    }
}

/// What upstream says of a failed update: at most so many names, and how many there are.
fn complaint(backends: &Backends, error: &str) -> String {
    let names: Vec<&str> =
        backends.nodes().iter().map(|node| node.metadata.name.as_deref().unwrap_or_default()).collect();
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(",");
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(",<{more} more>") } else { String::new() };
    format!(
        "Error updating load balancer with new hosts [{shown}{more}], total number of nodes: {}, error: {error}",
        names.len()
    )
}
