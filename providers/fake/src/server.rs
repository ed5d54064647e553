//! The cloud as an HTTP server: its API under `/v1/`, its back door under `/admin/`.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::Notify;

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
        .layer(from_fn(to_the_end))
        .with_state(world)
}

/// A cloud makes the change that it was asked for, whether or not the caller is still there to hear of it. A question
/// ends with whoever asked it.
async fn to_the_end(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let done = tokio::spawn(next.run(request)).await;
    done.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// How long calls under way may take to finish once the end has come; one that hangs never would.
const GRACE: Duration = Duration::from_secs(3);

/// Serves until `end` completes, then lets the calls under way finish, for three seconds at most.
pub async fn serve(
    listener: TcpListener,
    world: World,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let ended = Arc::new(Notify::new());
    let announce = Arc::clone(&ended);
    let server = axum::serve(listener, router(world)).with_graceful_shutdown(async move {
        end.await;
        announce.notify_one();
    });
    let give_up = async {
        ended.notified().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = server.into_future() => result,
        () = give_up => Ok(()),
    }
}
