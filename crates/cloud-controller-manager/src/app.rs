//! The application: client, serving, cloud, caches, election, controllers, and an orderly end in reverse.
//!
//! What is not there yet is waited for; what cannot work at all is named and ends the process; a controller that cannot
//! work is named and skipped. Losing the lease ends the process, because what it knows may by then be out of date.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cloud_provider::Cloud;
use cloud_provider::well_known::event_sources;
use controller_kit::client::{Clients, wait_for_api_server};
use controller_kit::clock::{SharedClock, SystemClock};
use controller_kit::events::{self, Recorder};
use controller_kit::lifecycle::{Group, Lifecycle, Shutdown};
use controller_kit::log;
use controller_kit::metrics::{Catalogue, Declared, Registrar as _};
use controller_kit::random::Randomness;
use controller_kit::serve::health::{Checks, Scope, Slis};

use crate::command::UPSTREAM_NAME;
use crate::config::Config;
use crate::rbac::{self, Needs};

mod caches;
mod candidate;
mod cloud;
mod cluster;
mod configz;
pub mod controllers;
mod credentials;
mod families;
mod leading;
mod provider_context;
mod provider_metrics;
mod self_check;
mod serving;
mod wire;

use self::caches::Caches;
use self::candidate::Candidate;
use self::cloud::Built;
use self::cloud::current::Current;
pub(crate) use self::cloud::reload as cloud_config;
use self::cloud::reload::Reloading;
use self::controllers::Prepared;
use self::credentials::Credentials;
use self::families::Families;
use self::leading::Leading;
use self::provider_context::Surroundings;
pub(crate) use self::provider_context::bare as bare_context;
use self::provider_metrics::ProviderMetrics;

/// How long the last Events may take to be written once the work has ended.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// What every part of the process shares.
struct Process {
    config: Arc<Config>,
    clients: Clients,
    clock: SharedClock,
    random: Randomness,
    events: Recorder,
    families: Families,
    provider_metrics: ProviderMetrics,
    checks: Checks,
    shutdown: Shutdown,
}

/// Runs until SIGTERM or SIGINT, or until the lease is lost.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Another part of the process may have chosen already; what counts is that there is exactly one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clock: SharedClock = Arc::new(SystemClock);
    let verbosity = log::init(&config.logging, Arc::clone(&clock))?;
    tracing::info!(version = config.version, provider = config.provider.name, "Starting nephos");
    for remark in &config.remarks {
        tracing::warn!("{remark}");
    }
    for (name, value) in &config.flags {
        tracing::info!(v = 1, "FLAG: --{name}={value:?}");
    }

    let shutdown = Shutdown::new();
    shutdown.trigger_on_signals().context("listening for SIGTERM and SIGINT")?;
    let random = Randomness::from_os();
    let mut metrics = Catalogue::default();
    let families = Families::register(&mut metrics, &config.version);
    let controllers = controllers::prepare(&config.controllers, &mut metrics);
    let provider_metrics = ProviderMetrics::beside(&metrics.take_declared());
    metrics.collector(Vec::new(), provider_metrics.clone());
    let clients = Clients::connect(config.client.clone(), random.clone(), families.client.clone()).await?;
    let (events, writer) = events::recorder(
        event_sources::MANAGER,
        clients.named("events").build(),
        Arc::clone(&clock),
        random.clone(),
        &families.events,
    );
    let checks = Checks::new();
    let process = Arc::new(Process {
        config: Arc::new(config),
        clients,
        clock,
        random,
        events,
        families,
        provider_metrics,
        checks,
        shutdown: shutdown.clone(),
    });

    let mut lifecycle = Lifecycle::new(shutdown.clone());
    process.checks.add(Scope::Ready, "startup", lifecycle.readiness());
    process.checks.add(Scope::Ready, "shutdown", shutdown.clone());
    lifecycle.start(foundation(&process, writer)).await;
    let started = start(&process, &mut lifecycle, controllers, metrics, verbosity).await;
    if started.is_err() {
        shutdown.trigger();
    }
    let ended = lifecycle.run().await;
    started?;
    ended?;
    tracing::info!("Stopped");
    Ok(())
}

/// Every metric family by whose it is, under the names that a scraper finds.
pub(crate) fn metric_families() -> Vec<(&'static str, Vec<Declared>)> {
    let mut catalogue = Catalogue::default();
    Families::register(&mut catalogue, "");
    let mut all = vec![(UPSTREAM_NAME, catalogue.take_declared())];
    for row in controllers::TABLE {
        let _ = (row.prepare)(&mut catalogue);
        all.push((row.name, catalogue.take_declared()));
    }
    Slis::default().register(&mut catalogue);
    all.push(("/metrics/slis", catalogue.take_declared()));
    all
}

/// What everything else stands on, and what ends last.
fn foundation(process: &Arc<Process>, writer: events::Writer) -> Group {
    let clients = process.clients.clone();
    Group::new("foundation", LAST_EVENTS + Duration::from_secs(1))
        .task("events", |task| async move {
            writer.run(&task.stop, LAST_EVENTS).await;
            Ok::<(), Infallible>(())
        })
        .task("client-configuration", |task| async move {
            clients.reload_on_change(&task.stop).await;
            Ok::<(), Infallible>(())
        })
}

/// Starts one part after the other: serving, then all that a standby may prepare, then the wait for its turn.
async fn start(
    process: &Arc<Process>,
    lifecycle: &mut Lifecycle,
    controllers: Vec<Prepared>,
    metrics: Catalogue,
    verbosity: log::Handle,
) -> anyhow::Result<()> {
    let Process { config, clients, shutdown, .. } = &**process;
    let starting = lifecycle.readiness().handle("manager");
    let mut trust_is_due = false;
    if let Some(port) = serving::open(process, metrics, verbosity).await? {
        trust_is_due = port.trust_is_due;
        lifecycle.start(port.group).await;
    }
    if !wait_for_api_server(&clients.named("startup").build(), &process.random, shutdown).await {
        return Ok(());
    }
    if trust_is_due {
        serving::insist_on_trust(process).await?;
    }
    let candidate = Candidate::new(config.election.as_ref(), process)?;
    let caches = Caches::new(process);
    let cluster = cluster::identify(&clients.named("cluster-identity").build(), &config.cluster_name).await;
    let surroundings = Arc::new(Surroundings::new(cluster.clone(), process, &caches, candidate.leadership()));
    let (cloud, following) = build_cloud(process, &surroundings).await?;
    let controllers = controllers::fitting(controllers, &cloud, process);
    let endpoints = controllers::need_endpoints(&controllers, &cloud);
    self_check::run(process, &controllers, endpoints).await;
    let credentials = credentials(process, &controllers).await?;
    if let Some(credentials) = &credentials {
        lifecycle.start(credentials.group(process)).await;
    }
    lifecycle.start(following).await;
    lifecycle.start(caches.group(&controllers, endpoints)).await;
    let leading = Leading::new(process, caches, cluster, cloud, credentials, candidate.leadership());
    lifecycle.start(leading::group(candidate, surroundings, leading, controllers)?).await;
    starting.complete();
    Ok(())
}

/// Builds the cloud, and what follows its config.
async fn build_cloud(
    process: &Arc<Process>,
    surroundings: &Arc<Surroundings>,
) -> anyhow::Result<(Cloud, Group)> {
    let file = cloud::read_config(process)?;
    let Built { cloud, end } = cloud::build_from(process, surroundings, file.clone()).await?;
    cloud::say_what_it_can_do(&cloud);
    let current = Current::new(cloud);
    let (process, surroundings) = (Arc::clone(process), Arc::clone(surroundings));
    let reloading = Reloading { process, surroundings, current: current.clone(), end };
    let period = reloading.process.config.reload_period;
    let group = Group::new("cloud-config", Duration::from_secs(1)).task("reload", move |task| async move {
        task.ready.complete();
        match file.zip(period) {
            Some((in_force, period)) => reloading.follow(in_force, period, &task.stop).await,
            None => task.stop.wait().await,
        }
        Ok::<(), Infallible>(())
    });
    Ok((current.cloud(), group))
}

/// The accounts of these controllers, if each is to have its own.
async fn credentials(process: &Process, controllers: &[Prepared]) -> anyhow::Result<Option<Credentials>> {
    if !process.config.own_accounts {
        return Ok(None);
    }
    let rows = controllers.iter().map(|controller| controller.row).collect();
    let accounts = rbac::accounts(&Needs::of(&process.config, rows));
    Credentials::prepare(process, &accounts).await.map(Some)
}
