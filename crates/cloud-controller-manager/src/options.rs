//! What was typed: one flag group per file, no checks, no side effects.

#![expect(clippy::doc_markdown, reason = "these comments are the help that people read in a terminal")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

pub mod authentication;
pub mod authorization;
pub mod client;
pub mod cloud;
pub mod controllers;
pub mod debugging;
pub mod leader;
pub mod logging;
pub mod node;
pub mod node_lifecycle;
pub mod service;
pub mod serving;

/// Everything that can be typed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// A look inside.
    #[command(flatten)]
    pub debugging: debugging::DebuggingOptions,
    /// Which cloud.
    #[command(flatten)]
    pub cloud: cloud::CloudOptions,
    /// Which controllers.
    #[command(flatten)]
    pub controllers: controllers::ControllersOptions,
    /// Who leads.
    #[command(flatten)]
    pub leader: leader::LeaderOptions,
    /// The node controller.
    #[command(flatten)]
    pub node: node::NodeOptions,
    /// The node lifecycle controller.
    #[command(flatten)]
    pub node_lifecycle: node_lifecycle::NodeLifecycleOptions,
    /// The service controller.
    #[command(flatten)]
    pub service: service::ServiceOptions,
    /// The secure port.
    #[command(flatten)]
    pub serving: serving::ServingOptions,
    /// Who asks on that port.
    #[command(flatten)]
    pub authentication: authentication::AuthenticationOptions,
    /// Whether they may.
    #[command(flatten)]
    pub authorization: authorization::AuthorizationOptions,
    /// How to reach the API server.
    #[command(flatten)]
    pub client: client::ClientOptions,
    /// What is logged.
    #[command(flatten)]
    pub logging: logging::LoggingOptions,
    /// Every flag in force, by name, as text.
    #[arg(skip)]
    pub flags: BTreeMap<String, String>,
}

/// A path that was given: Go's flags say "none" with the empty string.
pub(crate) fn given(path: Option<&Path>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned)
}

/// A list that was given: Go reads the empty string as the empty list.
pub(crate) fn listed(values: &[String]) -> Vec<String> {
    if values.len() == 1 && values[0].is_empty() { Vec::new() } else { values.to_vec() }
}
