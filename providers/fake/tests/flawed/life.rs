//! Providers that are built wrongly, speak out of turn, or never end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Owned, Spec};
use cloud_provider::{
    Change, Changes, Cloud, ClusterIdentity, Clusters, Error, Existence, Freshness, Instances, LoadBalancers,
    NodeRef,
};
use futures::FutureExt;
use k8s_openapi::api::core::v1::LoadBalancerStatus;
use provider_fake::objects::{NewAddress, Tags};
use provider_fake::{Api, World};

use super::gate::ajar;
use super::outside::{Twist, twisted};
use super::{Flaw, built, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        built(
            "carries another provider's name",
            "the_cloud_carries_the_name_of_its_provider",
            Arc::new(|built, _| {
                built.map(|mut cloud| {
                    "other".clone_into(&mut cloud.name);
                    cloud
                })
            }),
        ),
        built("writes while it is built", "building_changes_nothing", Arc::new(writes_at_once)),
        built("writes while it stands by", "a_standby_stays_silent", Arc::new(writes_later)),
        built("works on after the end", "background_work_ends_with_the_process", Arc::new(never_ends)),
        built(
            "takes a broken config",
            "a_broken_config_is_refused_by_name",
            Arc::new(|built, _| built.or_else(|_| Ok(Cloud::new("fake")))),
        ),
        built(
            "does not name the broken file",
            "a_broken_config_is_refused_by_name",
            Arc::new(|built, _| built.map_err(|_| Error::invalid_config("reading the config"))),
        ),
        outside("tells of clusters that never were", "a_listed_cluster_has_an_address", AnyCluster),
        outside(
            "rewrites what it finds after a restart",
            "a_second_build_finds_what_the_first_one_made",
            Anew,
        ),
        meddling("writes when it looks up", "looking_up_changes_nothing"),
        meddling("writes when it lists", "listing_changes_nothing"),
    ]
}

fn writes_at_once(built: Result<Cloud, Error>, world: &World) -> Result<Cloud, Error> {
    // Where the cloud takes its time, this flaw has none.
    let _ = reserve(world.clone()).now_or_never();
    built
}

fn writes_later(built: Result<Cloud, Error>, world: &World) -> Result<Cloud, Error> {
    let world = world.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        reserve(world).await
    });
    built
}

async fn reserve(world: World) -> Result<(), Error> {
    let new = NewAddress { name: "early".to_owned(), ipv6: false, ip: None, tags: Tags::new(), token: None };
    let changes = Changes::through(ajar());
    let made = changes.make(Change::create("address", "early"), |permit| async move {
        world.session("").create_address(&new, &permit).await.map_err(|error| error.during("reserving"))
    });
    made.await.map(drop)
}

fn never_ends(built: Result<Cloud, Error>, _: &World) -> Result<Cloud, Error> {
    tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
    });
    built
}

/// Reserves an address whenever it reads.
struct Meddling(World);

fn meddling(name: &'static str, caught_by: &'static str) -> Flaw {
    built(
        name,
        caught_by,
        Arc::new(|built, world| {
            let twist: Arc<dyn Twist> = Arc::new(Meddling(world.clone()));
            built.map(|cloud| twisted(cloud, &twist))
        }),
    )
}

#[async_trait]
impl Twist for Meddling {
    async fn lookup(
        &self,
        inner: &dyn Instances,
        nodes: &[NodeRef],
        freshness: Freshness,
    ) -> Result<Vec<Existence>, Error> {
        reserve(self.0.clone()).await?;
        inner.lookup(nodes, freshness).await
    }

    async fn list_owned(
        &self,
        inner: &dyn LoadBalancers,
        cluster: &ClusterIdentity,
    ) -> Result<Vec<Owned>, Error> {
        reserve(self.0.clone()).await?;
        inner.list_owned(cluster).await
    }
}

struct AnyCluster;

#[async_trait]
impl Twist for AnyCluster {
    async fn address(&self, _: &dyn Clusters, _: &str) -> Result<String, Error> {
        Ok("192.0.2.1:6443".to_owned())
    }
}

/// Empties each balancer of its backends before it ensures it, so that it always has something to do.
pub(crate) struct Anew;

#[async_trait]
impl Twist for Anew {
    async fn ensure(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<LoadBalancerStatus, Error> {
        let mut nobody = spec.clone();
        nobody.nodes.clear();
        let _ = inner.update_backends(&nobody, changes).await;
        inner.ensure(spec, changes).await
    }
}
