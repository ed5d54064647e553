//! The secure port.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use cloud_provider::well_known::ports;
use controller_kit::flags::boolean;
use controller_kit::serve::{self, Limits, tls};

use super::{given, listed};
use crate::command::UPSTREAM_NAME;

/// Flags about secure serving.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Secure serving flags")]
pub struct ServingOptions {
    /// The IP address on which to listen for the --secure-port port. An unspecified address (0.0.0.0 or ::) means all
    /// interfaces and address families.
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    pub bind_address: IpAddr,

    /// The port on which to serve HTTPS with authentication and authorization. If 0, don't serve HTTPS at all.
    #[arg(long, default_value_t = ports::SECURE, value_name = "PORT")]
    pub secure_port: u16,

    /// The directory where a self-signed pair is kept if neither --tls-cert-file nor --tls-private-key-file is given.
    /// Empty to keep it in memory.
    #[arg(long, value_name = "DIRECTORY")]
    pub cert_dir: Option<PathBuf>,

    /// File containing the x509 certificate for HTTPS, intermediate certificates after it. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// File containing the x509 private key matching --tls-cert-file.
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Comma-separated list of cipher suites for the server. If omitted, all that are offered are used.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "SUITE,...")]
    pub tls_cipher_suites: Vec<String>,

    /// Comma-separated list of key exchange groups, by Go's names or numbers. If omitted, all that are offered are used.
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Append, value_name = "CURVE,...")]
    pub tls_curve_preferences: Vec<String>,

    /// Minimum TLS version supported. Possible values: VersionTLS12, VersionTLS13.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "VERSION")]
    pub tls_min_version: String,

    /// A pair of certificate and key files for clients that ask for certain names, optionally followed by a list of
    /// domain patterns: "example.crt,example.key:*.example.com". May be given more than once.
    #[arg(long, action = clap::ArgAction::Append, value_name = "CERT,KEY[:PATTERNS]")]
    pub tls_sni_cert_key: Vec<String>,

    /// The limit on requests at once of one HTTP/2 connection. 0 for the default of 32.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub http2_max_streams_per_connection: u32,

    /// If true, HTTP/2 serving is disabled.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub disable_http2_serving: bool,

    /// If true, SO_REUSEPORT is used when binding the port, so that several processes may listen on it.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub permit_port_sharing: bool,

    /// Accepted without effect: SO_REUSEADDR is always set.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub permit_address_sharing: bool,
}

impl ServingOptions {
    /// What the server is told, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<serve::Options, Vec<String>> {
        let mut errors = Vec::new();
        let mut sni = Vec::new();
        for text in &self.tls_sni_cert_key {
            match text.parse::<tls::SniPair>() {
                Ok(pair) => sni.push(pair),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let options = serve::Options {
            bind_address: self.bind_address,
            port: Some(self.secure_port).filter(|port| *port != 0),
            permit_port_sharing: self.permit_port_sharing,
            permit_address_sharing: self.permit_address_sharing,
            disable_http2: self.disable_http2_serving,
            http2_max_streams: self.http2_max_streams_per_connection,
            tls: tls::Options {
                cert_file: given(self.tls_cert_file.as_deref()),
                key_file: given(self.tls_private_key_file.as_deref()),
                cert_dir: given(self.cert_dir.as_deref()),
                pair_name: UPSTREAM_NAME.to_owned(),
                sni,
                min_version: self.tls_min_version.clone(),
                cipher_suites: listed(&self.tls_cipher_suites),
                curves: listed(&self.tls_curve_preferences),
            },
            limits: Limits::default(),
        };
        if let Err(wrong) = options.check() {
            errors.extend(wrong.iter().map(ToString::to_string));
        }
        if errors.is_empty() { Ok(options) } else { Err(errors) }
    }
}
