//! The flags about pod networks that the route controller and node IPAM share.

use clap::Args;
use controller_kit::flags::{GoDuration, boolean};

/// Flags about the cluster's networks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct NetworkOptions {
    /// Should CIDRs for pods be allocated and set on the nodes by this manager. Needs --cluster-cidr.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub allocate_node_cidrs: bool,

    /// Type of CIDR allocator to use. RangeAllocator is the only one left.
    #[arg(long, default_value = cloud_controllers::node_ipam::settings::RANGE_ALLOCATOR, value_name = "TYPE")]
    pub cidr_allocator_type: String,

    /// CIDR range for pods in the cluster; two, of different families and separated by a comma, for a cluster of both.
    /// Without it, neither node CIDRs are allocated nor routes configured, and a warning says so.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CIDR,...")]
    pub cluster_cidr: String,

    /// Should the route table of the cloud lead to the pod CIDRs of the nodes. Needs --cluster-cidr and a cloud that has
    /// routes; who sets the nodes' pod CIDRs does not matter.
    #[arg(long, default_value = "true", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub configure_cloud_routes: bool,

    /// The period for comparing the whole route table with the nodes though nothing changed. Changes of nodes are acted
    /// upon at once, whatever this says.
    #[arg(long, default_value = "5m0s", value_name = "DURATION")]
    pub route_reconciliation_period: GoDuration,
}
