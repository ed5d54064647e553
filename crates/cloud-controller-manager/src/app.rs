//! The application: client, cluster identity, election, provider, work, and an orderly end.
//!
//! What is not there yet is waited for; what cannot work is named and ends the process; losing the lease ends it too,
//! because what this process knows may by then be out of date.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use controller_kit::client::{self, Clients, wait_for_api_server};
use controller_kit::clock::{SharedClock, SystemClock};
use controller_kit::leader::Ended;
use controller_kit::lifecycle::Shutdown;
use controller_kit::log;
use controller_kit::random::Randomness;
use prometheus_client::registry::Registry as MetricsRegistry;

use crate::config::Config;

mod candidate;
mod cloud;
mod cluster;
mod provider_context;

use self::candidate::Candidate;
use self::provider_context::Surroundings;

/// Runs until SIGTERM or SIGINT, or until the lease is lost.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Another part of the process may have chosen already; what counts is that there is exactly one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clock: SharedClock = Arc::new(SystemClock);
    let _verbosity = log::init(&config.logging, Arc::clone(&clock))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), provider = config.provider.name, "Starting nephos");

    let shutdown = Shutdown::new();
    shutdown.trigger_on_signals().context("listening for SIGTERM and SIGINT")?;
    let random = Randomness::from_os();
    let mut metrics = MetricsRegistry::default();
    let client_metrics = client::Metrics::register(&mut metrics);
    let clients = Clients::connect(config.client.clone(), random.clone(), client_metrics).await?;
    let reload = async {
        clients.reload_on_change(&shutdown).await;
        // It ends with the shutdown; the work then still has its lease to release.
        std::future::pending::<()>().await;
    };
    let work = lead_when_elected(&config, &clients, clock, &random, &mut metrics, &shutdown);
    tokio::select! {
        biased;
        ended = work => ended,
        () = reload => Ok(()),
    }
}

/// Prepares everything that a standby may prepare, and waits for its turn.
async fn lead_when_elected(
    config: &Config,
    clients: &Clients,
    clock: SharedClock,
    random: &Randomness,
    metrics: &mut MetricsRegistry,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    if !wait_for_api_server(&clients.named("startup").build(), random, shutdown).await {
        return Ok(());
    }
    let candidate = Candidate::new(config.election.as_ref(), clients, &clock, random, metrics)?;
    let cluster = cluster::identify(&clients.named("cluster-identity").build(), &config.cluster_name).await;
    let surroundings = Surroundings::new(cluster, clock, shutdown.clone(), candidate.leadership());
    let cloud = cloud::build(config, surroundings.context()).await?;
    cloud::say_what_it_can_do(&cloud);

    let ended = candidate
        .run(shutdown, |_| async {
            surroundings.announce_leadership();
            shutdown.wait().await;
        })
        .await;
    match ended {
        Ended::Lost => bail!("leader election lost: another process may lead by now"),
        Ended::NeverLed | Ended::Finished(()) => {
            tracing::info!("Stopped");
            Ok(())
        }
    }
}
