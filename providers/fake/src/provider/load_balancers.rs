//! Load balancers: one address per family and one balancer per Service, found again by token, name or tag.
//!
//! `ensure` may be interrupted anywhere, and any answer may be lost: each create carries a token under which the cloud
//! answers with what it made before, and each pass starts from what is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Agreement, Description, Feature, Identity, Observed, Owned, Spec};
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Change, Changes, ClusterIdentity, Decision, Error, LoadBalancers, Proof};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};

use super::{ProviderSettings, all_pages};
use crate::api::{Api, Filter};
use crate::config::IpMode;
use crate::objects::{Balancer, BalancerUpdate, NewBalancer, Object};

mod addresses;
mod holdings;
mod wanted;

pub use wanted::{IDLE_TIMEOUT_ANNOTATION, SERVICE_TAG};

use holdings::{Depth, Holdings, Strangers};
use wanted::Wanted;

/// The longest wait that a pending balancer asks for: it may be ready before the cloud said so.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(super) struct FakeLoadBalancers {
    api: Arc<dyn Api>,
    settings: Arc<ProviderSettings>,
}

#[async_trait]
impl LoadBalancers for FakeLoadBalancers {
    fn describe(&self) -> Description {
        Description::supporting([
            Feature::SourceRanges,
            Feature::ClientIpAffinity,
            Feature::Udp,
            Feature::Sctp,
            Feature::MixedProtocols,
            Feature::LocalTraffic,
            Feature::Ipv6,
            Feature::DualStack,
            Feature::RequestedAddress,
            Feature::NoNodePorts,
        ])
        .owning(self.settings.classes.clone())
        .reading(wanted::ANNOTATIONS)
    }

    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error> {
        let mut held = self.find(&spec.identity, Depth::Enough, Strangers::Overlook).await?;
        if held.balancers.is_empty() {
            // "Nothing" may end the life of a finalizer: it takes a thorough look.
            held = self.find(&spec.identity, Depth::Everything, Strangers::Overlook).await?;
        }
        let Some((balancer, _)) = held.balancers.first() else {
            return Ok(held.leftovers().map(|what| Observed {
                status: LoadBalancerStatus::default(),
                agreement: Agreement::Different(vec![what]),
            }));
        };
        let mut points = Wanted::of(spec)?.differences(balancer);
        points
            .extend(held.balancers.iter().skip(1).map(|(other, _)| format!("{} is one too many", other.id)));
        let unused =
            held.addresses.iter().filter(|(address, _)| !balancer.addresses.contains_key(&address.id));
        points.extend(unused.map(|(address, _)| format!("the address {} is one too many", address.ip)));
        points.extend(balancer.pending_for.map(|_| "it is still being built".to_owned()));
        let agreement = if points.is_empty() { Agreement::Same } else { Agreement::Different(points) };
        Ok(Some(Observed { status: self.status(spec, balancer), agreement }))
    }

    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error> {
        let wanted = Wanted::of(spec)?;
        self.converge(spec, &wanted, changes).await.map_err(|error| match error.decision() {
            // Somebody deleted a part of it under our hands: not an answer to "ensure", only a reason to come again.
            Decision::NotFound => Error::other("the load balancer changed meanwhile").because(error),
            _ => error,
        })
    }

    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error> {
        let held = self.find(&spec.identity, Depth::Enough, Strangers::Refuse).await?;
        let name = spec.identity.default_name();
        let Some((balancer, proof)) = held.balancers.first() else {
            return Err(Error::not_found(format!("looking for load balancer {name}")));
        };
        ready(balancer)?;
        self.set_backends(&Wanted::of(spec)?, balancer, proof, changes).await
    }

    async fn delete(&self, identity: &Identity, _: Option<&Service>, changes: &Changes) -> Result<(), Error> {
        let held = self.find(identity, Depth::Everything, Strangers::Refuse).await?;
        for (balancer, proof) in &held.balancers {
            self.delete_balancer(balancer, proof, changes).await?;
        }
        for (address, proof) in &held.addresses {
            self.delete_address(address, proof, changes).await?;
        }
        Ok(())
    }

    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        // A cluster that does not know itself can prove nothing by tag.
        let Some(id) = cluster.id() else { return Ok(Vec::new()) };
        let filter = &Filter::Tagged(CLUSTER_TAG.to_owned(), id.to_string());
        let balancers =
            all_pages(|token| async move { self.api.list_load_balancers(filter, token.as_deref()).await })
                .await
                .map_err(|error| error.during("listing this cluster's load balancers"))?;
        let addresses =
            all_pages(|token| async move { self.api.list_addresses(filter, token.as_deref()).await })
                .await
                .map_err(|error| error.during("listing this cluster's addresses"))?;
        let mut owned = BTreeMap::new();
        for balancer in &balancers {
            gather(&mut owned, cluster, balancer, format!("load balancer {}", balancer.id))?;
        }
        for address in &addresses {
            gather(&mut owned, cluster, address, format!("address {}", address.ip))?;
        }
        Ok(owned.into_values().collect())
    }
}

impl FakeLoadBalancers {
    pub(super) fn new(api: Arc<dyn Api>, settings: Arc<ProviderSettings>) -> Self {
        Self { api, settings }
    }

    async fn converge(
        &self,
        spec: &Spec,
        wanted: &Wanted,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        let held = self.find(&spec.identity, Depth::Enough, Strangers::Refuse).await?;
        if let Some((balancer, _)) = held.balancers.first() {
            ready(balancer)?;
        }
        let addresses = self.settle_addresses(spec, wanted, &held, changes).await?;
        let balancer = match held.balancers.first() {
            Some((balancer, proof)) => {
                let update = wanted.update(balancer, addresses.keys().cloned().collect());
                let balancer = self.update(balancer, update, proof, changes).await?;
                self.set_backends(wanted, &balancer, proof, changes).await?;
                balancer
            }
            None => self.create(spec, wanted, addresses.keys().cloned().collect(), changes).await?,
        };
        ready(&balancer)?;
        self.remove_surplus(&held, &balancer, changes).await?;
        Ok(self.status(spec, &balancer))
    }

    async fn create(
        &self,
        spec: &Spec,
        wanted: &Wanted,
        addresses: std::collections::BTreeSet<String>,
        changes: &Changes,
    ) -> Result<Balancer, Error> {
        let name = spec.identity.default_name();
        let new = NewBalancer {
            name: name.clone(),
            tags: wanted.tags.clone(),
            addresses,
            settings: wanted.settings.clone(),
            backends: wanted.backends.clone(),
            token: Some(holdings::token(&spec.identity, "balancer")),
        };
        let change = Change::create("load balancer", &name).detail(wanted.summary());
        let attempt = format!("creating load balancer {name}");
        changes
            .make(change, |permit| async move {
                self.api.create_load_balancer(&new, &permit).await.map_err(|error| error.during(attempt))
            })
            .await
    }

    async fn update(
        &self,
        balancer: &Balancer,
        update: Option<BalancerUpdate>,
        proof: &Proof,
        changes: &Changes,
    ) -> Result<Balancer, Error> {
        let Some(update) = update else { return Ok(balancer.clone()) };
        let id = &balancer.id;
        let change = Change::update("load balancer", &balancer.name, proof);
        changes
            .make(change, |permit| async move {
                let attempt = || format!("updating load balancer {id}");
                self.api
                    .update_load_balancer(id, &update, &permit)
                    .await
                    .map_err(|error| error.during(attempt()))
            })
            .await
    }

    async fn set_backends(
        &self,
        wanted: &Wanted,
        balancer: &Balancer,
        proof: &Proof,
        changes: &Changes,
    ) -> Result<(), Error> {
        if balancer.backends == wanted.backends {
            return Ok(());
        }
        let (id, backends) = (&balancer.id, &wanted.backends);
        let change = Change::update("load balancer", &balancer.name, proof)
            .detail(format!("{} backends", backends.len()));
        changes
            .make(change, |permit| async move {
                let attempt = || format!("setting the backends of load balancer {id}");
                self.api.set_backends(id, backends, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await
            .map(drop)
    }

    async fn delete_balancer(
        &self,
        balancer: &Balancer,
        proof: &Proof,
        changes: &Changes,
    ) -> Result<(), Error> {
        let id = &balancer.id;
        let deleted = changes
            .make(Change::delete("load balancer", &balancer.name, proof), |permit| async move {
                let attempt = || format!("deleting load balancer {id}");
                self.api.delete_load_balancer(id, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await;
        gone_is_fine(deleted)
    }

    /// Removes what a former spec or an interrupted pass left: further balancers, and addresses that none uses.
    async fn remove_surplus(
        &self,
        held: &Holdings,
        balancer: &Balancer,
        changes: &Changes,
    ) -> Result<(), Error> {
        for (other, proof) in held.balancers.iter().skip(1) {
            self.delete_balancer(other, proof, changes).await?;
        }
        for (address, proof) in &held.addresses {
            if !balancer.addresses.contains_key(&address.id) {
                self.delete_address(address, proof, changes).await?;
            }
        }
        Ok(())
    }

    fn status(&self, spec: &Spec, balancer: &Balancer) -> LoadBalancerStatus {
        let mode = self.settings.ip_mode.map(|mode| match mode {
            IpMode::Vip => "VIP".to_owned(),
            IpMode::Proxy => "Proxy".to_owned(),
        });
        let mut ips: Vec<_> = balancer.addresses.values().copied().collect();
        let place = |ip| spec.families.iter().position(|family| *family == crate::objects::family_of(ip));
        ips.sort_by_key(|ip| place(*ip));
        let ingress = ips
            .into_iter()
            .map(|ip| LoadBalancerIngress {
                ip: Some(ip.to_string()),
                ip_mode: mode.clone(),
                ..LoadBalancerIngress::default()
            })
            .collect();
        LoadBalancerStatus { ingress: Some(ingress) }
    }
}

/// Adds an object to what is owned for its Service.
fn gather(
    owned: &mut BTreeMap<String, Owned>,
    cluster: &ClusterIdentity,
    object: &impl Object,
    what: String,
) -> Result<(), Error> {
    let proof = Proof::by_cluster_tag(cluster, object.tags().get(CLUSTER_TAG).map(String::as_str))?;
    let uid = object.tags().get(OWNER_TAG).cloned().unwrap_or_default();
    let service = object.tags().get(SERVICE_TAG).map(String::as_str).unwrap_or_default();
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let identity = Identity {
        cluster: cluster.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.clone(),
    };
    owned.entry(uid).or_insert_with(|| Owned { identity, objects: Vec::new(), proof }).objects.push(what);
    Ok(())
}

/// Nothing can be done to a balancer that is being built, and nobody should wait for it here.
fn ready(balancer: &Balancer) -> Result<(), Error> {
    match balancer.pending_for {
        Some(wait) => Err(Error::retry_after(
            wait.min(LONGEST_WAIT),
            format!("load balancer {} is still being built", balancer.id),
        )),
        None => Ok(()),
    }
}

fn gone_is_fine(deleted: Result<(), Error>) -> Result<(), Error> {
    match deleted {
        Err(error) if *error.decision() == Decision::NotFound => Ok(()),
        other => other,
    }
}
