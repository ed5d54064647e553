//! The slot for load balancers: what a Service asks for becomes part of the intent of the data plane.
//!
//! The data plane is the only memory. Each pass reads its intent, decides, and writes it back at most once; of two
//! writers that read the same revision the second one is turned away and comes back.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::context::{EventSink, EventType, NodeReader, ServiceReader, Subject};
use cloud_provider::load_balancer::{
    Agreement, Description, Feature, Identity, LoadBalancers, Observed, Owned, Spec,
};
use cloud_provider::{Change, Changes, ClusterIdentity, Context, Decision, Error, Proof};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use tokio::sync::Mutex;

use crate::annotation::{self, ANNOTATIONS, Asked};
use crate::config::Config;
use crate::intent::{Balancer, Intent, Status, plan};
use crate::plane::{DataPlane, Forwarding};
use crate::pool::Pools;
use crate::wanted;

mod addresses;
mod report;

/// The kind of our objects, in plans and logs.
const KIND: &str = "load balancer";

/// Load balancers on a data plane.
pub struct Balancers {
    plane: Arc<dyn DataPlane>,
    pools: Pools,
    classes: Vec<String>,
    services: Arc<dyn ServiceReader>,
    nodes: Arc<dyn NodeReader>,
    events: Arc<dyn EventSink>,
    /// Held from reading the intent to writing it, so that two passes of this process never choose the same address.
    turn: Mutex<()>,
}

impl Balancers {
    /// Balancers on this data plane with the addresses of this config.
    pub fn new(plane: Arc<dyn DataPlane>, config: &Config, context: &Context) -> Self {
        Self {
            plane,
            pools: config.pools.clone(),
            classes: config.classes.clone(),
            services: Arc::clone(&context.services),
            nodes: Arc::clone(&context.nodes),
            events: Arc::clone(&context.events),
            turn: Mutex::new(()),
        }
    }

    async fn intent(&self) -> Result<Intent, Error> {
        self.plane.intent().await.map_err(|error| error.during("reading the intent of the data plane"))
    }

    async fn status_of(&self, uid: &str) -> Result<Status, Error> {
        let attempt = || format!("asking the data plane about the balancer of Service {uid}");
        self.plane.status_of(uid).await.map_err(|error| error.during(attempt()))
    }

    /// Puts a changed intent in force.
    async fn apply(&self, change: Change, intent: Intent, changes: &Changes) -> Result<(), Error> {
        let attempt = format!("giving the data plane a changed {} {}", change.kind(), change.name());
        let made = changes.make(change, |permit| async move {
            self.plane.apply(intent, &permit).await.map_err(|error| error.during(attempt))
        });
        made.await.map(drop)
    }

    /// Everything in the data plane that must be true of this Service, given what it has now.
    fn decide(&self, spec: &Spec, asked: &Asked, intent: &Intent) -> Result<(Balancer, Vec<IpAddr>), Error> {
        let addresses = self.addresses(spec, asked, intent)?;
        Ok((wanted::balancer(spec, asked, &addresses, self.plane.forwarding())?, addresses))
    }

    /// Says on the Service what it asks for in vain.
    fn warn(&self, spec: &Spec, problems: impl IntoIterator<Item = String>) {
        let Identity { namespace, name, uid, .. } = spec.identity.clone();
        let subject = Subject::Service { namespace, name, uid };
        for problem in problems {
            self.events.record(&subject, EventType::Warning, "LoadBalancerSettings", &problem);
        }
    }
}

#[async_trait]
impl LoadBalancers for Balancers {
    fn describe(&self) -> Description {
        let features = [
            Feature::SourceRanges,
            Feature::ClientIpAffinity,
            Feature::Udp,
            Feature::MixedProtocols,
            Feature::LocalTraffic,
            Feature::Ipv6,
            Feature::DualStack,
            Feature::RequestedAddress,
            Feature::NoNodePorts,
        ];
        let described = Description::supporting(features).owning(self.classes.clone()).reading(ANNOTATIONS);
        match self.plane.forwarding() {
            // The nodes know the virtual address: no port of theirs is needed.
            Forwarding::Kernel => described,
            Forwarding::UserSpace => described.reaching_endpoints(),
        }
    }

    /// The data plane knows balancers by the UID of their Service.
    fn name(&self, identity: &Identity) -> String {
        identity.uid.clone()
    }

    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error> {
        let intent = self.intent().await?;
        let Some(held) = owned(&intent, &spec.identity)? else { return Ok(None) };
        let decided = Asked::of(&spec.service).and_then(|asked| self.decide(spec, &asked, &intent));
        let mut different = match decided {
            Ok((wanted, _)) => differences(&spec.identity.uid, held.0, &wanted),
            Err(error) if matches!(error.decision(), Decision::RetryAfter { .. }) => return Err(error),
            Err(error) => vec![error.report()],
        };
        let status = self.status_of(&spec.identity.uid).await?;
        different.extend(report::closed(&status, &spec.identity.uid));
        let agreement = if different.is_empty() { Agreement::Same } else { Agreement::Different(different) };
        Ok(Some(Observed {
            status: report::status(held.0.addresses.iter().copied(), &spec.families, self.plane.forwarding()),
            agreement,
        }))
    }

    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error> {
        let asked = Asked::of(&spec.service)?;
        self.warn(spec, annotation::misspelt(&spec.service));
        let uid = &spec.identity.uid;
        let addresses = {
            let _turn = self.turn.lock().await;
            let mut intent = self.intent().await?;
            let held = owned(&intent, &spec.identity)?;
            let (wanted, addresses) = self.decide(spec, &asked, &intent)?;
            let change = match held {
                Some((held, _)) if *held == wanted => None,
                Some((held, proof)) => {
                    Some(Change::update(KIND, uid, &proof).detail(differences(uid, held, &wanted).join(", ")))
                }
                None => Some(Change::create(KIND, uid).detail(report::summary(&wanted))),
            };
            if let Some(change) = change {
                intent.balancers.insert(uid.clone(), Arc::new(wanted));
                self.apply(change, intent, changes).await?;
            }
            addresses
        };
        let status = self.status_of(uid).await?;
        self.warn(spec, report::problems(&status, uid));
        match report::closed(&status, uid).as_slice() {
            [] => Ok(report::status(addresses, &spec.families, self.plane.forwarding())),
            closed => Err(Error::other(format!("opening the ports of {}", report::full_name(spec)))
                .because(closed.join("; "))),
        }
    }

    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error> {
        let uid = &spec.identity.uid;
        let _turn = self.turn.lock().await;
        let mut intent = self.intent().await?;
        let Some((held, proof)) = owned(&intent, &spec.identity)? else {
            let attempt = format!("setting the backends of {}", report::full_name(spec));
            return Err(Error::not_found(attempt).because("the data plane has no balancer for it"));
        };
        let wanted = wanted::with_backends(held, spec, self.plane.forwarding())?;
        if wanted == *held {
            return Ok(());
        }
        let change = Change::update(KIND, uid, &proof).detail(differences(uid, held, &wanted).join(", "));
        intent.balancers.insert(uid.clone(), Arc::new(wanted));
        self.apply(change, intent, changes).await
    }

    async fn delete(&self, identity: &Identity, _: Option<&Service>, changes: &Changes) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let mut intent = self.intent().await?;
        let Some((held, proof)) = owned(&intent, identity)? else { return Ok(()) };
        let change = Change::delete(KIND, &identity.uid, &proof).detail(report::summary(held));
        intent.balancers.remove(&identity.uid);
        self.apply(change, intent, changes).await
    }

    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        let intent = self.intent().await?;
        let ours = intent.balancers.iter().filter_map(|(uid, held)| {
            let proof = Proof::by_cluster_tag(cluster, held.cluster.as_deref()).ok()?;
            let identity = Identity {
                cluster: cluster.clone(),
                namespace: held.namespace.clone(),
                name: held.name.clone(),
                uid: uid.clone(),
            };
            Some(Owned { identity, objects: vec![format!("{KIND} {}", report::summary(held))], proof })
        });
        Ok(ours.collect())
    }
}

/// What the data plane has for this Service, with the proof that it is ours; `None` if it has nothing.
fn owned<'a>(intent: &'a Intent, identity: &Identity) -> Result<Option<(&'a Balancer, Proof)>, Error> {
    let Some(held) = intent.balancers.get(&identity.uid) else { return Ok(None) };
    Proof::by_cluster_tag(&identity.cluster, held.cluster.as_deref())
        .map(|proof| Some((&**held, proof)))
        .map_err(|error| error.context(format!("looking at the balancer of Service {}", identity.uid)))
}

/// What must change to make one balancer of the other, in words.
fn differences(uid: &str, held: &Balancer, wanted: &Balancer) -> Vec<String> {
    let alone = |balancer: &Balancer| Intent {
        balancers: [(uid.to_owned(), Arc::new(balancer.clone()))].into(),
        ..Intent::empty()
    };
    plan(&alone(held), &alone(wanted)).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
