//! Routes: one per node and pod network, named after the cluster and the hint, tagged as ours.

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::context::NodeReader;
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Change, Changes, ClusterIdentity, Decision, Error, Proof, Route, Routes};
use k8s_openapi::api::core::v1::NodeAddress;

use super::{ProviderSettings, all_pages};
use crate::api::{Api, Filter};
use crate::objects::{NewRoute, RouteEntry, Tags};

pub(super) struct FakeRoutes {
    api: Arc<dyn Api>,
    nodes: Arc<dyn NodeReader>,
    settings: Arc<ProviderSettings>,
}

impl FakeRoutes {
    pub(super) fn new(
        api: Arc<dyn Api>,
        nodes: Arc<dyn NodeReader>,
        settings: Arc<ProviderSettings>,
    ) -> Self {
        Self { api, nodes, settings }
    }

    /// Our tag; for a route without one, upstream's rule.
    fn prove(&self, cluster: &ClusterIdentity, entry: &RouteEntry) -> Result<Proof, Error> {
        let tag = entry.tags.get(CLUSTER_TAG).map(String::as_str);
        if tag.is_some() {
            return Proof::by_cluster_tag(cluster, tag);
        }
        // A cluster that does not know itself could not tag its routes; the name with the hint in it must do.
        let named = entry.name.starts_with(&format!("{}-", cluster.name()));
        let is_ours = |node: &str| self.nodes.get(node).is_some();
        Proof::by_route_rule(&self.settings.pod_networks, &route(entry), named, is_ours)
    }

    async fn entries(&self, filter: &Filter) -> Result<Vec<RouteEntry>, Error> {
        all_pages(|token| async move { self.api.list_routes(filter, token.as_deref()).await })
            .await
            .map_err(|error| error.during("listing routes"))
    }

    async fn remove(&self, entry: &RouteEntry, proof: &Proof, changes: &Changes) -> Result<(), Error> {
        let id = &entry.id;
        let change = Change::delete("route", &entry.name, proof).detail(entry.destination.to_string());
        let deleted = changes
            .make(change, |permit| async move {
                let attempt = || format!("deleting route {id}");
                self.api.delete_route(id, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await;
        match deleted {
            Err(error) if *error.decision() == Decision::NotFound => Ok(()),
            other => other,
        }
    }

    async fn make(&self, new: &NewRoute, changes: &Changes) -> Result<RouteEntry, Error> {
        let node = new.node.as_deref().unwrap_or_default();
        let change = Change::create("route", &new.name).detail(format!("{} to {node}", new.destination));
        changes
            .make(change, |permit| async move {
                let attempt = || format!("creating route {}", new.name);
                self.api.create_route(new, &permit).await.map_err(|error| error.during(attempt()))
            })
            .await
    }
}

#[async_trait]
impl Routes for FakeRoutes {
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        let entries = self.entries(&Filter::All).await?;
        let mut ours: Vec<&RouteEntry> =
            entries.iter().filter(|entry| self.prove(cluster, entry).is_ok()).collect();
        // A list that moved while it was read may show a route twice.
        ours.sort_by(|a, b| a.id.cmp(&b.id));
        ours.dedup_by(|a, b| a.id == b.id);
        Ok(ours.into_iter().map(route).collect())
    }

    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        let new = wanted(cluster, hint, route);
        let same = |entry: &RouteEntry| {
            entry.node == new.node
                && entry.destination == new.destination
                && !entry.blackhole
                && entry.addresses == new.addresses
        };
        // By token, so that a lost answer or a lagging list does not make it a second time; by name, for one that a
        // former manager left.
        let token = Filter::Token(new.token.clone().unwrap_or_default());
        for filter in [token, Filter::Named(new.name.clone())] {
            for entry in self.entries(&filter).await? {
                let proof = self.prove(cluster, &entry)?;
                if same(&entry) {
                    return Ok(());
                }
                self.remove(&entry, &proof, changes).await?;
            }
        }
        self.make(&new, changes).await.map(drop)
    }

    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error> {
        for entry in self.entries(&Filter::Named(route.name.clone())).await? {
            if entry.destination == route.destination && entry.node == route.target_node {
                let proof = self.prove(cluster, &entry)?;
                self.remove(&entry, &proof, changes).await?;
            }
        }
        Ok(())
    }
}

fn wanted(cluster: &ClusterIdentity, hint: &str, route: &Route) -> NewRoute {
    // The CIDR is part of the name: both families of a dual-stack node come with the same hint.
    let name = format!("{}-{hint}-{}", cluster.name(), route.destination);
    let id = cluster.id().map(ToString::to_string);
    let mut tags = Tags::from([(OWNER_TAG.to_owned(), hint.to_owned())]);
    tags.extend(id.clone().map(|id| (CLUSTER_TAG.to_owned(), id)));
    NewRoute {
        token: Some(format!("{}/{name}", id.unwrap_or_default())),
        name,
        destination: route.destination,
        node: route.target_node.clone(),
        addresses: route
            .target_addresses
            .iter()
            .flatten()
            .map(|address| (address.type_.clone(), address.address.clone()))
            .collect(),
        tags,
    }
}

fn route(entry: &RouteEntry) -> Route {
    let mut route = Route::new(entry.destination).named(&entry.name);
    route.target_node.clone_from(&entry.node);
    route.blackhole = entry.blackhole;
    let addresses = entry
        .addresses
        .iter()
        .map(|(type_, address)| NodeAddress { type_: type_.clone(), address: address.clone() });
    // Nothing told by whoever made it is nothing to compare.
    route.target_addresses = Some(addresses.collect()).filter(|told: &Vec<_>| !told.is_empty());
    route
}
