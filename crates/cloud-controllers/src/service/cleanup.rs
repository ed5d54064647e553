//! Removing load balancers that nobody wants any more. The cloud is always asked to delete, whether or not it shows a load
//! balancer, so that parts of one that was never finished go too. Only then is the Service let go.

use std::sync::Arc;

use cloud_provider::well_known::event_reasons::{DELETED_LOAD_BALANCER, DELETING_LOAD_BALANCER};
use controller_kit::cache::Key;
use k8s_openapi::api::core::v1::Service;

use super::status;
use super::sync::{Core, Setback};
use super::wish;

impl Core {
    /// Removes the load balancer of a Service that is going, or wants none from us any more.
    pub(super) async fn clean_up(&self, service: &Arc<Service>) -> Result<(), Setback> {
        let told = self.ledger.with(service, |entry| std::mem::replace(&mut entry.removing, true));
        if told == Some(false) {
            self.normal(service, DELETING_LOAD_BALANCER, "Deleting load balancer");
        }
        self.delete(service).await?;
        // The addresses of a Service of another's class may be that other's, unless they are those that we wrote.
        let known = self.ledger.current(&Key::of(&**service)).and_then(|(_, known)| known.applied);
        let wrote = known.is_some_and(|applied| status::is_told(service, &applied));
        let clear = wrote || (wish::is_going(service) && wish::wants(service, &self.terms()));
        if let Some(patch) = status::release(service, clear, self.clock.now()) {
            match self.write(service, patch).await {
                Ok(_) | Err(Setback::Gone) => {}
                Err(setback) => return Err(setback),
            }
        }
        self.normal(service, DELETED_LOAD_BALANCER, "Deleted load balancer");
        tracing::info!(service = %Key::of(&**service), "Removed a load balancer");
        self.ledger.cleaned(service);
        Ok(())
    }
}
