//! Providers that go around the gate, or do not listen to it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cloud_provider::load_balancer::{Identity, Observed, Spec};
use cloud_provider::{
    Change, Changes, ClusterIdentity, Decision, Error, Gate, LoadBalancers, NodeRef, Outcome, Permit,
    Refusal, Route, Routes, Volume, VolumeRequest, Volumes,
};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use provider_fake::objects::{Address, Balancer, NewAddress, NewBalancer};
use provider_fake::{Api, ApiError};

use super::between::Bend;
use super::life::Anew;
use super::outside::Twist;
use super::{Flaw, between, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        outside(
            "goes around the gate with balancers",
            "a_closed_gate_lets_no_balancer_write_through",
            Bypass,
        ),
        outside("goes around the gate with routes", "a_closed_gate_lets_no_route_write_through", Bypass),
        outside("goes around the gate with volumes", "a_closed_gate_lets_no_volume_write_through", Bypass),
        outside("tells the gate nothing", "every_admitted_change_is_told_as_made", Bypass),
        outside("tells the gate of no interruption", "a_cancelled_write_is_told_as_interrupted", Bypass),
        outside(
            "tells the gate nothing in a whole story",
            "every_change_of_a_story_is_told_to_the_gate",
            Bypass,
        ),
        outside("calls although the gate refused", "a_lease_lost_half_way_stops_the_next_write", Headstrong),
        outside("goes on in observe mode", "observe_mode_records_and_writes_nothing", Unobservant),
        outside("always has something to do", "observe_mode_is_quiet_when_nothing_is_to_do", Anew),
        outside("asks the gate to read", "the_gate_is_not_asked_for_reads", Timid::default()),
        between("swallows the outcome of a write", "a_write_that_failed_is_told_as_failed", Swallows),
    ]
}

/// A gate that lets everything pass and tells nobody.
pub(crate) fn ajar() -> Arc<dyn Gate> {
    struct Ajar;
    impl Gate for Ajar {
        fn admit(&self, _: &Change) -> Result<(), Refusal> {
            Ok(())
        }

        fn may_start(&self) -> bool {
            true
        }

        fn ended(&self, _: &Change, _: Outcome) {}
    }
    Arc::new(Ajar)
}

fn unseen() -> Changes {
    Changes::through(ajar())
}

struct Bypass;

#[async_trait]
impl Twist for Bypass {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        _: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        inner.ensure(spec, &unseen()).await
    }

    async fn update_backends(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        _: &Changes,
    ) -> Result<(), Error> {
        inner.update_backends(spec, &unseen()).await
    }

    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        _: &Changes,
    ) -> Result<(), Error> {
        inner.delete(identity, service, &unseen()).await
    }

    async fn create_route(
        &self,
        inner: &dyn Routes,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        _: &Changes,
    ) -> Result<(), Error> {
        inner.create(cluster, hint, route, &unseen()).await
    }

    async fn delete_route(
        &self,
        inner: &dyn Routes,
        cluster: &ClusterIdentity,
        route: &Route,
        _: &Changes,
    ) -> Result<(), Error> {
        inner.delete(cluster, route, &unseen()).await
    }

    async fn create_volume(
        &self,
        inner: &dyn Volumes,
        request: &VolumeRequest,
        _: &Changes,
    ) -> Result<Volume, Error> {
        inner.create(request, &unseen()).await
    }

    async fn attach(
        &self,
        inner: &dyn Volumes,
        id: &str,
        node: &NodeRef,
        _: &Changes,
    ) -> Result<String, Error> {
        inner.attach(id, node, &unseen()).await
    }
}

struct Headstrong;

#[async_trait]
impl Twist for Headstrong {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        match inner.ensure(spec, changes).await {
            Err(error) if error.decision() == &Decision::Fenced => inner.ensure(spec, &unseen()).await,
            other => other,
        }
    }
}

struct Unobservant;

#[async_trait]
impl Twist for Unobservant {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        match inner.ensure(spec, changes).await {
            Err(error) if error.decision() == &Decision::Recorded => Ok(LoadBalancerStatus::default()),
            other => other,
        }
    }
}

/// Keeps the gate that it was last given and asks it before it reads.
#[derive(Default)]
struct Timid(Mutex<Option<Changes>>);

#[async_trait]
impl Twist for Timid {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        *self.0.lock().unwrap() = Some(changes.clone());
        inner.ensure(spec, changes).await
    }

    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Result<Option<Observed>, Error> {
        let kept = self.0.lock().unwrap().clone();
        match kept {
            Some(changes) => changes.make(Change::create("glance", "at it"), |_| inner.get(spec)).await,
            None => inner.get(spec).await,
        }
    }
}

struct Swallows;

#[async_trait]
impl Bend for Swallows {
    async fn create_address(
        &self,
        api: &dyn Api,
        new: &NewAddress,
        permit: &Permit,
    ) -> Result<Address, ApiError> {
        let made_up = Address {
            id: "made-up".into(),
            name: new.name.clone(),
            ip: [0, 0, 0, 0].into(),
            tags: new.tags.clone(),
        };
        Ok(api.create_address(new, permit).await.unwrap_or(made_up))
    }

    async fn create_load_balancer(
        &self,
        api: &dyn Api,
        new: &NewBalancer,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        Ok(api.create_load_balancer(new, permit).await.unwrap_or_else(|_| Balancer::new(&new.name)))
    }
}
