//! Which cloud, for which cluster, and how hard it may be worked.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use cloud_controllers::around::{Deadlines, budget};
use controller_kit::flags::{GoDuration, boolean};

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

    /// Start even if the cloud needs a cluster ID and none is set; what is ours can then not be told from others'.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL", hide = true)]
    pub allow_untagged_cloud: bool,

    /// How often the cloud provider configuration file is compared with the one in force. A new version that works
    /// replaces it without a restart; one that does not is reported and left. 0 to read it at start only.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub cloud_config_reload_period: GoDuration,

    /// How many calls to the cloud may be under way at once, for all controllers together. The number shrinks by itself when
    /// the cloud throttles.
    #[arg(long, default_value = "16", value_name = "NUMBER")]
    pub cloud_calls_in_flight: NonZeroUsize,

    /// How many of --cloud-calls-in-flight are kept free for what people wait for: new load balancers, routes, volumes.
    #[arg(long, default_value_t = 4, value_name = "NUMBER")]
    pub cloud_calls_kept_for_creates: usize,

    /// How long a call that only reads may take before it is given up.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub cloud_read_timeout: GoDuration,

    /// How long a call that changes something may take before it is given up; the next one finds out what it did.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub cloud_write_timeout: GoDuration,
}

impl CloudOptions {
    /// How many calls at once.
    pub(crate) fn budget(&self) -> budget::Settings {
        budget::Settings {
            slots: self.cloud_calls_in_flight,
            kept_for_creates: self.cloud_calls_kept_for_creates,
            ..budget::Settings::default()
        }
    }

    /// How long they may take.
    pub(crate) fn deadlines(&self) -> Result<Deadlines, Vec<String>> {
        let mut errors = Vec::new();
        for (flag, value) in [
            ("--cloud-read-timeout", self.cloud_read_timeout),
            ("--cloud-write-timeout", self.cloud_write_timeout),
        ] {
            if value.get().is_zero() {
                errors.push(format!("{flag} must be greater than zero"));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let read = self.cloud_read_timeout.get();
        let write = self.cloud_write_timeout.get();
        Ok(Deadlines { look_up: read, read, write, ..Deadlines::default() })
    }
}
