//! Follows the cloud config: a new version that works replaces the cloud in force, one that does not is said and left.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudConfig, ConfigFile};
use controller_kit::lifecycle::Shutdown;
use controller_kit::log::report;
use controller_kit::metrics::Registrar;
use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::current::Current;
use super::{Built, build_from};
use crate::app::Process;
use crate::app::provider_context::Surroundings;

/// The reason of the Event that tells that a new cloud config is in force.
pub(crate) const RELOADED: &str = "CloudConfigReloaded";

/// The reason of the Event that tells that a new cloud config cannot be used.
pub(crate) const REJECTED: &str = "CloudConfigRejected";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// What is counted; clones count together.
#[derive(Debug, Clone, Default)]
pub(in crate::app) struct Metrics {
    reloads: Family<ByResult, Counter>,
    stale: Gauge,
}

impl Metrics {
    pub(in crate::app) fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self::default();
        registry.family(
            "nephos_cloud_config_reloads",
            "New versions of the cloud config that were found, by what became of them: accepted, rejected",
            &["result"],
            metrics.reloads.clone(),
        );
        registry.family(
            "nephos_cloud_config_stale",
            "1 while the cloud config on disk cannot be used and an older one is in force",
            &[],
            metrics.stale.clone(),
        );
        metrics
    }

    fn ended(&self, result: &'static str) {
        self.reloads.get_or_create(&ByResult { result }).inc();
        self.stale.set(i64::from(result == "rejected"));
    }
}

/// The cloud in force and the file it was made from.
pub(in crate::app) struct Reloading {
    pub(in crate::app) process: Arc<Process>,
    pub(in crate::app) surroundings: Arc<Surroundings>,
    pub(in crate::app) current: Current,
    /// Ends the background work of the cloud in force.
    pub(in crate::app) end: Shutdown,
}

impl Reloading {
    /// Looks at the file every `period` until `stop` is triggered.
    pub(in crate::app) async fn follow(mut self, in_force: CloudConfig, period: Duration, stop: &Shutdown) {
        let mut file = ConfigFile::new(in_force);
        let mut unreadable = false;
        while stop.or_stop(tokio::time::sleep(period)).await.is_some() {
            match file.look() {
                Ok(None) => unreadable = false,
                Ok(Some(offered)) => {
                    unreadable = false;
                    let Some(tried) = stop.or_stop(self.try_out(&offered)).await else { return };
                    match tried {
                        Ok(()) => file.accept(offered),
                        Err(why) => {
                            self.rejected(&why);
                            file.refuse(offered);
                        }
                    }
                }
                Err(error) if !unreadable => {
                    unreadable = true;
                    self.rejected(&report(&error).to_string());
                }
                Err(_) => {}
            }
        }
    }

    async fn try_out(&mut self, offered: &CloudConfig) -> Result<(), String> {
        let Built { cloud, end } = build_from(&self.process, &self.surroundings, Some(offered.clone()))
            .await
            .map_err(|error| report(error.as_ref()).to_string())?;
        if let Err(why) = self.current.replace(cloud) {
            end.trigger();
            return Err(why.to_owned());
        }
        // From here on nobody asks the old cloud; calls that are under way hold on to it until they are done.
        std::mem::replace(&mut self.end, end).trigger();
        self.process.families.cloud_config.ended("accepted");
        tracing::info!(file = %offered.path().display(), "A new version of the cloud config is in force");
        self.process.events.normal(&self.about(), RELOADED, "A new version of the cloud config is in force");
        Ok(())
    }

    fn rejected(&self, why: &str) {
        self.process.families.cloud_config.ended("rejected");
        tracing::error!(why, "The cloud config on disk cannot be used: the last good one stays in force");
        let message = format!(
            "The last good cloud config stays in force, because the one on disk cannot be used: {why}"
        );
        self.process.events.warning(&self.about(), REJECTED, message);
    }

    /// What the Events are about: the lease, which every administrator of this manager knows.
    fn about(&self) -> ObjectReference {
        crate::app::candidate::reference(&self.process.config.lease)
    }
}
