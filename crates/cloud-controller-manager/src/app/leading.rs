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
use super::provider_context::Surroundings;
use crate::command::UPSTREAM_NAME;

/// How long controllers may take to finish what they are doing.
const FINISH: Duration = Duration::from_secs(7);

/// How long the leader may take to end: its controllers, then the lease.
const RELEASE: Duration = Duration::from_secs(9);

/// What the controllers of a leader share.
pub(super) struct Leading {
    process: Arc<Process>,
    caches: Caches,
    cluster: ClusterIdentity,
    cloud: Surrounded,
    loader: Option<Loader>,
    gate: LeaseGate,
}

impl Leading {
    pub(super) fn new(
        process: &Arc<Process>,
        caches: Caches,
        cluster: ClusterIdentity,
        cloud: Cloud,
        leadership: Leadership,
    ) -> Self {
        let (config, metrics) = (&process.config, &process.families.around);
        let budget = Budget::new(&cloud.name, config.budget.clone(), metrics);
        let log = DecisionLog::new(Arc::clone(&process.clock));
        let gate = LeaseGate::new(&cloud.name, leadership, Mode::Act, log, metrics);
        let cloud = surround(cloud, budget, config.deadlines, metrics);
        let loader = cloud.loader(loader::Settings::default());
        Self { process: Arc::clone(process), caches, cluster, cloud, loader, gate }
    }

    fn means(&self, row: &'static Row, stop: Shutdown) -> Means {
        let process = &self.process;
        Means {
            config: Arc::clone(&process.config),
            client: process.clients.named(row.client).build(),
            nodes: self.caches.nodes.clone(),
            services: self.caches.services.clone(),
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
    surroundings: Surroundings,
    leading: Leading,
    controllers: Vec<Prepared>,
) -> Group {
    let checks = leading.process.checks.clone();
    if let Candidate::ForLease(elector) = &candidate {
        checks.add(Scope::Live, "leaderElection", elector.leadership());
    }
    let leading = Arc::new(leading);
    Group::new("leadership", RELEASE).task("election", move |task| async move {
        task.ready.complete();
        let stop = task.stop;
        let ended = candidate
            .run(&stop, |_| async {
                surroundings.announce_leadership();
                leading.work(controllers, &stop).await
            })
            .await;
        match ended {
            Ended::Lost => bail!("leader election lost: another process may lead by now"),
            Ended::NeverLed => Ok(()),
            Ended::Finished(worked) => worked.map_err(Into::into),
        }
    })
}
