//! A look inside the process.

use clap::Args;
use controller_kit::flags::boolean;

/// Flags about debugging.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Debugging flags")]
pub struct DebuggingOptions {
    /// Serve /debug/flags/v, which shows and changes the log verbosity. There are no pprof pages: they are Go's.
    #[arg(long, default_value = "true", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub profiling: bool,

    /// Accepted without effect: block profiling is of Go's runtime.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub contention_profiling: bool,
}
