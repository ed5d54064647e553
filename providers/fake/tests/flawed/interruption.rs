//! Providers that do not survive an interruption.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use cloud_provider::load_balancer::Spec;
use cloud_provider::{Changes, Error, LoadBalancers, Permit};
use k8s_openapi::api::core::v1::LoadBalancerStatus;
use provider_fake::objects::{Address, NewAddress, Tags};
use provider_fake::{Api, ApiError};

use super::between::Bend;
use super::outside::Twist;
use super::{Flaw, between, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        between("creates again when the answer is lost", "a_lost_answer_makes_no_second_balancer", Again),
        outside(
            "stumbles over what is half made",
            "a_failure_half_way_is_finished_by_the_next_ensure",
            Stumbles,
        ),
        between(
            "loses what a cancelled create made",
            "a_cancelled_ensure_can_be_repeated",
            Untraceable::default(),
        ),
        between(
            "leaks what a cancelled create made",
            "a_cancelled_ensure_can_be_deleted",
            Untraceable::default(),
        ),
    ]
}

struct Again;

#[async_trait]
impl Bend for Again {
    async fn create_address(
        &self,
        api: &dyn Api,
        new: &NewAddress,
        permit: &Permit,
    ) -> Result<Address, ApiError> {
        let made = api.create_address(new, permit).await;
        if matches!(made, Err(ApiError::Lost)) {
            let again =
                NewAddress { name: "again".to_owned(), token: None, tags: Tags::new(), ..new.clone() };
            let _ = api.create_address(&again, permit).await;
        }
        made
    }
}

struct Stumbles;

#[async_trait]
impl Twist for Stumbles {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        let half =
            inner.get(spec).await?.is_some_and(|seen| seen.status.ingress.is_none_or(|all| all.is_empty()));
        if half {
            return Err(Error::other("ensuring: something is there already"));
        }
        inner.ensure(spec, changes).await
    }
}

/// Gives each address a name of its own and no tag: only who got the answer knows it.
#[derive(Default)]
struct Untraceable(AtomicU64);

#[async_trait]
impl Bend for Untraceable {
    async fn create_address(
        &self,
        api: &dyn Api,
        new: &NewAddress,
        permit: &Permit,
    ) -> Result<Address, ApiError> {
        let name = format!("address-{}", self.0.fetch_add(1, Ordering::Relaxed));
        api.create_address(&NewAddress { name, token: None, tags: Tags::new(), ..new.clone() }, permit).await
    }
}
