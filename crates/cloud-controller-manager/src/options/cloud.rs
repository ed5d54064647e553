//! Which cloud, and how it is configured.

use std::path::PathBuf;

use clap::Args;

/// Flags about the cloud.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct CloudOptions {
    /// The provider for cloud services. Required.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub cloud_provider: String,

    /// The path to the cloud provider configuration file. Empty string for no configuration file.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,

    /// The instance prefix for the cluster.
    #[arg(long, default_value = cloud_provider::ClusterIdentity::DEFAULT_NAME, value_name = "NAME")]
    pub cluster_name: String,
}
