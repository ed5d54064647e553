//! Which controllers run.

use clap::Args;
use controller_kit::flags::GoDuration;

/// Flags about the controllers as a whole.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct ControllersOptions {
    /// A list of controllers to enable. '*' enables all that are on by default, 'foo' enables the controller named foo, '-foo'
    /// disables it. The first match in the list counts. See `capabilities` for all names and aliases.
    #[arg(long, default_value = "*", value_delimiter = ',', action = clap::ArgAction::Append,
          allow_hyphen_values = true, value_name = "NAME,...")]
    pub controllers: Vec<String>,

    /// Interval between starting controllers; up to the same again is added at random.
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub controller_start_interval: GoDuration,
}
