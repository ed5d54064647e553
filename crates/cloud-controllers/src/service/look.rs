//! Reading back what the cloud has: once for each load balancer that was there before this process, and from time to
//! time for all.

use std::sync::Arc;

use cloud_provider::load_balancer::{Agreement, Observed};
use controller_kit::cache::Key;
use controller_kit::log::report;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};

use super::DRIFT_REASON;
use super::plan::Applied;
use super::settings::Drift;
use super::status;
use super::sync::{Core, Setback, setback};
use super::wish::{self, Print};

impl Core {
    /// Compares one load balancer with its Service. Changes nothing in the cloud.
    pub(super) async fn look(&self, service: &Arc<Service>) -> Result<(), Setback> {
        let Some((_, known)) = self.ledger.current(&Key::of(&**service)) else { return Err(Setback::Gone) };
        let terms = self.terms();
        let backends =
            known.applied.as_ref().map_or_else(|| self.roster.of(service), |now| Arc::clone(&now.backends));
        let Ok(spec) = self.read(service, &backends) else {
            // It cannot be compared; whoever ensures it says why.
            self.ledger.with(service, |entry| (entry.known.looked, entry.known.look_due) = (true, false));
            return Ok(());
        };
        let handle = if known.applied.is_some() { &self.balancers.drift } else { &self.balancers.refresh };
        let observed = match handle.get(&spec).await {
            Ok(observed) => observed,
            Err(error) if known.applied.is_some() => {
                tracing::debug!(service = %Key::of(&**service), err = %report(&error), "Cannot compare a load balancer");
                self.ledger.with(service, |entry| entry.known.look_due = false);
                return Ok(());
            }
            Err(error) => return Err(setback(&error, "failed to check if load balancer exists")),
        };
        self.ledger.with(service, |entry| (entry.known.looked, entry.known.look_due) = (true, false));
        if !wish::wants(service, &terms) {
            // Another's class. If we find something of ours, it is from before, and goes.
            self.ledger.with(service, |entry| entry.known.holds = observed.is_some());
            return Ok(());
        }
        let print = Print::of(service, &terms);
        match known.applied {
            None => {
                let as_applied = |status| Applied { print, backends, status: Some(status) };
                self.recognise(service, observed, as_applied);
            }
            Some(applied) => self.compare(service, &applied, observed),
        }
        Ok(())
    }

    /// A load balancer from before this process. If it is not as it should be, it is ensured. So is one at another address
    /// than its Service says: whoever changed it may not have finished.
    fn recognise(
        &self,
        service: &Service,
        observed: Option<Observed>,
        as_applied: impl FnOnce(LoadBalancerStatus) -> Applied,
    ) {
        let found = match observed {
            Some(Observed { status, agreement: Agreement::Same }) => {
                let applied = as_applied(status);
                if !status::differs(service, &applied, false) {
                    self.ledger.applied(service, applied);
                    return;
                }
                Some(Agreement::Different(vec!["it answers at another address".to_owned()]))
            }
            other => other.map(|observed| observed.agreement),
        };
        tracing::info!(service = %Key::of(service), ?found, "A load balancer is not known to be as it should be");
    }

    /// A load balancer that was as it should be.
    fn compare(&self, service: &Service, applied: &Applied, observed: Option<Observed>) {
        let points = match observed {
            None => vec!["it is gone".to_owned()],
            Some(Observed { agreement: Agreement::Different(points), .. }) => points,
            Some(Observed { agreement: Agreement::Untold, .. }) => {
                // Only an ensure can tell. That is what repairing means here.
                if self.settings.drift == Drift::Repair {
                    self.ledger.with(service, |entry| entry.known.applied = None);
                }
                return;
            }
            Some(Observed { status, agreement: Agreement::Same }) => {
                let status =
                    Some(status).filter(|status| status.ingress.as_ref().is_some_and(|all| !all.is_empty()));
                if status.is_some() && status != applied.status {
                    // It answers elsewhere by now, and nothing else is wrong: the Service learns of it.
                    let applied = Applied { status, ..applied.clone() };
                    self.ledger.with(service, |entry| entry.known.applied = Some(applied));
                }
                return;
            }
        };
        self.metrics.drift_found.inc();
        let points = points.join("; ");
        tracing::warn!(service = %Key::of(service), points, "A load balancer was changed in the cloud");
        let repair = self.settings.drift == Drift::Repair;
        let what = if repair { "it is put right" } else { "it is only reported, as the policy says" };
        self.warning(
            service,
            DRIFT_REASON,
            format!("the load balancer in the cloud is not as the Service asks: {points}; {what}"),
        );
        if repair {
            self.ledger.with(service, |entry| {
                entry.known.applied = None;
                entry.drifted = true;
            });
        }
    }
}
