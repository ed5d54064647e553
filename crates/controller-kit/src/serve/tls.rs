//! The TLS side of a secure port: which certificate is shown, which versions, cipher suites and curves are spoken.
//! Client certificates are asked for and handed on unverified; [`crate::serve::auth`] says what they are worth.

mod any_client;
mod names;
mod pair;
mod reload;
mod store;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;

use self::any_client::AnyClient;
pub use self::names::UnknownName;
pub use self::pair::{PairError, PairFiles};
pub use self::reload::POLL;
pub use self::store::Certificates;
use crate::clock::SharedClock;

/// What the `--tls-*` flags and `--cert-dir` said.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--tls-cert-file` and `--tls-private-key-file`.
    pub cert_file: Option<PathBuf>,
    /// See `cert_file`.
    pub key_file: Option<PathBuf>,
    /// `--cert-dir`: where a self-signed pair is kept, if it should outlive the process.
    pub cert_dir: Option<PathBuf>,
    /// What the self-signed pair is called in its file names and its subject.
    pub pair_name: String,
    /// `--tls-sni-cert-key`, once for each.
    pub sni: Vec<SniPair>,
    /// `--tls-min-version` by Go's name; empty is TLS 1.2.
    pub min_version: String,
    /// `--tls-cipher-suites` by Go's names; empty is all that we offer.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences` by Go's names or numbers; empty is all that we offer.
    pub curves: Vec<String>,
}

/// A pair for clients that ask for certain names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniPair {
    /// The files.
    pub files: PairFiles,
    /// Names and `*.` patterns; if empty, the names in the certificate count.
    pub names: Vec<String>,
}

/// One thing that is wrong with the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A version, cipher suite or curve that is not offered.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// Half a pair.
    #[error("--tls-cert-file and --tls-private-key-file must be given together")]
    HalfPair,
    /// The cipher suites given leave none for TLS 1.2 although it is allowed.
    #[error("--tls-cipher-suites names no suite of TLS 1.2 although --tls-min-version allows it")]
    NoSuite,
    /// A `--tls-sni-cert-key` that cannot be read.
    #[error(
        "malformed --tls-sni-cert-key {0:?}: expected certificate,key or certificate,key:pattern,pattern"
    )]
    Sni(String),
    /// A pattern whose wildcard is not its whole first label.
    #[error("malformed pattern {0:?} of --tls-sni-cert-key: a wildcard must be the whole first label")]
    Pattern(String),
}

impl std::str::FromStr for SniPair {
    type Err = OptionsError;

    /// `certificate,key` or `certificate,key:name,*.pattern`.
    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let malformed = || OptionsError::Sni(text.to_owned());
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let (certificate, key) = files.split_once(',').ok_or_else(malformed)?;
        if certificate.is_empty() || key.is_empty() || key.contains(',') || names.contains(':') {
            return Err(malformed());
        }
        let names = names.split(',').filter(|name| !name.is_empty());
        let files = PairFiles { certificate: certificate.into(), key: key.into() };
        Ok(Self { files, names: names.map(str::to_owned).collect() })
    }
}

/// How TLS is spoken: what [`Options::check`] made of the options.
#[derive(Debug, Clone)]
pub struct Policy {
    provider: Arc<CryptoProvider>,
    versions: &'static [&'static rustls::SupportedProtocolVersion],
}

impl Options {
    /// Reads the names; all that is wrong is told at once.
    pub fn check(&self) -> Result<Policy, Vec<OptionsError>> {
        let mut errors = Vec::new();
        if self.cert_file.is_some() != self.key_file.is_some() {
            errors.push(OptionsError::HalfPair);
        }
        let patterns = self.sni.iter().flat_map(|pair| &pair.names);
        let bad = patterns.filter(|name| name.strip_prefix("*.").unwrap_or(name).contains('*'));
        errors.extend(bad.map(|name| OptionsError::Pattern(name.clone())));
        let mut keep = |unknown: UnknownName| errors.push(unknown.into());
        let versions = names::versions(&self.min_version).map_err(&mut keep).ok();
        let named = self.cipher_suites.iter().filter_map(|name| names::suite(name).map_err(&mut keep).ok());
        let named: Vec<_> = named.filter(|suite| suite.tls13().is_none()).collect();
        let curves = self.curves.iter().filter_map(|name| names::curve(name).map_err(&mut keep).ok());
        let curves: Vec<_> = curves.collect();
        let mut provider = rustls::crypto::ring::default_provider();
        if !self.cipher_suites.is_empty() {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || named.contains(suite));
            let allows_12 = versions.is_some_and(|versions| versions.contains(&&rustls::version::TLS12));
            if allows_12 && named.is_empty() && errors.is_empty() {
                errors.push(OptionsError::NoSuite);
            }
        }
        if !curves.is_empty() {
            provider.kx_groups = curves;
        }
        match versions {
            Some(versions) if errors.is_empty() => Ok(Policy { provider: Arc::new(provider), versions }),
            _ => Err(errors),
        }
    }

    /// The given pair of files, if both were named.
    fn pair(&self) -> Option<PairFiles> {
        let (certificate, key) = (self.cert_file.clone()?, self.key_file.clone()?);
        Some(PairFiles { certificate, key })
    }
}

/// Loads the certificates and says how they are served.
///
/// `addresses` are names that a self-signed certificate should carry beside `localhost`.
pub(super) async fn prepare(
    options: &Options,
    policy: &Policy,
    addresses: &[IpAddr],
    clock: SharedClock,
) -> Result<Arc<Certificates>, PairError> {
    Certificates::load(options, policy, addresses, clock).await.map(Arc::new)
}

/// What a connection is accepted with.
pub(super) fn server_config(
    policy: &Policy,
    certificates: Arc<Certificates>,
    http2: bool,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = Arc::new(AnyClient::new(&policy.provider));
    let mut config = ServerConfig::builder_with_provider(policy.provider.clone())
        .with_protocol_versions(policy.versions)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificates);
    // Nothing is kept between connections: their cost is bounded and a new certificate counts at once.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let options = Options {
            cert_file: Some("a".into()),
            min_version: "VersionTLS10".into(),
            cipher_suites: vec!["TLS_RSA_WITH_RC4_128_SHA".into()],
            curves: vec!["CurveP521".into()],
            sni: vec!["c,k:a.*.b,*.ok".parse().unwrap()],
            ..Options::default()
        };
        let errors = options.check().unwrap_err();
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert_eq!(errors[0], OptionsError::HalfPair);
        assert_eq!(errors[1], OptionsError::Pattern("a.*.b".into()));
    }

    #[test]
    fn suites_of_tls_13_are_always_on_and_those_of_12_as_named() {
        let of = |names: &[&str], min: &str| {
            let cipher_suites = names.iter().map(|&name| name.to_owned()).collect();
            Options { cipher_suites, min_version: min.into(), ..Options::default() }.check()
        };
        let policy = of(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "").unwrap();
        assert_eq!(policy.provider.cipher_suites.len(), 4);
        let alone = ["TLS_AES_128_GCM_SHA256"];
        assert_eq!(of(&alone, "").unwrap_err(), [OptionsError::NoSuite]);
        assert_eq!(of(&alone, "VersionTLS13").unwrap().provider.cipher_suites.len(), 3);
    }

    #[test]
    fn an_sni_pair_is_read_as_upstream_writes_it() {
        let pair: SniPair = "foo.crt,foo.key:*.foo.com,foo.com".parse().unwrap();
        assert_eq!(pair.names, ["*.foo.com", "foo.com"]);
        let pair: SniPair = "foo.crt,foo.key".parse().unwrap();
        assert_eq!((pair.files.key.to_str(), pair.names.len()), (Some("foo.key"), 0));
        for wrong in ["foo.crt", "a,b,c", ",b", "a,", "a,b:c:d"] {
            assert_eq!(wrong.parse::<SniPair>(), Err(OptionsError::Sni(wrong.to_owned())));
        }
    }
}
