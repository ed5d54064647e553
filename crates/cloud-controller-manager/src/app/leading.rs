//! What a leader does: it begins its controllers, and ends them before it gives the lease back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use cloud_controllers::around::gate::Mode;
use cloud_controllers::around::{Budget, DecisionLog, LeaseGate, Loader, Surrounded, loader, surround};
use cloud_provider::{Cloud, ClusterIdentity};
use controller_kit::leader::{Ended, Leadership};
use controller_kit::lifecycle::{self, Group, Lifecycle, Shutdown};
use controller_kit::log::report;
use controller_kit::serve::health::Scope;
use tokio::time::sleep;

use super::Process;
use super::caches::Caches;
use super::candidate::Candidate;
use super::controllers::{Begun, Health, Means, Prepared, Row};
use super::credentials::Credentials;
use super::provider_context::Surroundings;
use crate::command::UPSTREAM_NAME;
use crate::config::migration::Place;
use crate::config::{Election, LeaseName};

/// How long controllers may take to finish what they are doing.
const FINISH: Duration = Duration::from_secs(7);

/// How long the leader may take to end: its controllers, then the lease.
const RELEASE: Duration = Duration::from_secs(9);

/// What the controllers of a leader share.
#[derive(Clone)]
pub(super) struct Leading {
    process: Arc<Process>,
    caches: Caches,
    cluster: ClusterIdentity,
    cloud: Surrounded,
    loader: Option<Loader>,
    gate: LeaseGate,
    credentials: Option<Arc<Credentials>>,
}

impl Leading {
    pub(super) fn new(
        process: &Arc<Process>,
        caches: Caches,
        cluster: ClusterIdentity,
        cloud: Cloud,
        credentials: Option<Credentials>,
        leadership: Leadership,
    ) -> Self {
        let (config, metrics) = (&process.config, &process.families.around);
        let budget = Budget::new(&cloud.name, config.budget.clone(), metrics);
        let log = DecisionLog::new(Arc::clone(&process.clock));
        let gate = LeaseGate::new(&cloud.name, leadership, Mode::Act, log, metrics);
        let cloud = surround(cloud, budget, config.deadlines, metrics);
        let loader = cloud.loader(loader::Settings::default());
        let credentials = credentials.map(Arc::new);
        Self { process: Arc::clone(process), caches, cluster, cloud, loader, gate, credentials }
    }

    /// The same, for controllers that are led under another lease.
    fn under(&self, leadership: Leadership) -> Self {
        let (log, metrics) = (self.gate.log().clone(), &self.process.families.around);
        let gate =
            LeaseGate::new(self.process.config.provider.name, leadership, self.gate.mode(), log, metrics);
        Self { gate, ..self.clone() }
    }

    /// A controller's own client, with its own credentials where each has some.
    fn client(&self, row: &Row) -> kube::Client {
        let own = self.credentials.as_ref().and_then(|credentials| credentials.client(row.client));
        own.unwrap_or_else(|| self.process.clients.named(row.client).build())
    }

    fn means(&self, row: &'static Row, stop: Shutdown) -> Means {
        let process = &self.process;
        Means {
            config: Arc::clone(&process.config),
            client: self.client(row),
            nodes: self.caches.nodes.clone(),
            services: self.caches.services.clone(),
            slices: self.caches.slices.clone(),
            cloud: self.cloud.clone(),
            loader: self.loader.clone(),
            gate: self.gate.clone(),
            cluster: self.cluster.clone(),
            events: process.events.clone(),
            clock: Arc::clone(&process.clock),
            random: process.random.clone(),
            queue_metrics: process.families.queue.clone(),
            worker_metrics: process.families.worker.clone(),
            health: Health::new(row.name, process.checks.clone()),
            stop,
        }
    }

    /// Works with these controllers until `stop` is triggered.
    async fn work(
        self: Arc<Self>,
        controllers: Vec<Prepared>,
        stop: &Shutdown,
    ) -> Result<(), lifecycle::Error> {
        let mut group = Group::new("controllers", FINISH);
        let mut delay = Duration::ZERO;
        for controller in controllers {
            let (leading, after) = (Arc::clone(&self), delay);
            group = group.task(controller.row.name, move |task| async move {
                task.ready.complete();
                if task.stop.or_stop(sleep(after)).await.is_some() {
                    leading.run(controller, task.stop).await;
                }
                Ok::<(), Infallible>(())
            });
            delay += self.process.random.jitter(self.process.config.start_interval, 1.0);
        }
        let mut lifecycle = Lifecycle::new(stop.clone());
        lifecycle.start(group).await;
        lifecycle.run().await.map(drop)
    }

    /// Runs one controller; what keeps it from running is said, and harms nobody else.
    async fn run(&self, controller: Prepared, stop: Shutdown) {
        let (row, families) = (controller.row, &self.process.families);
        match (controller.begin)(self.means(row, stop.clone())) {
            Ok(Begun::Running(work)) => {
                tracing::info!(controller = row.name, "Started {:?}", row.name);
                let _running = families.process.running(row.running_name, UPSTREAM_NAME);
                work.await;
            }
            Ok(Begun::Skipped(why)) => {
                tracing::warn!(controller = row.name, "Skipping {:?}: {why}", row.name);
                families.does_not_run(row.name, "skipped");
                self.process.checks.remove(row.name);
                stop.wait().await;
            }
            Err(error) => {
                let why = report(error.as_ref()).to_string();
                tracing::error!(controller = row.name, why, "Error starting {:?}", row.name);
                families.does_not_run(row.name, "failed");
                let failing = move || Err(format!("not started: {why}").into());
                self.process.checks.add(Scope::Ready, row.name, failing);
                stop.wait().await;
            }
        }
    }
}

/// Waits for its turn, leads, and gives the lease back.
pub(super) fn group(
    candidate: Candidate,
    surroundings: Arc<Surroundings>,
    leading: Leading,
    controllers: Vec<Prepared>,
) -> anyhow::Result<Group> {
    watched(&leading.process, "leaderElection", &candidate);
    let (controllers, migrated) = placed(&leading.process, controllers);
    let second = migration_candidate(&leading.process)?;
    let group = Group::new("leadership", RELEASE).task("election", move |task| async move {
        task.ready.complete();
        let stop = task.stop;
        let ended = candidate
            .run(&stop, |_| async {
                surroundings.announce_leadership();
                let own =
                    async { Arc::new(leading.clone()).work(controllers, &stop).await.map_err(Into::into) };
                tokio::try_join!(own, migrate(second, &leading, migrated, &stop)).map(drop)
            })
            .await;
        finished(ended)
    });
    Ok(group)
}

/// Those that are led under the process' own lease, and those under the second one of a migration.
fn placed(process: &Process, controllers: Vec<Prepared>) -> (Vec<Prepared>, Vec<Prepared>) {
    let Some(migration) = &process.config.migration else { return (controllers, Vec::new()) };
    let (mut own, mut migrated) = (Vec::new(), Vec::new());
    for controller in controllers {
        let name = controller.row.name;
        match migration.place(name) {
            Place::Main => own.push(controller),
            Place::Migration => migrated.push(controller),
            Place::Elsewhere => {
                tracing::info!(
                    controller = name,
                    "Skipping {name:?}: the leader migration gives it to another component"
                );
                process.families.does_not_run(name, "migrated");
            }
        }
    }
    (own, migrated)
}

fn migration_candidate(process: &Process) -> anyhow::Result<Option<Candidate>> {
    let (Some(election), Some(migration)) = (&process.config.election, &process.config.migration) else {
        return Ok(None);
    };
    let lease = LeaseName { name: migration.leader_name.clone(), ..election.lease.clone() };
    let second = Election { lease, ..election.clone() };
    let candidate = Candidate::new(Some(&second), process)?;
    watched(process, "leaderElection-migration", &candidate);
    Ok(Some(candidate))
}

/// Stands for the lease of the migration too, and leads what is migrated once it holds both.
async fn migrate(
    candidate: Option<Candidate>,
    leading: &Leading,
    controllers: Vec<Prepared>,
    stop: &Shutdown,
) -> anyhow::Result<()> {
    let Some(candidate) = candidate else { return Ok(()) };
    tracing::info!("Standing for the lease of the leader migration");
    let leading = Arc::new(leading.under(candidate.leadership()));
    let work = |_| async { leading.work(controllers, stop).await.map_err(Into::into) };
    finished(candidate.run(stop, work).await)
}

fn finished(ended: Ended<anyhow::Result<()>>) -> anyhow::Result<()> {
    match ended {
        Ended::Lost => bail!("leader election lost: another process may lead by now"),
        Ended::NeverLed => Ok(()),
        Ended::Finished(worked) => worked,
    }
}

/// A check that fails once a lease that is held is not renewed in time.
fn watched(process: &Process, name: &str, candidate: &Candidate) {
    if let Candidate::ForLease(elector) = candidate {
        process.checks.add(Scope::Live, name, elector.leadership());
    }
}
