//! The flags of the route controller.

use clap::Args;
use controller_kit::flags::{GoDuration, boolean};

/// Flags of the route controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct RouteOptions {
    /// Should CIDRs allocated by --allocate-node-cidrs be configured on the cloud provider.
    #[arg(long, default_value = "true", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub configure_cloud_routes: bool,

    /// The period for comparing all routes with the cloud. Changes of nodes are followed at once, whatever this says.
    #[arg(long, default_value = "5m0s", value_name = "DURATION")]
    pub route_reconciliation_period: GoDuration,
}
