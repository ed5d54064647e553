//! Errors that send the caller the wrong way.

use async_trait::async_trait;
use cloud_provider::load_balancer::{Observed, Owned, Spec};
use cloud_provider::{Changes, ClusterIdentity, Decision, Error, LoadBalancers};
use k8s_openapi::api::core::v1::LoadBalancerStatus;

use super::outside::Twist;
use super::{Flaw, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    let flaw = |name, caught_by, twist: fn(Error) -> Error| outside(name, caught_by, Says(twist));
    vec![
        flaw("calls throttling a failure", "throttling_is_called_throttling", |error| {
            match error.decision() {
                Decision::Throttled { .. } => Error::other("ensuring").because(error),
                _ => error,
            }
        }),
        flaw(
            "forgets how long to wait",
            "the_wait_that_the_cloud_asks_for_is_passed_on",
            |error| match error.decision() {
                Decision::Throttled { .. } => Error::throttled(None, "ensuring"),
                _ => error,
            },
        ),
        flaw("calls a refused credential a failure", "a_refused_credential_is_unauthorized", |error| {
            match error.decision() {
                Decision::Unauthorized => Error::other("ensuring"),
                _ => error,
            }
        }),
        flaw("calls a full quota a failure", "a_full_quota_is_called_so", |error| match error.decision() {
            Decision::QuotaExceeded => Error::other("ensuring"),
            _ => error,
        }),
        flaw("makes a failure a matter for a person", "a_failing_cloud_asks_for_a_retry", for_a_person),
        flaw("makes a late answer a matter for a person", "a_late_cloud_asks_for_a_retry", for_a_person),
        flaw("repeats its source", "an_error_says_what_was_attempted", |error| {
            Error::new(error.decision().clone(), format!("ensuring: {error}")).because(error)
        }),
        outside("takes a failure for nothing", "a_failing_cloud_never_means_that_nothing_is_there", Blind),
        outside(
            "takes a failed list for a short one",
            "a_list_of_owned_objects_that_fails_is_an_error",
            Blind,
        ),
        outside(
            "invents NotFound from a failure",
            "a_failing_cloud_never_means_that_nothing_is_there",
            Inventive,
        ),
    ]
}

fn for_a_person(error: Error) -> Error {
    match error.decision() {
        Decision::Other => Error::invalid_config("ensuring"),
        _ => error,
    }
}

/// Twists what an ensure and a get say when they fail.
struct Says(fn(Error) -> Error);

#[async_trait]
impl Twist for Says {
    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Result<Option<Observed>, Error> {
        inner.get(spec).await.map_err(self.0)
    }

    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        inner.ensure(spec, changes).await.map_err(self.0)
    }
}

struct Blind;

#[async_trait]
impl Twist for Blind {
    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Result<Option<Observed>, Error> {
        Ok(inner.get(spec).await.unwrap_or_default())
    }

    async fn list_owned(
        &self,
        inner: &dyn LoadBalancers,
        cluster: &ClusterIdentity,
    ) -> Result<Vec<Owned>, Error> {
        Ok(inner.list_owned(cluster).await.unwrap_or_default())
    }
}

struct Inventive;

#[async_trait]
impl Twist for Inventive {
    async fn update_backends(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<(), Error> {
        inner
            .update_backends(spec, changes)
            .await
            .map_err(|error| Error::not_found("updating").because(error))
    }
}
