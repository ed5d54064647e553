//! What is logged.

use clap::Args;
use controller_kit::log::Format;

/// Flags about the log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global flags")]
pub struct LoggingOptions {
    /// Number for the log level verbosity.
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL")]
    pub verbosity: u8,

    /// Comma-separated list of pattern=N settings for file-filtered logging.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATTERN=N,...")]
    pub vmodule: String,

    /// Sets the log format. Permitted formats: "json", "text".
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub logging_format: Format,
}
