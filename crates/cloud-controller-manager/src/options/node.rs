//! The flags of the node controller.

use clap::{Args, ValueEnum};
use cloud_controllers::node::Settings;
use cloud_controllers::node::addresses::Nets;
use cloud_controllers::node::labels::Policy;
use controller_kit::flags::GoDuration;
use ipnet::IpNet;

/// Flags of the node controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cloud-node-controller flags")]
pub struct NodeOptions {
    /// Number of nodes that are initialised at once. Nodes that join together share their questions to the cloud, so
    /// that more workers do not mean more cloud calls.
    #[arg(long, default_value_t = 64, value_name = "NUMBER")]
    pub concurrent_node_syncs: i32,

    /// Number of nodes that are written at once when all nodes are compared with the cloud. 0 for the value of
    /// --concurrent-node-syncs.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub concurrent_node_status_updates: i32,

    /// What becomes of the zone, region, type and additional labels of a node after it was initialised: set-once leaves
    /// them as they are, as the Go implementation does; reconcile keeps them as the cloud says.
    #[arg(long, value_enum, default_value_t = LabelPolicy::SetOnce, value_name = "POLICY")]
    pub node_label_policy: LabelPolicy,

    /// Networks (CIDRs, separated by commas) that the IP addresses of nodes are taken from, whatever else the cloud knows
    /// of a machine. Empty for all.
    #[arg(long, value_delimiter = ',', value_name = "CIDR,...")]
    pub node_address_cidrs: Vec<IpNet>,

    /// Networks (CIDRs, separated by commas) that no IP address of a node is taken from: those of a container network's
    /// own interfaces, for example.
    #[arg(long, value_delimiter = ',', value_name = "CIDR,...")]
    pub node_address_excluded_cidrs: Vec<IpNet>,

    /// How long a node that could not be initialised waits at most before the next try.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub node_sync_retry_max: GoDuration,

    /// Specifies how often the controller compares all nodes with the cloud.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", help_heading = "Misc flags")]
    pub node_status_update_frequency: GoDuration,
}

/// What becomes of a node's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabelPolicy {
    /// They are left as they are.
    SetOnce,
    /// They are kept as the cloud says.
    Reconcile,
}

impl NodeOptions {
    /// The controller's settings, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<String>> {
        let mut errors = Vec::new();
        let workers = usize::try_from(self.concurrent_node_syncs).ok().filter(|workers| *workers > 0);
        if workers.is_none() {
            let given = self.concurrent_node_syncs;
            errors.push(format!("--concurrent-node-syncs={given}: at least one worker is needed"));
        }
        let writers = usize::try_from(self.concurrent_node_status_updates).ok();
        if writers.is_none() {
            let given = self.concurrent_node_status_updates;
            errors.push(format!("--concurrent-node-status-updates={given} must not be negative"));
        }
        for (flag, value) in [
            ("--node-status-update-frequency", self.node_status_update_frequency),
            ("--node-sync-retry-max", self.node_sync_retry_max),
        ] {
            if value.get().is_zero() {
                errors.push(format!("{flag} must be greater than zero"));
            }
        }
        let (Some(workers), Some(writers), true) = (workers, writers, errors.is_empty()) else {
            return Err(errors);
        };
        let defaults = Settings::default();
        let retry_max = self.node_sync_retry_max.get();
        Ok(Settings {
            workers,
            waiting: defaults.waiting,
            nets: Nets {
                only: self.node_address_cidrs.clone(),
                except: self.node_address_excluded_cidrs.clone(),
            },
            refresh_period: self.node_status_update_frequency.get(),
            refresh_writers: if writers == 0 { workers } else { writers },
            labels: match self.node_label_policy {
                LabelPolicy::SetOnce => Policy::SetOnce,
                LabelPolicy::Reconcile => Policy::Reconcile,
            },
            retry_base: defaults.retry_base.min(retry_max),
            retry_max,
            drain: defaults.drain,
        })
    }
}
