//! The flags of node IPAM; those about networks are in `networks.rs`.

use clap::Args;
use cloud_controllers::node_ipam::Typed;

use super::networks::NetworkOptions;

/// Flags of node IPAM.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node-ipam-controller flags")]
pub struct NodeIpamOptions {
    /// CIDR range for Services in the cluster, or one of each family: no node gets a block of it. Needs
    /// --allocate-node-cidrs.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CIDR,...")]
    pub service_cluster_ip_range: String,

    /// Mask size for node CIDRs in a cluster of one family. 0 for 24 for IPv4 and 64 for IPv6.
    #[arg(long, default_value_t = 0, value_name = "BITS")]
    pub node_cidr_mask_size: u8,

    /// Mask size for IPv4 node CIDRs in a cluster of both families. 0 for 24.
    #[arg(long, default_value_t = 0, value_name = "BITS")]
    pub node_cidr_mask_size_ipv4: u8,

    /// Mask size for IPv6 node CIDRs in a cluster of both families. 0 for 64.
    #[arg(long, default_value_t = 0, value_name = "BITS")]
    pub node_cidr_mask_size_ipv6: u8,
}

impl NodeIpamOptions {
    /// What was typed, for the controller to make sense of: what is wrong with it costs node IPAM, and nothing else.
    pub(crate) fn typed(&self, networks: &NetworkOptions) -> Typed {
        Typed {
            allocate: networks.allocate_node_cidrs,
            allocator: networks.cidr_allocator_type.clone(),
            cluster_cidr: networks.cluster_cidr.clone(),
            service_range: self.service_cluster_ip_range.clone(),
            mask: self.node_cidr_mask_size,
            mask_ipv4: self.node_cidr_mask_size_ipv4,
            mask_ipv6: self.node_cidr_mask_size_ipv6,
        }
    }
}
