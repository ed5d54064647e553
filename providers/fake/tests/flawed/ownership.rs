//! Providers that take what is not theirs, or lose what is.

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Identity, Observed, Owned, Spec};
use cloud_provider::ownership::CLUSTER_TAG;
use cloud_provider::{Change, Changes, ClusterId, ClusterIdentity, Error, LoadBalancers, Permit};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use provider_fake::objects::{Address, Balancer, BalancerUpdate, NewAddress};
use provider_fake::{Api, ApiError, Filter, Listed, World};

use super::between::Bend;
use super::gate::ajar;
use super::outside::{Twist, twisted};
use super::{Flaw, between, built, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        between("forgets the tags", "every_object_carries_our_tags", Tagless),
        between("adopts a foreign balancer", "a_foreign_balancer_of_our_name_is_refused", TagBlind),
        between("updates a foreign balancer", "update_leaves_a_foreign_balancer_alone", TagBlind),
        between("deletes a foreign balancer", "delete_leaves_a_foreign_balancer_alone", TagBlind),
        between("shows a foreign balancer", "get_does_not_take_a_foreign_balancer_for_ours", TagBlind),
        between("makes what a Go manager left anew", "what_a_go_manager_left_is_taken_over", OwnTagsAlone),
        between(
            "does not see what a Go manager left",
            "what_a_go_manager_left_is_seen_before_it_is_taken_over",
            OwnTagsAlone,
        ),
        between(
            "cannot delete what a Go manager left",
            "what_a_go_manager_left_can_be_deleted",
            OwnTagsAlone,
        ),
        between("does not stamp what it takes over", "what_a_go_manager_left_is_taken_over", NoStamp),
        outside("goes by the cluster's name", "two_clusters_of_one_name_do_not_see_each_other", ByName),
        outside("misses one in the list", "owned_objects_are_listed_completely", Misses),
        outside("lists what cannot be deleted", "a_listed_leftover_can_be_deleted", Mislabels),
        between("lists foreign objects", "only_owned_objects_are_listed", ListsAll),
        built(
            "deletes whatever it finds",
            "a_whole_story_leaves_foreign_objects_as_they_were",
            Arc::new(|built, world| {
                let twist: Arc<dyn Twist> = Arc::new(Ruthless(world.clone()));
                built.map(|cloud| twisted(cloud, &twist))
            }),
        ),
    ]
}

struct Tagless;

#[async_trait]
impl Bend for Tagless {
    async fn create_address(
        &self,
        api: &dyn Api,
        new: &NewAddress,
        permit: &Permit,
    ) -> Result<Address, ApiError> {
        api.create_address(&NewAddress { tags: provider_fake::objects::Tags::new(), ..new.clone() }, permit)
            .await
    }
}

/// Does not look at the cluster's tag, so that the name alone decides.
struct TagBlind;

fn blind(mut balancer: Balancer) -> Balancer {
    balancer.tags.remove(CLUSTER_TAG);
    balancer
}

#[async_trait]
impl Bend for TagBlind {
    async fn list_load_balancers(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        let listed = api.list_load_balancers(filter, page).await?;
        Ok(Listed { items: listed.items.into_iter().map(blind).collect(), next: listed.next })
    }

    async fn get_load_balancer(&self, api: &dyn Api, id: &str) -> Result<Balancer, ApiError> {
        api.get_load_balancer(id).await.map(blind)
    }
}

/// Finds nothing that does not carry a tag of ours.
struct OwnTagsAlone;

#[async_trait]
impl Bend for OwnTagsAlone {
    async fn list_load_balancers(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        let mut listed = api.list_load_balancers(filter, page).await?;
        listed.items.retain(|balancer| balancer.tags.contains_key(CLUSTER_TAG));
        Ok(listed)
    }
}

struct NoStamp;

#[async_trait]
impl Bend for NoStamp {
    async fn update_load_balancer(
        &self,
        api: &dyn Api,
        id: &str,
        update: &BalancerUpdate,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        let tags = api.get_load_balancer(id).await?.tags;
        api.update_load_balancer(id, &BalancerUpdate { tags, ..update.clone() }, permit).await
    }
}

/// Takes every cluster of one name for the same, and every Service of one name too.
struct ByName;

fn merged(identity: &Identity) -> Identity {
    let id = ClusterId::Configured(identity.cluster.name().to_owned());
    let cluster = ClusterIdentity::new(identity.cluster.name(), id);
    let uid = format!("{}{}00000000000000000000000000000000", identity.namespace, identity.name);
    Identity { cluster, uid, ..identity.clone() }
}

fn merged_spec(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.identity = merged(&spec.identity);
    spec
}

#[async_trait]
impl Twist for ByName {
    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Result<Option<Observed>, Error> {
        inner.get(&merged_spec(spec)).await
    }

    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        inner.ensure(&merged_spec(spec), changes).await
    }

    async fn delete(
        &self,
        inner: &dyn LoadBalancers,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        inner.delete(&merged(identity), service, changes).await
    }
}

struct Misses;

#[async_trait]
impl Twist for Misses {
    async fn list_owned(
        &self,
        inner: &dyn LoadBalancers,
        cluster: &ClusterIdentity,
    ) -> Result<Vec<Owned>, Error> {
        let mut owned = inner.list_owned(cluster).await?;
        owned.pop();
        Ok(owned)
    }
}

struct Mislabels;

#[async_trait]
impl Twist for Mislabels {
    async fn list_owned(
        &self,
        inner: &dyn LoadBalancers,
        cluster: &ClusterIdentity,
    ) -> Result<Vec<Owned>, Error> {
        let mut owned = inner.list_owned(cluster).await?;
        for owned in &mut owned {
            owned.identity.uid = owned.identity.uid.chars().rev().collect();
        }
        Ok(owned)
    }
}

/// Asked for what carries a tag, lists everything as if it did.
struct ListsAll;

#[async_trait]
impl Bend for ListsAll {
    async fn list_load_balancers(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        match filter {
            Filter::Tagged(key, value) if key == CLUSTER_TAG => {
                let mut listed = api.list_load_balancers(&Filter::All, page).await?;
                for balancer in &mut listed.items {
                    balancer.tags.insert(key.clone(), value.clone());
                }
                Ok(listed)
            }
            _ => api.list_load_balancers(filter, page).await,
        }
    }
}

struct Ruthless(World);

#[async_trait]
impl Twist for Ruthless {
    async fn delete(
        &self,
        _: &dyn LoadBalancers,
        _: &Identity,
        _: Option<&Service>,
        _: &Changes,
    ) -> Result<(), Error> {
        let (api, contents) = (self.0.session(""), self.0.contents());
        let all = contents.balancers.iter().map(|balancer| &balancer.id);
        for (id, balancer) in
            all.map(|id| (id, true)).chain(contents.addresses.iter().map(|each| (&each.id, false)))
        {
            let (api, changes) = (&api, Changes::through(ajar()));
            let made = changes.make(Change::create("sweep", id), |permit| async move {
                let deleted = if balancer {
                    api.delete_load_balancer(id, &permit).await
                } else {
                    api.delete_address(id, &permit).await
                };
                deleted.map_err(|error| error.during("sweeping"))
            });
            made.await?;
        }
        Ok(())
    }
}
