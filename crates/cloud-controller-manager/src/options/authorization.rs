//! Whether those who ask on the secure port may see what they ask for.

use std::path::PathBuf;

use clap::Args;
use controller_kit::flags::GoDuration;
use controller_kit::serve::auth::Authorization;

use super::listed;

/// Flags about authorization.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authorization flags")]
pub struct AuthorizationOptions {
    /// A list of HTTP paths to skip during authorization, i.e. these are authorized without contacting the API server.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, default_value = "/healthz,/readyz,/livez",
          value_name = "PATH,...")]
    pub authorization_always_allow_paths: Vec<String>,

    /// A kubeconfig file for the API server that may create subjectaccessreviews.authorization.k8s.io. Without it, the
    /// one that everything else uses.
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,

    /// The duration to cache 'authorized' answers.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,

    /// The duration to cache 'unauthorized' answers.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

impl AuthorizationOptions {
    /// What the secure port is told, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<Authorization, Vec<String>> {
        let settings = Authorization {
            always_allow_paths: listed(&self.authorization_always_allow_paths),
            allowed_ttl: self.authorization_webhook_cache_authorized_ttl.get(),
            denied_ttl: self.authorization_webhook_cache_unauthorized_ttl.get(),
        };
        let errors: Vec<String> = settings.check().iter().map(ToString::to_string).collect();
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }
}
