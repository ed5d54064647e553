//! The cloud as an HTTP server: its API under `/v1/`, its back door under `/admin/`.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::TcpListener;

use crate::world::World;

mod admin;
mod front;
mod reply;

/// The largest request that is read: room for the Nodes of a very large cluster.
const BODY_LIMIT: usize = 64 << 20;

/// All that the server answers.
pub fn router(world: World) -> Router {
    Router::new()
        .nest("/v1", front::router())
        .nest("/admin", admin::router())
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(world)
}

/// Serves until `end` completes, then lets the calls under way finish.
pub async fn serve(
    listener: TcpListener,
    world: World,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(world)).with_graceful_shutdown(end).await
}
