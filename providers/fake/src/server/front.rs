//! The API under `/v1/`: one route per call.

use axum::extract::{FromRequestParts, Path};
use axum::routing::{delete, get, put};
use axum::{Json, Router};
use cloud_provider::Verb;
use http::StatusCode;
use http::request::Parts;

use super::reply::Reply;
use crate::api::{Api, ApiError, Filter};
use crate::objects::{BalancerUpdate, NewAddress, NewBalancer, NewDisk, NewRoute, Tags};
use crate::wire::{self, CLUSTER_HEADER, PERMIT_HEADER};
use crate::world::{Session, Warrant, World};

/// Who calls, and what the request says of itself.
struct Caller {
    session: Session,
    verb: Option<Verb>,
    filter: Filter,
    page: Option<String>,
}

impl Caller {
    fn page(&self) -> Option<&str> {
        self.page.as_deref()
    }

    fn warrant(&self) -> Warrant<'static> {
        Warrant::Told(self.verb)
    }
}

impl FromRequestParts<World> for Caller {
    type Rejection = (StatusCode, Json<ApiError>);

    async fn from_request_parts(parts: &mut Parts, world: &World) -> Result<Self, Self::Rejection> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let query = parts.uri.query().unwrap_or_default();
        let (filter, page) = wire::read_query(query)
            .map_err(|why| (StatusCode::BAD_REQUEST, Json(ApiError::Invalid { why })))?;
        let session = world.session(header(CLUSTER_HEADER).unwrap_or_default());
        Ok(Self { session, verb: header(PERMIT_HEADER).and_then(wire::verb), filter, page })
    }
}

pub(super) fn router() -> Router<World> {
    Router::new()
        .merge(instances())
        .merge(addresses())
        .merge(load_balancers())
        .merge(routes())
        .merge(volumes())
}

fn instances() -> Router<World> {
    Router::new()
        .route(
            "/instances",
            get(|caller: Caller| async move { Reply(caller.session.list_instances(caller.page()).await) }),
        )
        .route(
            "/instances/{id}",
            get(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.get_instance(&id).await)
            }),
        )
        .route("/clusters", get(|caller: Caller| async move { Reply(caller.session.list_clusters().await) }))
}

fn addresses() -> Router<World> {
    Router::new()
        .route(
            "/addresses",
            get(|caller: Caller| async move {
                Reply(caller.session.list_addresses(&caller.filter, caller.page()).await)
            })
            .post(|caller: Caller, Json(new): Json<NewAddress>| async move {
                Reply(caller.session.create_address_with(&new, caller.warrant()).await)
            }),
        )
        .route(
            "/addresses/{id}",
            get(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.get_address(&id).await)
            })
            .delete(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.delete_address_with(&id, caller.warrant()).await)
            }),
        )
        .route(
            "/addresses/{id}/tags",
            put(|caller: Caller, Path(id): Path<String>, Json(tags): Json<Tags>| async move {
                Reply(caller.session.tag_address_with(&id, &tags, caller.warrant()).await)
            }),
        )
}

fn load_balancers() -> Router<World> {
    Router::new()
        .route(
            "/load-balancers",
            get(|caller: Caller| async move {
                Reply(caller.session.list_load_balancers(&caller.filter, caller.page()).await)
            })
            .post(|caller: Caller, Json(new): Json<NewBalancer>| async move {
                Reply(caller.session.create_load_balancer_with(&new, caller.warrant()).await)
            }),
        )
        .route(
            "/load-balancers/{id}",
            get(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.get_load_balancer(&id).await)
            })
            .put(|caller: Caller, Path(id): Path<String>, Json(update): Json<BalancerUpdate>| async move {
                Reply(caller.session.update_load_balancer_with(&id, &update, caller.warrant()).await)
            })
            .delete(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.delete_load_balancer_with(&id, caller.warrant()).await)
            }),
        )
        .route(
            "/load-balancers/{id}/backends",
            put(|caller: Caller, Path(id): Path<String>, Json(backends): Json<_>| async move {
                Reply(caller.session.set_backends_with(&id, &backends, caller.warrant()).await)
            }),
        )
}

fn routes() -> Router<World> {
    Router::new()
        .route(
            "/routes",
            get(|caller: Caller| async move {
                Reply(caller.session.list_routes(&caller.filter, caller.page()).await)
            })
            .post(|caller: Caller, Json(new): Json<NewRoute>| async move {
                Reply(caller.session.create_route_with(&new, caller.warrant()).await)
            }),
        )
        .route(
            "/routes/{id}",
            delete(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.delete_route_with(&id, caller.warrant()).await)
            }),
        )
}

fn volumes() -> Router<World> {
    Router::new()
        .route(
            "/volumes",
            get(|caller: Caller| async move {
                Reply(caller.session.list_volumes(&caller.filter, caller.page()).await)
            })
            .post(|caller: Caller, Json(new): Json<NewDisk>| async move {
                Reply(caller.session.create_volume_with(&new, caller.warrant()).await)
            }),
        )
        .route(
            "/volumes/{id}",
            get(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.get_volume(&id).await)
            })
            .delete(|caller: Caller, Path(id): Path<String>| async move {
                Reply(caller.session.delete_volume_with(&id, caller.warrant()).await)
            }),
        )
        .route(
            "/volumes/{id}/size",
            put(|caller: Caller, Path(id): Path<String>, Json(bytes): Json<u64>| async move {
                Reply(caller.session.resize_volume_with(&id, bytes, caller.warrant()).await)
            }),
        )
        .route(
            "/volumes/{id}/attachments/{machine}",
            put(|caller: Caller, Path((id, machine)): Path<(String, String)>| async move {
                Reply(caller.session.attach_volume_with(&id, &machine, caller.warrant()).await)
            })
            .delete(|caller: Caller, Path((id, machine)): Path<(String, String)>| async move {
                Reply(caller.session.detach_volume_with(&id, &machine, caller.warrant()).await)
            }),
        )
}
