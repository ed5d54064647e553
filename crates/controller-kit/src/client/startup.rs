//! Waits for an API server that is not there yet.

use std::time::Duration;

use http::{Request, StatusCode};
use kube::client::Body;

use crate::lifecycle::Shutdown;
use crate::log::report;
use crate::random::Randomness;

/// How often it asks, with a little jitter.
const PERIOD: Duration = Duration::from_secs(1);

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the API server answers `/healthz`, for as long as it takes; `false` if `stop` came first.
///
/// Says once what it waits for and once that the wait is over, and nothing when there is no wait. A server that
/// answers but does not let us ask for its health is there: what we may do will show itself soon enough.
pub async fn wait_for_api_server(client: &kube::Client, random: &Randomness, stop: &Shutdown) -> bool {
    let mut waited = false;
    loop {
        let Some(answer) = stop.or_stop(ask(client)).await else { return false };
        match answer {
            Ok(()) => {
                if waited {
                    tracing::info!("The API server is there");
                }
                return true;
            }
            Err(why) if waited => tracing::debug!(why, "The API server is still not there"),
            Err(why) => {
                tracing::info!(why, "Waiting for the API server");
                waited = true;
            }
        }
        if stop.or_stop(tokio::time::sleep(random.jitter(PERIOD, 0.1))).await.is_none() {
            return false;
        }
    }
}

async fn ask(client: &kube::Client) -> Result<(), String> {
    let question = Request::get("/healthz").body(Body::empty()).map_err(|error| error.to_string())?;
    match tokio::time::timeout(PATIENCE, client.send(question)).await {
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => Err(report(&error).to_string()),
        Ok(Ok(answer)) => match answer.status() {
            busy if busy.is_server_error() || busy == StatusCode::TOO_MANY_REQUESTS => {
                Err(format!("it answered {busy}"))
            }
            _ => Ok(()),
        },
    }
}
