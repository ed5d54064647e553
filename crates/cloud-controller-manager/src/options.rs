//! What was typed: one flag group per file, no checks, no side effects.

use clap::Args;

pub mod client;
pub mod cloud;
pub mod leader;
pub mod logging;

/// Everything that can be typed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Which cloud.
    #[command(flatten)]
    pub cloud: cloud::CloudOptions,
    /// How to reach the API server.
    #[command(flatten)]
    pub client: client::ClientOptions,
    /// Who leads.
    #[command(flatten)]
    pub leader: leader::LeaderOptions,
    /// What is logged.
    #[command(flatten)]
    pub logging: logging::LoggingOptions,
}
