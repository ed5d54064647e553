//! What applies to the process as a whole.

use std::path::PathBuf;

use clap::Args;
use controller_kit::flags::{GoDuration, boolean};

/// Flags about the process as a whole.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct GenericOptions {
    /// A YAML file whose keys are names of flags without the dashes: what it says counts where the command line says
    /// nothing. Lists and maps may be written as such.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// A set of key=value pairs that describe feature gates for alpha and experimental features. May be given more than
    /// once. All gates of the Go implementation are known; those that mean nothing here are accepted without effect.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "GATE=BOOL,...")]
    pub feature_gates: Vec<String>,

    /// Accepted without effect: caches are kept true by watches and controllers repeat their work themselves.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION")]
    pub min_resync_period: GoDuration,

    /// Accepted without effect, as in the Go implementation.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub external_cloud_volume_plugin: String,

    /// Accepted without effect.
    #[arg(long, default_value = "0s", value_name = "DURATION", hide = true)]
    pub node_sync_period: GoDuration,

    /// If true, use individual service account credentials for each controller.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub use_service_account_credentials: bool,

    /// --version and --version=raw print the version and end; --version=vX.Y.Z sets the version that is reported.
    #[arg(long, default_value = "false", hide_default_value = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|raw|vX.Y.Z", help_heading = "Global flags")]
    pub version: String,
}
