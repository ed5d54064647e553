//! The flags of the service controller.

use clap::Args;

/// Flags of the service controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service-lb-controller flags")]
pub struct ServiceOptions {
    /// Number of new and edited Services that are worked on at once. What the cloud can take is bounded by
    /// --cloud-calls-in-flight.
    #[arg(long, default_value_t = 32, value_name = "NUMBER")]
    pub concurrent_service_syncs: i32,
}
