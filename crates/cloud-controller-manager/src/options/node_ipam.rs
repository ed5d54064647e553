//! The flags of node IPAM, some of which the route controller reads too.

use clap::Args;
use controller_kit::flags::boolean;

/// Flags of node IPAM.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct NodeIpamOptions {
    /// Should CIDRs for pods be allocated and set on the cloud provider. Requires --cluster-cidr.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub allocate_node_cidrs: bool,

    /// Type of CIDR allocator to use. Only RangeAllocator exists.
    #[arg(long, default_value = "RangeAllocator", value_name = "TYPE")]
    pub cidr_allocator_type: String,

    /// CIDR range for pods in the cluster; two, separated by a comma, for both families. Only used when
    /// --allocate-node-cidrs is true.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CIDR,...")]
    pub cluster_cidr: String,
}
