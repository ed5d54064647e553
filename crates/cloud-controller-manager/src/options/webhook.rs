//! Admission webhooks, which this binary does not host yet: the flags are known, so that a command line is not refused for
//! their defaults.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use cloud_provider::well_known::ports;
use controller_kit::flags::boolean;

/// Flags about webhooks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhook flags")]
pub struct WebhookOptions {
    /// A list of webhooks to enable. '*' enables all that are on by default, 'foo' enables the webhook named foo, '-foo'
    /// disables it. There are none in this release.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, allow_hyphen_values = true,
          value_name = "NAME,...")]
    pub webhooks: Vec<String>,

    /// The IP address on which to listen for the --webhook-secure-port port.
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", help_heading = "Webhook serving flags")]
    pub webhook_bind_address: IpAddr,

    /// The port on which to serve webhooks. If 0, don't serve webhooks at all.
    #[arg(long, default_value_t = ports::WEBHOOK, value_name = "PORT", help_heading = "Webhook serving flags")]
    pub webhook_secure_port: u16,

    /// The directory where the TLS certs are located.
    #[arg(long, value_name = "DIRECTORY", help_heading = "Webhook serving flags")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// File containing the x509 certificate for HTTPS of webhooks.
    #[arg(long, value_name = "FILE", help_heading = "Webhook serving flags")]
    pub webhook_tls_cert_file: Option<PathBuf>,

    /// File containing the x509 private key matching --webhook-tls-cert-file.
    #[arg(long, value_name = "FILE", help_heading = "Webhook serving flags")]
    pub webhook_tls_private_key_file: Option<PathBuf>,

    /// Comma-separated list of cipher suites for the webhook server.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "SUITE,...",
          help_heading = "Webhook serving flags")]
    pub webhook_tls_cipher_suites: Vec<String>,

    /// Comma-separated list of key exchange groups for the webhook server.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "CURVE,...",
          help_heading = "Webhook serving flags")]
    pub webhook_tls_curve_preferences: Vec<String>,

    /// Minimum TLS version of the webhook server.
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "VERSION",
        help_heading = "Webhook serving flags"
    )]
    pub webhook_tls_min_version: String,

    /// A pair of certificate and key files of the webhook server for clients that ask for certain names.
    #[arg(long, action = clap::ArgAction::Append, value_name = "CERT,KEY[:PATTERNS]",
          help_heading = "Webhook serving flags")]
    pub webhook_tls_sni_cert_key: Vec<String>,

    /// If true, HTTP/2 serving is disabled for the webhook server.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Webhook serving flags")]
    pub webhook_disable_http2_serving: bool,
}

impl WebhookOptions {
    /// All that is wrong.
    pub(crate) fn errors(&self, secure_port: u16) -> Vec<String> {
        let named = self.webhooks.iter().map(|name| name.trim()).filter(|name| !matches!(*name, "" | "*"));
        let mut errors: Vec<String> =
            named.map(|name| format!("--webhooks: {name:?} is not in the list of known webhooks")).collect();
        if self.webhook_secure_port != 0 && self.webhook_secure_port == secure_port {
            errors.push(format!(
                "--webhook-secure-port={secure_port} is the same as --secure-port: they need a port each"
            ));
        }
        errors
    }
}
