//! Who asks on the secure port.

use std::path::PathBuf;

use clap::Args;
use controller_kit::flags::{GoDuration, boolean};
use controller_kit::serve::auth::Authentication;
use controller_kit::serve::auth::options::RequestHeader;

use super::{given, listed};

/// Flags about authentication.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authentication flags")]
pub struct AuthenticationOptions {
    /// A kubeconfig file for the API server that may create tokenreviews.authentication.k8s.io. Without it, the one that
    /// everything else uses.
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,

    /// If true, the authentication configuration that the API server publishes in the cluster is not looked up.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub authentication_skip_lookup: bool,

    /// The duration to cache answers about tokens.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub authentication_token_webhook_cache_ttl: GoDuration,

    /// If true, failing to look up the authentication configuration in the cluster is not fatal.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub authentication_tolerate_lookup_failure: bool,

    /// If set, clients with a certificate signed by one of the authorities in this file are authenticated with its
    /// common name.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Authorities that a proxy's client certificate must be signed by before names in request headers are believed.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,

    /// Common names of proxies whose request headers are believed. If empty, any that
    /// --requestheader-client-ca-file vouches for.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "NAME,...")]
    pub requestheader_allowed_names: Vec<String>,

    /// Request headers to inspect for user names. X-Remote-User is common.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, default_value = "x-remote-user",
          value_name = "HEADER,...")]
    pub requestheader_username_headers: Vec<String>,

    /// Request headers to inspect for UIDs. X-Remote-Uid must be among them.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "HEADER,...")]
    pub requestheader_uid_headers: Vec<String>,

    /// Request headers to inspect for groups. X-Remote-Group is suggested.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, default_value = "x-remote-group",
          value_name = "HEADER,...")]
    pub requestheader_group_headers: Vec<String>,

    /// Prefixes of request headers to inspect for what else is known of a user. X-Remote-Extra- is suggested.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, default_value = "x-remote-extra-",
          value_name = "PREFIX,...")]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

impl AuthenticationOptions {
    /// What the secure port is told, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<Authentication, Vec<String>> {
        let settings = Authentication {
            skip_lookup: self.authentication_skip_lookup,
            tolerate_lookup_failure: self.authentication_tolerate_lookup_failure,
            token_cache_ttl: self.authentication_token_webhook_cache_ttl.get(),
            client_ca_file: given(self.client_ca_file.as_deref()),
            request_header: RequestHeader {
                client_ca_file: given(self.requestheader_client_ca_file.as_deref()),
                allowed_names: listed(&self.requestheader_allowed_names),
                username_headers: listed(&self.requestheader_username_headers),
                uid_headers: listed(&self.requestheader_uid_headers),
                group_headers: listed(&self.requestheader_group_headers),
                extra_prefixes: listed(&self.requestheader_extra_headers_prefix),
            },
        };
        let errors: Vec<String> = settings.check().iter().map(ToString::to_string).collect();
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }
}
