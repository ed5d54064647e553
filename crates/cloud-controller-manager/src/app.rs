//! The application: client, cluster identity, election, provider, work, and an orderly end.
//!
//! What is not there yet is waited for; what cannot work is named and ends the process; losing the lease ends it too,
//! because what this process knows may by then be out of date.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cloud_provider::well_known::event_sources;
use controller_kit::client::{self, Clients, wait_for_api_server};
use controller_kit::clock::{SharedClock, SystemClock};
use controller_kit::events::{self, Recorder};
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

/// How long the last Events may take to be written once the work has ended.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// What every part of the process shares.
struct Process {
    clients: Clients,
    clock: SharedClock,
    random: Randomness,
    events: Recorder,
    shutdown: Shutdown,
}

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
    let (events, writer) = events::recorder(
        event_sources::MANAGER,
        clients.named("events").build(),
        Arc::clone(&clock),
        random.clone(),
        &events::Metrics::register(&mut metrics),
    );
    let process = Process { clients, clock, random, events, shutdown };

    let ended_working = Shutdown::new();
    let write_events = writer.run(&ended_working, LAST_EVENTS);
    let work = async {
        let ended = work_while_configured(&config, &process, &mut metrics).await;
        ended_working.trigger();
        ended
    };
    let (ended, ()) = tokio::join!(work, write_events);
    ended
}

/// Works, and follows the files of the client's configuration meanwhile.
async fn work_while_configured(
    config: &Config,
    process: &Process,
    metrics: &mut MetricsRegistry,
) -> anyhow::Result<()> {
    let reload = async {
        process.clients.reload_on_change(&process.shutdown).await;
        // It ends with the shutdown; the work then still has its lease to release.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        ended = lead_when_elected(config, process, metrics) => ended,
        () = reload => Ok(()),
    }
}

/// Prepares everything that a standby may prepare, and waits for its turn.
async fn lead_when_elected(
    config: &Config,
    process: &Process,
    metrics: &mut MetricsRegistry,
) -> anyhow::Result<()> {
    let Process { clients, shutdown, .. } = process;
    if !wait_for_api_server(&clients.named("startup").build(), &process.random, shutdown).await {
        return Ok(());
    }
    let candidate = Candidate::new(config.election.as_ref(), process, metrics)?;
    let cluster = cluster::identify(&clients.named("cluster-identity").build(), &config.cluster_name).await;
    let surroundings = Surroundings::new(cluster, process, candidate.leadership());
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
