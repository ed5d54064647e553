//! Who leads.

use clap::Args;
use cloud_provider::well_known::leases;
use controller_kit::flags::{GoDuration, boolean};

/// Flags about leader election.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct LeaderOptions {
    /// Start a leader election client and gain leadership before executing the main loop. Enable this when running
    /// replicated components for high availability.
    #[arg(long, default_value = "true", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub leader_elect: bool,

    /// How long non-leaders wait after the last renewal they saw before they try to take over. Only applicable if leader
    /// election is enabled.
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    pub leader_elect_lease_duration: GoDuration,

    /// How long the leader keeps trying to renew before it stops leading. Must be less than the lease duration.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub leader_elect_renew_deadline: GoDuration,

    /// How long to wait between tries to acquire and renew.
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    pub leader_elect_retry_period: GoDuration,

    /// The type of resource object that is used for locking. Only 'leases' is supported.
    #[arg(long, default_value = "leases", value_name = "TYPE")]
    pub leader_elect_resource_lock: String,

    /// The name of the resource object that is used for locking.
    #[arg(long, default_value = leases::MANAGER, value_name = "NAME")]
    pub leader_elect_resource_name: String,

    /// The namespace of the resource object that is used for locking.
    #[arg(long, default_value = leases::NAMESPACE, value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: String,
}
