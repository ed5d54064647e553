//! What the flags of authentication and authorization said.

use std::path::PathBuf;
use std::time::Duration;

/// The flags of authentication.
#[derive(Debug, Clone)]
pub struct Authentication {
    /// `--authentication-skip-lookup`: the ConfigMap of the API server is not read.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: without it, a ConfigMap that cannot be read ends the process.
    pub tolerate_lookup_failure: bool,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_cache_ttl: Duration,
    /// `--client-ca-file`; otherwise the ConfigMap's.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-*`, which counts with a CA file only; otherwise the ConfigMap's.
    pub request_header: RequestHeader,
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            skip_lookup: false,
            tolerate_lookup_failure: false,
            token_cache_ttl: Duration::from_secs(10),
            client_ca_file: None,
            request_header: RequestHeader::default(),
        }
    }
}

/// How a proxy in front says who asks.
#[derive(Debug, Clone)]
pub struct RequestHeader {
    /// `--requestheader-client-ca-file`: who signs the proxy's certificate.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-allowed-names`: common names of such proxies; if empty, any.
    pub allowed_names: Vec<String>,
    /// `--requestheader-username-headers`.
    pub username_headers: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub uid_headers: Vec<String>,
    /// `--requestheader-group-headers`.
    pub group_headers: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub extra_prefixes: Vec<String>,
}

impl Default for RequestHeader {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: one("x-remote-user"),
            uid_headers: Vec::new(),
            group_headers: one("x-remote-group"),
            extra_prefixes: one("x-remote-extra-"),
        }
    }
}

/// The flags of authorization.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// `--authorization-always-allow-paths`: exact, or a prefix with a trailing `*`.
    pub always_allow_paths: Vec<String>,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub allowed_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub denied_ttl: Duration,
}

impl Default for Authorization {
    fn default() -> Self {
        Self {
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).into(),
            allowed_ttl: Duration::from_secs(10),
            denied_ttl: Duration::from_secs(10),
        }
    }
}

/// One thing that is wrong with the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A header name or prefix is blank.
    #[error("empty value in {0}")]
    Blank(&'static str),
    /// UID headers without the one that is standard.
    #[error("--requestheader-uid-headers must contain X-Remote-Uid")]
    NoUidHeader,
    /// An asterisk anywhere but at the end.
    #[error(
        "malformed path {0:?} in --authorization-always-allow-paths: an asterisk may stand at its end only"
    )]
    Path(String),
}

impl Authentication {
    /// All that is wrong, at once.
    pub fn check(&self) -> Vec<OptionsError> {
        let headers = &self.request_header;
        let lists = [
            ("--requestheader-username-headers", &headers.username_headers),
            ("--requestheader-uid-headers", &headers.uid_headers),
            ("--requestheader-group-headers", &headers.group_headers),
            ("--requestheader-extra-headers-prefix", &headers.extra_prefixes),
            ("--requestheader-allowed-names", &headers.allowed_names),
        ];
        let blank = lists.iter().filter(|(_, names)| names.iter().any(|name| name.trim().is_empty()));
        let mut errors: Vec<_> = blank.map(|(flag, _)| OptionsError::Blank(flag)).collect();
        let standard = |name: &String| name.eq_ignore_ascii_case("x-remote-uid");
        if !headers.uid_headers.is_empty() && !headers.uid_headers.iter().any(standard) {
            errors.push(OptionsError::NoUidHeader);
        }
        errors
    }
}

impl Authorization {
    /// All that is wrong, at once.
    pub fn check(&self) -> Vec<OptionsError> {
        let wrong = |path: &&String| path.strip_suffix('*').unwrap_or(path).contains('*');
        self.always_allow_paths.iter().filter(wrong).cloned().map(OptionsError::Path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_right_and_wrong_values_are_told_together() {
        assert_eq!(Authentication::default().check(), []);
        assert_eq!(Authorization::default().check(), []);
        let mut options = Authentication::default();
        options.request_header.username_headers = vec!["x-remote-user".into(), " ".into()];
        options.request_header.extra_prefixes = vec![String::new()];
        options.request_header.uid_headers = vec!["x-uid".into()];
        assert_eq!(
            options.check(),
            [
                OptionsError::Blank("--requestheader-username-headers"),
                OptionsError::Blank("--requestheader-extra-headers-prefix"),
                OptionsError::NoUidHeader,
            ]
        );
        options.request_header =
            RequestHeader { uid_headers: vec!["X-Remote-Uid".into()], ..RequestHeader::default() };
        assert_eq!(options.check(), []);
        let paths = ["/a/*", "/*/b", "/c**"].map(str::to_owned).into();
        let options = Authorization { always_allow_paths: paths, ..Authorization::default() };
        assert_eq!(options.check(), [OptionsError::Path("/*/b".into()), OptionsError::Path("/c**".into())]);
    }
}
