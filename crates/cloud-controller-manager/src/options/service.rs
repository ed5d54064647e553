//! The flags of the service controller: how many at once, whose Services, and what becomes of what is not as it should be.

use clap::{Args, ValueEnum};
use cloud_controllers::service::{Drift, Settings, Sweep, Unsupported};
use controller_kit::flags::GoDuration;

use super::listed;

/// Flags of the service controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service controller flags")]
pub struct ServiceOptions {
    /// The number of new and edited services that are worked on at once. As many others are: those that follow nodes, go,
    /// or are compared. What limits the calls to the cloud is --cloud-calls-in-flight.
    #[arg(long, default_value_t = 32, value_name = "NUMBER")]
    pub concurrent_service_syncs: i32,

    /// Values of spec.loadBalancerClass, separated by commas, that are served besides those that the provider owns.
    /// Services without a class always are.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "CLASS,...")]
    pub load_balancer_classes: Vec<String>,

    /// What becomes of a service that asks for something that the cloud's load balancers do not have: refuse makes and
    /// changes nothing and says so; warn says so and makes the rest.
    #[arg(long, value_enum, default_value_t = UnsupportedPolicy::Refuse, value_name = "POLICY")]
    pub service_unsupported_fields: UnsupportedPolicy,

    /// What becomes of a load balancer that somebody changed in the cloud: repair it, report it in an event, or do not look.
    #[arg(long, value_enum, default_value_t = DriftPolicy::Repair, value_name = "POLICY")]
    pub load_balancer_drift: DriftPolicy,

    /// In what time every load balancer is compared with the cloud once.
    #[arg(long, default_value = "30m0s", value_name = "DURATION")]
    pub load_balancer_drift_period: GoDuration,

    /// The least time between two such comparisons.
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    pub load_balancer_drift_pace: GoDuration,

    /// What becomes of load balancers in the cloud that are provably this cluster's and whose service is gone: remove
    /// them after a quarantine, report them in log and metrics, or do not look.
    #[arg(long, value_enum, default_value_t = OrphanPolicy::Remove, value_name = "POLICY")]
    pub load_balancer_orphans: OrphanPolicy,

    /// How often they are looked for.
    #[arg(long, default_value = "10m0s", value_name = "DURATION")]
    pub load_balancer_orphan_period: GoDuration,

    /// For how long a load balancer must have been without its service before it is removed.
    #[arg(long, default_value = "1h0m0s", value_name = "DURATION")]
    pub load_balancer_orphan_quarantine: GoDuration,

    /// How many of them are removed in one round.
    #[arg(long, default_value_t = 10, value_name = "NUMBER")]
    pub load_balancer_orphans_at_most: usize,

    /// Changes of nodes reach the load balancers once no node changed for this long, and after five times as long at the
    /// latest.
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    pub service_node_quiet_period: GoDuration,

    /// How long a service whose load balancer could not be made waits at most before the next try.
    #[arg(long, default_value = "5m0s", value_name = "DURATION")]
    pub service_sync_retry_max: GoDuration,
}

/// What becomes of a service that asks for what the cloud does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnsupportedPolicy {
    /// Nothing is made.
    Refuse,
    /// The rest is made.
    Warn,
}

/// What becomes of a load balancer that was changed in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriftPolicy {
    /// It is put right.
    Repair,
    /// It is reported.
    Report,
    /// Nobody looks.
    Off,
}

/// What becomes of a load balancer whose service is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrphanPolicy {
    /// It is removed.
    Remove,
    /// It is reported.
    Report,
    /// Nobody looks.
    Off,
}

impl ServiceOptions {
    /// The controller's settings, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<String>> {
        let mut errors = Vec::new();
        let workers = usize::try_from(self.concurrent_service_syncs).ok().filter(|workers| *workers > 0);
        if workers.is_none() {
            let given = self.concurrent_service_syncs;
            errors.push(format!("--concurrent-service-syncs={given}: at least one worker is needed"));
        }
        for (flag, value) in [
            ("--load-balancer-drift-period", self.load_balancer_drift_period),
            ("--load-balancer-drift-pace", self.load_balancer_drift_pace),
            ("--load-balancer-orphan-period", self.load_balancer_orphan_period),
            ("--service-sync-retry-max", self.service_sync_retry_max),
        ] {
            if value.get().is_zero() {
                errors.push(format!("{flag} must be greater than zero"));
            }
        }
        let (Some(workers), true) = (workers, errors.is_empty()) else { return Err(errors) };
        let defaults = Settings::default();
        let (quiet, retry_max) = (self.service_node_quiet_period.get(), self.service_sync_retry_max.get());
        Ok(Settings {
            workers,
            upkeep_workers: workers,
            classes: listed(&self.load_balancer_classes),
            unsupported: match self.service_unsupported_fields {
                UnsupportedPolicy::Refuse => Unsupported::Refuse,
                UnsupportedPolicy::Warn => Unsupported::Warn,
            },
            drift: match self.load_balancer_drift {
                DriftPolicy::Repair => Drift::Repair,
                DriftPolicy::Report => Drift::Report,
                DriftPolicy::Off => Drift::Off,
            },
            drift_period: self.load_balancer_drift_period.get(),
            drift_pace: self.load_balancer_drift_pace.get(),
            sweep: match self.load_balancer_orphans {
                OrphanPolicy::Remove => Sweep::Remove,
                OrphanPolicy::Report => Sweep::Report,
                OrphanPolicy::Off => Sweep::Off,
            },
            sweep_period: self.load_balancer_orphan_period.get(),
            quarantine: self.load_balancer_orphan_quarantine.get(),
            sweep_at_most: self.load_balancer_orphans_at_most,
            quiet,
            quiet_at_most: quiet * 5,
            retry_base: defaults.retry_base.min(retry_max),
            retry_max,
            drain: defaults.drain,
        })
    }
}
