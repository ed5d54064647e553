//! Go's names for TLS versions, cipher suites and curves, as the flags take them. Names that Go knows and this process
//! does not offer (CBC, static RSA, TLS 1.1) are unknown here: nobody is served less than what was asked for.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// A name that no table has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} {name:?}: expected one of {}", valid.join(", "))]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    valid: Vec<&'static str>,
}

/// TLS versions that `--tls-min-version` may name.
static VERSIONS: [(&str, &[&SupportedProtocolVersion]); 2] =
    [("VersionTLS12", &[&version::TLS13, &version::TLS12]), ("VersionTLS13", &[&version::TLS13])];

/// Cipher suites that `--tls-cipher-suites` may name; those of TLS 1.3 are always on, as in Go.
static SUITES: [(&str, SupportedCipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Curves that `--tls-curve-preferences` may name, with the numbers that Go's type stands for.
static CURVES: [(&str, &str, &dyn SupportedKxGroup); 3] = [
    ("X25519", "29", kx_group::X25519),
    ("CurveP256", "23", kx_group::SECP256R1),
    ("CurveP384", "24", kx_group::SECP384R1),
];

/// The versions from a minimum up; empty means TLS 1.2.
pub(super) fn versions(minimum: &str) -> Result<&'static [&'static SupportedProtocolVersion], UnknownName> {
    let minimum = if minimum.is_empty() { "VersionTLS12" } else { minimum };
    let found = VERSIONS.iter().find(|(name, _)| *name == minimum).map(|(_, versions)| *versions);
    found.ok_or_else(|| unknown("TLS version", minimum, VERSIONS.iter().map(|(name, _)| *name)))
}

/// The suite of that name.
pub(super) fn suite(name: &str) -> Result<SupportedCipherSuite, UnknownName> {
    let found = SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite);
    found.ok_or_else(|| unknown("cipher suite", name, SUITES.iter().map(|(name, _)| *name)))
}

/// The curve of that name or number.
pub(super) fn curve(name: &str) -> Result<&'static dyn SupportedKxGroup, UnknownName> {
    let found = CURVES.iter().find(|(known, number, _)| *known == name || *number == name);
    found
        .map(|(_, _, group)| *group)
        .ok_or_else(|| unknown("curve", name, CURVES.iter().map(|(name, _, _)| *name)))
}

fn unknown(kind: &'static str, name: &str, valid: impl Iterator<Item = &'static str>) -> UnknownName {
    UnknownName { kind, name: name.to_owned(), valid: valid.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_offered_is_refused_with_the_names_that_are() {
        let told = versions("VersionTLS11").unwrap_err().to_string();
        assert_eq!(told, r#"unknown TLS version "VersionTLS11": expected one of VersionTLS12, VersionTLS13"#);
        let told = suite("TLS_RSA_WITH_AES_128_CBC_SHA").unwrap_err().to_string();
        assert!(told.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "), "{told}");
        let told = curve("CurveP521").unwrap_err().to_string();
        assert_eq!(told, r#"unknown curve "CurveP521": expected one of X25519, CurveP256, CurveP384"#);
    }

    #[test]
    fn every_name_in_the_tables_is_found() {
        assert!(versions("").unwrap().contains(&&version::TLS12));
        assert!(!versions("VersionTLS13").unwrap().contains(&&version::TLS12));
        for (name, wanted) in &SUITES {
            assert_eq!(suite(name).unwrap(), *wanted);
        }
        for (name, number, wanted) in &CURVES {
            assert_eq!(curve(name).unwrap().name(), wanted.name());
            assert_eq!(curve(number).unwrap().name(), wanted.name());
        }
    }
}
