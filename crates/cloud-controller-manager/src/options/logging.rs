//! What is logged.

use clap::Args;
use controller_kit::flags::{GoDuration, boolean};
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

    /// Accepted without effect: every line is written at once.
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    pub log_flush_frequency: GoDuration,

    /// Accepted without effect: everything goes to standard error.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub log_text_split_stream: bool,

    /// Accepted without effect: every line is written at once.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub log_text_info_buffer_size: String,

    /// Accepted without effect: everything goes to standard error.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub log_json_split_stream: bool,

    /// Accepted without effect: every line is written at once.
    #[arg(long, default_value = "0", value_name = "SIZE")]
    pub log_json_info_buffer_size: String,
}
