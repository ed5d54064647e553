//! Handing controllers over between components without a moment in which both run them (KEP-2436).

use std::path::PathBuf;

use clap::Args;
use controller_kit::flags::boolean;

/// Flags about leader migration.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader-migration flags")]
pub struct MigrationOptions {
    /// Whether to enable controller leader migration.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enable_leader_migration: bool,

    /// Path to the config file for controller leader migration. Empty for the default: the controllers that once ran in
    /// kube-controller-manager, under their current names. The file's kind is LeaderMigrationConfiguration of the group
    /// controllermanager.config.k8s.io, version v1, v1beta1 or v1alpha1.
    #[arg(long, value_name = "FILE")]
    pub leader_migration_config: Option<PathBuf>,
}
