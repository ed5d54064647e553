//! Deletes that leave something, take too much, or say the wrong thing.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Identity, Spec};
use cloud_provider::{Changes, Error, LoadBalancers, Permit};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use provider_fake::{Api, ApiError};

use super::between::Bend;
use super::outside::Twist;
use super::{Flaw, between, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        between("leaves the address", "delete_removes_everything", LeavesTheAddress),
        between("leaks over a whole story", "a_whole_story_leaves_nothing_behind", LeavesTheAddress),
        outside("fails when it is gone already", "delete_twice_is_success", FailsWhenGone),
        outside("fails when it never was", "delete_of_nothing_is_success", FailsWhenGone),
        outside("fails when the answer was lost", "a_lost_answer_to_a_delete_leaves_nothing", FailsWhenGone),
        outside("deletes nothing without the Service", "delete_works_without_the_service", NeedsTheService),
        outside("deletes other Services' balancers too", "delete_leaves_other_services_alone", DeletesAll),
        outside(
            "overlooks leftovers of a failed ensure",
            "delete_removes_leftovers_of_a_failed_ensure",
            GivesUp,
        ),
        outside(
            "overlooks what a vanished one left",
            "delete_removes_what_a_vanished_balancer_left",
            GivesUp,
        ),
        outside("overlooks what a failed delete left", "a_failed_delete_can_be_repeated", GivesUp),
        outside("overlooks what a cancelled delete left", "a_cancelled_delete_can_be_repeated", GivesUp),
        outside("says yes when it failed", "a_delete_that_fails_says_so", SaysYes),
        outside("lets no Service come back", "a_service_can_come_back", Unforgiving::default()),
    ]
}

struct LeavesTheAddress;

#[async_trait]
impl Bend for LeavesTheAddress {
    async fn delete_address(&self, _: &dyn Api, _: &str, _: &Permit) -> Result<(), ApiError> {
        Ok(())
    }
}

struct FailsWhenGone;

#[async_trait]
impl Twist for FailsWhenGone {
    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let owned = inner.list_owned(&identity.cluster).await?;
        if !owned.iter().any(|owned| owned.identity.uid == identity.uid) {
            return Err(Error::not_found("looking for the balancer to delete"));
        }
        inner.delete(identity, service, changes).await
    }
}

struct NeedsTheService;

#[async_trait]
impl Twist for NeedsTheService {
    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        match service {
            Some(_) => inner.delete(identity, service, changes).await,
            None => Ok(()),
        }
    }
}

struct DeletesAll;

#[async_trait]
impl Twist for DeletesAll {
    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        _: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        for owned in inner.list_owned(&identity.cluster).await? {
            inner.delete(&owned.identity, None, changes).await?;
        }
        inner.delete(identity, None, changes).await
    }
}

/// Deletes nothing once the balancer itself is gone.
struct GivesUp;

#[async_trait]
impl Twist for GivesUp {
    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let owned = inner.list_owned(&identity.cluster).await?;
        let balancer = |object: &String| object.starts_with("load balancer");
        let there = owned
            .iter()
            .any(|owned| owned.identity.uid == identity.uid && owned.objects.iter().any(balancer));
        if there { inner.delete(identity, service, changes).await } else { Ok(()) }
    }
}

struct SaysYes;

#[async_trait]
impl Twist for SaysYes {
    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let _ = inner.delete(identity, service, changes).await;
        Ok(())
    }
}

/// Refuses a Service that it once deleted.
#[derive(Default)]
struct Unforgiving(Mutex<BTreeSet<String>>);

#[async_trait]
impl Twist for Unforgiving {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        if self.0.lock().unwrap().contains(&spec.identity.uid) {
            return Err(Error::not_found("ensuring what was deleted"));
        }
        inner.ensure(spec, changes).await
    }

    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        self.0.lock().unwrap().insert(identity.uid.clone());
        inner.delete(identity, service, changes).await
    }
}
