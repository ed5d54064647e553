//! Routes that are lost, doubled, or not ours.

use async_trait::async_trait;
use cloud_provider::{Changes, ClusterIdentity, Error, Permit, Route, Routes};
use provider_fake::objects::{NewRoute, RouteEntry, Tags};
use provider_fake::{Api, ApiError, Filter, Listed};

use super::between::Bend;
use super::outside::Twist;
use super::{Flaw, between, outside};

type Page = Result<Listed<RouteEntry>, ApiError>;

pub(crate) fn flaws() -> Vec<Flaw> {
    vec![
        outside(
            "names the wrong node",
            "a_created_route_is_listed",
            Each(|route| {
                route.target_node = Some("elsewhere".to_owned());
            }),
        ),
        outside(
            "hides black holes",
            "a_route_whose_target_is_gone_is_listed_as_a_black_hole",
            Each(|route| {
                route.blackhole = false;
            }),
        ),
        outside("takes a failed list for an empty one", "a_list_of_routes_that_fails_is_an_error", Optimist),
        outside("knows IPv4 alone", "both_families_of_a_node_get_a_route", V4Alone),
        outside("fails when a route is gone already", "deleting_a_route_twice_is_success", FailsWhenGone),
        between("makes a route twice", "creating_a_route_twice_is_one_route", Doubles),
        between("makes a cancelled route twice", "a_cancelled_route_can_be_repeated", Doubles),
        between(
            "makes a route again when the answer is lost",
            "a_lost_answer_makes_no_second_route",
            Doubles,
        ),
        between("deletes nothing", "a_deleted_route_is_gone", Keeps),
        between("lists foreign routes", "foreign_routes_are_not_listed", TagBlind),
        between("deletes foreign routes", "foreign_routes_are_not_deleted", TagBlind),
        between("mixes the routes of two clusters", "routes_of_two_clusters_do_not_mix", TagBlind),
        between("lists the first page alone", "all_pages_of_routes_are_listed", FirstPage),
    ]
}

struct Each(fn(&mut Route));

#[async_trait]
impl Twist for Each {
    async fn list_routes(&self, inner: &dyn Routes, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        let mut routes = inner.list(cluster).await?;
        routes.iter_mut().for_each(self.0);
        Ok(routes)
    }
}

struct Optimist;

#[async_trait]
impl Twist for Optimist {
    async fn list_routes(&self, inner: &dyn Routes, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        Ok(inner.list(cluster).await.unwrap_or_default())
    }
}

struct V4Alone;

#[async_trait]
impl Twist for V4Alone {
    async fn create_route(
        &self,
        inner: &dyn Routes,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        if route.destination.network().is_ipv6() {
            return Ok(());
        }
        inner.create(cluster, hint, route, changes).await
    }
}

struct FailsWhenGone;

#[async_trait]
impl Twist for FailsWhenGone {
    async fn delete_route(
        &self,
        inner: &dyn Routes,
        cluster: &ClusterIdentity,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        if !inner.list(cluster).await?.contains(route) {
            return Err(Error::not_found("looking for the route to delete"));
        }
        inner.delete(cluster, route, changes).await
    }
}

/// Looks for nothing before it creates, and creates without a token.
struct Doubles;

#[async_trait]
impl Bend for Doubles {
    async fn list_routes(&self, api: &dyn Api, filter: &Filter, page: Option<&str>) -> Page {
        match filter {
            Filter::Token(_) | Filter::Named(_) => Ok(Listed { items: Vec::new(), next: None }),
            _ => api.list_routes(filter, page).await,
        }
    }

    async fn create_route(
        &self,
        api: &dyn Api,
        new: &NewRoute,
        permit: &Permit,
    ) -> Result<RouteEntry, ApiError> {
        api.create_route(&NewRoute { token: None, ..new.clone() }, permit).await
    }
}

struct Keeps;

#[async_trait]
impl Bend for Keeps {
    async fn delete_route(&self, _: &dyn Api, _: &str, _: &Permit) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Does not look at tags, so that name and node decide.
struct TagBlind;

#[async_trait]
impl Bend for TagBlind {
    async fn list_routes(&self, api: &dyn Api, filter: &Filter, page: Option<&str>) -> Page {
        let mut listed = api.list_routes(filter, page).await?;
        listed.items.iter_mut().for_each(|route| route.tags = Tags::new());
        Ok(listed)
    }
}

struct FirstPage;

#[async_trait]
impl Bend for FirstPage {
    async fn list_routes(&self, api: &dyn Api, filter: &Filter, page: Option<&str>) -> Page {
        Ok(Listed { next: None, ..api.list_routes(filter, page).await? })
    }
}
