//! One certificate authority, or several together, and what they say of a client's certificate.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::serve::subject::{Malformed, Subject};

/// Why a bundle vouches for nobody.
#[derive(Debug, thiserror::Error)]
pub enum NoAuthority {
    /// There is no usable certificate in it.
    #[error("it holds no certificate")]
    Empty,
    /// Its certificates cannot be used to verify with.
    #[error("setting up verification")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// Why a client's certificate counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// The client showed none.
    #[error("no certificate was shown")]
    Nothing,
    /// No authority vouches for it, it has run out, or it is not for clients.
    #[error("verifying it")]
    Unverified(#[source] rustls::Error),
    /// It holds no names that can be read.
    #[error("reading it")]
    Malformed(#[source] Malformed),
    /// It is a good certificate of somebody who may not speak for others.
    #[error("{0:?} is not among the names allowed to speak for others")]
    Name(String),
}

/// Those who sign certificates.
#[derive(Debug)]
pub(in crate::serve::auth) struct Authority(Arc<dyn ClientCertVerifier>);

impl Authority {
    /// Reads a bundle in PEM.
    pub(in crate::serve::auth) fn of(pem: &[u8]) -> Result<Self, NoAuthority> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
        if roots.is_empty() {
            return Err(NoAuthority::Empty);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.map(Self).map_err(NoAuthority::Verifier)
    }

    /// The names in a client's certificate, if it is vouched for now.
    pub(in crate::serve::auth) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<Subject, Untrusted> {
        let (own, others) = chain.split_first().ok_or(Untrusted::Nothing)?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().unsigned_abs()));
        self.0.verify_client_cert(own, others, now).map_err(Untrusted::Unverified)?;
        Subject::of(own).map_err(Untrusted::Malformed)
    }
}
