//! Notices that configuration files changed on disk and moves the connection pool over.

use std::time::Duration;

use http::Request;
use kube::client::Body;

use super::metrics::Metrics;
use super::source::{Loaded, Source};
use super::transport::Transport;
use crate::lifecycle::Shutdown;
use crate::log::report;

/// How often the files are looked at. Volumes that carry rotated files are swapped by renaming links, which file
/// notification sees badly; reading four small files sees it always.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) async fn run(source: &Source, transport: &Transport, metrics: &Metrics, stop: &Shutdown) {
    let mut complained_about = None;
    while stop.or_stop(tokio::time::sleep(PERIOD)).await.is_some() {
        let seen = source.fingerprint().await;
        if seen == transport.fingerprint() {
            continue;
        }
        match try_new(source).await {
            Ok(loaded) => {
                tracing::info!(host = loaded.host, "Using the changed API server configuration");
                transport.replace(loaded.client, loaded.host, loaded.fingerprint);
                metrics.reloaded(true);
                complained_about = None;
            }
            Err(why) if complained_about == Some(seen) => {
                tracing::debug!(why, "The API server configuration still cannot be used");
            }
            Err(why) => {
                tracing::error!(
                    why,
                    "Keeping the last good API server configuration: the new one cannot be used"
                );
                metrics.reloaded(false);
                complained_about = Some(seen);
            }
        }
    }
}

/// Reads the new configuration and asks the server whether it accepts the credentials. A server that does not answer
/// proves nothing, so only a refusal counts.
async fn try_new(source: &Source) -> Result<Loaded, String> {
    let loaded = source.load().await.map_err(|error| report(&error).to_string())?;
    if !source.has_credentials() {
        return Ok(loaded);
    }
    let question = Request::get("/version").body(Body::empty()).map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(Duration::from_secs(5), loaded.client.send(question)).await;
    match answer {
        Ok(Ok(answer)) if answer.status() == http::StatusCode::UNAUTHORIZED => {
            Err(format!("{} refuses the new credentials", loaded.host))
        }
        _ => Ok(loaded),
    }
}
