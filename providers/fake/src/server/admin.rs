//! The back door under `/admin/`: for tests and people, not for clients of the cloud. Nothing here is counted, slow or
//! faulty.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;

use crate::api::ApiError;
use crate::fault::Fault;
use crate::objects::Machine;
use crate::world::{Contents, World};

/// Objects to plant.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Planting {
    /// The cluster that they truly belong to; nobody's if it is not given.
    #[serde(default)]
    maker: Option<String>,
    /// The objects; those without an ID get one.
    contents: Contents,
}

pub(super) fn router() -> Router<World> {
    Router::new()
        .route("/health", get(|| async { Json(()) }))
        .route("/contents", get(|State(world): State<World>| async move { Json(world.contents()) }))
        .route(
            "/counters",
            get(|State(world): State<World>| async move { Json(world.counters()) }).delete(reset),
        )
        .route("/calls", get(|State(world): State<World>| async move { Json(world.calls()) }))
        .route("/violations", get(|State(world): State<World>| async move { Json(world.broken_rules()) }))
        .route("/leaks", get(|State(world): State<World>| async move { Json(world.leaks()) }))
        .route("/config", get(|State(world): State<World>| async move { Json(world.config().clone()) }))
        .route("/faults", post(inject).delete(clear))
        .route("/adopt", post(adopt))
        .route("/machines", post(add))
        .route("/machines/{id}", delete(remove))
        .route("/machines/{id}/stopped", put(stop))
        .route("/load-balancers/{id}", delete(remove_balancer))
        .route("/routes/{id}", delete(remove_route))
        .route("/plant", post(plant))
        .route("/gone/{uid}", put(gone))
}

async fn reset(State(world): State<World>) -> Json<()> {
    world.reset_counters();
    Json(())
}

async fn inject(
    State(world): State<World>,
    Json(fault): Json<Fault>,
) -> Result<Json<()>, (StatusCode, Json<ApiError>)> {
    world.inject(fault).map(Json).map_err(|why| (StatusCode::BAD_REQUEST, Json(ApiError::Invalid { why })))
}

async fn clear(State(world): State<World>) -> Json<()> {
    world.clear_faults();
    Json(())
}

async fn adopt(State(world): State<World>, Json(machines): Json<Vec<Machine>>) -> Json<()> {
    world.adopt(&machines);
    Json(())
}

async fn add(State(world): State<World>, Json(machines): Json<Vec<Machine>>) -> Json<()> {
    for machine in machines {
        world.add_machine(machine);
    }
    Json(())
}

async fn remove(State(world): State<World>, Path(id): Path<String>) -> StatusCode {
    found(world.remove_machine(&id))
}

async fn stop(State(world): State<World>, Path(id): Path<String>, Json(stopped): Json<bool>) -> StatusCode {
    found(world.set_stopped(&id, stopped))
}

async fn remove_balancer(State(world): State<World>, Path(id): Path<String>) -> StatusCode {
    found(world.remove_balancer(&id))
}

async fn remove_route(State(world): State<World>, Path(id): Path<String>) -> StatusCode {
    found(world.remove_route(&id))
}

/// Plants everything, and answers with the IDs in the order given.
async fn plant(State(world): State<World>, Json(planting): Json<Planting>) -> Json<Vec<String>> {
    let Planting { maker, contents } = planting;
    let maker = maker.as_deref();
    let mut ids = Vec::new();
    for machine in contents.machines {
        ids.push(machine.id.clone());
        world.add_machine(machine);
    }
    ids.extend(contents.addresses.into_iter().map(|each| world.plant_address(each, maker)));
    ids.extend(contents.balancers.into_iter().map(|each| world.plant_balancer(each, maker)));
    ids.extend(contents.routes.into_iter().map(|each| world.plant_route(each, maker)));
    ids.extend(contents.disks.into_iter().map(|each| world.plant_disk(each, maker)));
    Json(ids)
}

async fn gone(State(world): State<World>, Path(uid): Path<String>) -> Json<()> {
    world.owner_gone(&uid);
    Json(())
}

fn found(was_there: bool) -> StatusCode {
    if was_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}
