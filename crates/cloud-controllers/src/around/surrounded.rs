//! A whole cloud with everything around it that no provider writes: each call of each slot waits for its turn in the
//! budget, has a deadline, is counted, and cannot take its caller down with a panic.
//!
//! What comes out is a [`Cloud`] again, so that controllers see the contract and nothing else. How urgent its calls are
//! is chosen with the handle: [`Surrounded::cloud`].

mod clusters;
mod instances;
mod load_balancers;
mod routes;
#[cfg(test)]
mod tests;
mod volumes;

use std::sync::Arc;

use cloud_provider::{Cloud, Error};

use super::budget::Budget;
use super::calls::Calls;
use super::loader::{self, Loader};
use super::metrics::Metrics;
use super::operation::{Deadlines, Operation};
use super::urgency::Urgency;

/// Surrounds a cloud. Clouds on the same account share a budget; each has its own otherwise.
pub fn surround(cloud: Cloud, budget: Budget, deadlines: Deadlines, metrics: &Metrics) -> Surrounded {
    let calls = Calls::new(&cloud.name, budget, deadlines, metrics);
    Surrounded { cloud, calls }
}

/// A surrounded cloud; clones share everything.
#[derive(Debug, Clone)]
pub struct Surrounded {
    cloud: Cloud,
    calls: Calls,
}

impl Surrounded {
    /// The cloud as the controllers see it, for calls of this urgency.
    pub fn cloud(&self, urgency: Urgency) -> Cloud {
        let mut cloud = self.cloud.clone();
        cloud.instances = cloud.instances.map(|slot| self.around(slot, urgency) as _);
        cloud.load_balancers = cloud.load_balancers.map(|slot| self.around(slot, urgency) as _);
        cloud.routes = cloud.routes.map(|slot| self.around(slot, urgency) as _);
        cloud.volumes = cloud.volumes.map(|slot| self.around(slot, urgency) as _);
        cloud.clusters = cloud.clusters.map(|slot| self.around(slot, urgency) as _);
        cloud
    }

    /// The loader that both node controllers share; `None` if the cloud has no instances. Call it once.
    pub fn loader(&self, settings: loader::Settings) -> Option<Loader> {
        let instances = self.cloud.instances.clone()?;
        Some(Loader::new(instances, self.calls.clone(), settings))
    }

    /// How its calls are made.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    fn around<S: ?Sized>(&self, slot: Arc<S>, urgency: Urgency) -> Arc<Around<S>> {
        Arc::new(Around { slot, calls: self.calls.clone(), urgency })
    }
}

/// One slot of a cloud with its surroundings.
struct Around<S: ?Sized> {
    slot: Arc<S>,
    calls: Calls,
    urgency: Urgency,
}

impl<S: ?Sized> Around<S> {
    async fn make<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.calls.make(operation, self.urgency, call).await
    }
}
