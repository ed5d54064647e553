//! What the checks do on a stage, as the framework would: with a deadline around each call, and coming back when the
//! provider asks for it.

use std::time::Duration;

use cloud_provider::load_balancer::{Identity, Spec};
use cloud_provider::{Decision, Doubt, Error, Existence, Freshness, Instance, NodeRef};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use tokio::time::timeout;

use super::Stage;
use super::check::{MustSucceed, Stop, broken, promised};
use super::stand_in::{Balancer, Contents, Object};

/// How often a provider may ask us to come back before we stop believing it.
const RETURNS: usize = 60;

/// An answer about one node, with what the framework makes of a failed call.
#[derive(Debug)]
pub(super) enum Answer {
    Found(Box<Instance>),
    Absent,
    /// Why, for messages.
    Unknown(#[expect(dead_code, reason = "shown by Debug when a promise is broken")] String),
    NotMine,
}

impl From<Existence> for Answer {
    fn from(existence: Existence) -> Self {
        match existence {
            Existence::Found(instance) => Self::Found(instance),
            Existence::Absent(_) => Self::Absent,
            Existence::Unknown(Doubt::Failed(error)) => Self::Unknown(error.report()),
            Existence::Unknown(doubt) => Self::Unknown(doubt.to_string()),
            Existence::NotMine => Self::NotMine,
        }
    }
}

impl Answer {
    /// The provider ID of what was found.
    pub(super) fn found_id(&self) -> Option<&str> {
        match self {
            Self::Found(instance) => instance.provider_id.as_ref().map(cloud_provider::ProviderId::as_str),
            _ => None,
        }
    }
}

impl Stage {
    /// Asks for these nodes, now. A failed call is `Unknown` for all of them, as the framework takes it.
    pub(super) async fn look_up(&self, nodes: &[NodeRef]) -> Result<Vec<Answer>, Stop> {
        let asked = timeout(self.patience(), self.instances()?.lookup(nodes, Freshness::Now)).await;
        let doubtful = |why: &str| nodes.iter().map(|_| Answer::Unknown(why.to_owned())).collect();
        match asked {
            Err(_) => Ok(doubtful("no answer in time")),
            Ok(Err(error)) => Ok(doubtful(&error.report())),
            Ok(Ok(answers)) if answers.len() == nodes.len() => {
                Ok(answers.into_iter().map(Answer::from).collect())
            }
            Ok(Ok(answers)) => {
                broken(format!("asked for {} nodes, got {} answers", nodes.len(), answers.len()))
            }
        }
    }

    /// Asks for one node.
    pub(super) async fn look_up_one(&self, node: NodeRef) -> Result<Answer, Stop> {
        let answers = self.look_up(std::slice::from_ref(&node)).await?;
        answers.into_iter().next().map_or_else(|| broken("no answer for one node"), Ok)
    }

    /// Ensures a balancer, coming back as often as the provider asks for it.
    pub(super) async fn ensure(&self, spec: &Spec) -> Result<LoadBalancerStatus, Error> {
        let Ok(balancers) = self.balancers() else { return Err(Error::not_implemented("ensuring")) };
        self.persist(async || balancers.ensure(spec, &self.gate.changes()).await).await
    }

    /// Ensures a balancer that must come out well.
    pub(super) async fn ensured(&self, spec: &Spec) -> Result<LoadBalancerStatus, Stop> {
        self.balancers()?;
        self.ensure(spec).await.must("ensuring the balancer")
    }

    /// Gives a balancer new backends, coming back as often as the provider asks for it.
    pub(super) async fn update_backends(&self, spec: &Spec) -> Result<(), Error> {
        let Ok(balancers) = self.balancers() else { return Err(Error::not_implemented("updating")) };
        self.persist(async || balancers.update_backends(spec, &self.gate.changes()).await).await
    }

    /// Deletes a balancer, coming back as often as the provider asks for it.
    pub(super) async fn delete(&self, identity: &Identity, service: Option<&Service>) -> Result<(), Error> {
        let Ok(balancers) = self.balancers() else { return Err(Error::not_implemented("deleting")) };
        self.persist(async || balancers.delete(identity, service, &self.gate.changes()).await).await
    }

    /// Deletes a balancer, which must come out well.
    pub(super) async fn deleted(&self, spec: &Spec) -> Result<(), Stop> {
        self.balancers()?;
        self.delete(&spec.identity, Some(&spec.service)).await.must("deleting the balancer")
    }

    /// Repeats a call while it answers `RetryAfter`, each time within the deadline.
    pub(super) async fn persist<T>(&self, call: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
        for _ in 0..RETURNS {
            let Ok(result) = timeout(self.patience(), call()).await else {
                return Err(Error::other(format!("no answer within {:?}", self.patience())));
            };
            match result {
                Err(error) if matches!(error.decision(), Decision::RetryAfter { .. }) => {
                    tokio::time::sleep(wait_asked_for(&error)).await;
                }
                ended => return ended,
            }
        }
        Err(Error::other(format!("asked to come back {RETURNS} times and never finished")))
    }

    /// The one balancer that there is.
    pub(super) async fn the_balancer(&self) -> Result<(Object, Balancer), Stop> {
        only_balancer(&self.contents().await?)
    }
}

fn wait_asked_for(error: &Error) -> Duration {
    match error.decision() {
        Decision::RetryAfter { after } => *after,
        _ => Duration::ZERO,
    }
}

/// The only balancer in these contents.
pub(super) fn only_balancer(contents: &Contents) -> Result<(Object, Balancer), Stop> {
    let mut all: Vec<(Object, Balancer)> =
        contents.balancers().map(|(object, balancer)| (object.clone(), balancer.clone())).collect();
    promised(all.len() == 1, || format!("expected one balancer in the cloud, saw {}: {all:?}", all.len()))?;
    all.pop().map_or_else(|| broken("the balancer vanished"), Ok)
}

/// The addresses and host names in a status, in its order.
pub(super) fn addresses(status: &LoadBalancerStatus) -> Vec<String> {
    status
        .ingress
        .iter()
        .flatten()
        .filter_map(|ingress| ingress.ip.clone().or_else(|| ingress.hostname.clone()))
        .collect()
}
