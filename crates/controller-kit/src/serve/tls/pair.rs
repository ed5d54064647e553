//! A certificate chain with its key: from files, or self-signed.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::serve::subject::Subject;

/// Where a pair is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairFiles {
    /// The chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
}

/// Why a pair cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read or written.
    #[error("opening {}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("reading the PEM in {}", path.display())]
    Pem {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The certificate and the key do not go together, or are of a kind that is not supported.
    #[error("pairing the certificate in {} with its key", path.display())]
    Pair {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// A self-signed certificate could not be made.
    #[error("making a self-signed certificate")]
    SelfSigned(#[source] rcgen::Error),
}

/// The two files as they were read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// A pair that can be served.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: Arc<CertifiedKey>,
    /// Names in the certificate that a client may ask for.
    pub(super) names: Vec<String>,
}

impl PairFiles {
    pub(super) async fn read(&self) -> Result<Pem, PairError> {
        let read = async |path: &Path| {
            let failed = |source| PairError::File { path: path.to_owned(), source };
            tokio::fs::read(path).await.map_err(failed)
        };
        Ok(Pem { certificate: read(&self.certificate).await?, key: read(&self.key).await? })
    }

    /// When the certificate was written, if it is there.
    pub(super) async fn made_at(&self) -> Option<Timestamp> {
        let written = tokio::fs::metadata(&self.certificate).await.ok()?.modified().ok()?;
        Timestamp::try_from(written).ok()
    }

    pub(super) fn parse(&self, pem: &Pem, provider: &CryptoProvider) -> Result<Pair, PairError> {
        let broken = |path: &Path| {
            let path = path.to_owned();
            |source| PairError::Pem { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&pem.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(broken(&self.certificate))?;
        if chain.is_empty() {
            return Err(broken(&self.certificate)(rustls::pki_types::pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(broken(&self.key))?;
        let unpaired = |source| PairError::Pair { path: self.certificate.clone(), source };
        let names = chain.first().map(names).unwrap_or_default();
        let key = CertifiedKey::from_der(chain, key, provider).map_err(unpaired)?;
        Ok(Pair { key: Arc::new(key), names })
    }

    /// Writes a pair; only the owner can read the key.
    pub(super) async fn write(&self, pem: &Pem) -> Result<(), PairError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| PairError::File { path, source }
        };
        if let Some(directory) = self.certificate.parent() {
            tokio::fs::create_dir_all(directory).await.map_err(failed(directory))?;
        }
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut key = options.open(&self.key).await.map_err(failed(&self.key))?;
        let written = async {
            tokio::io::AsyncWriteExt::write_all(&mut key, &pem.key).await?;
            tokio::io::AsyncWriteExt::flush(&mut key).await
        };
        written.await.map_err(failed(&self.key))?;
        tokio::fs::write(&self.certificate, &pem.certificate).await.map_err(failed(&self.certificate))
    }
}

/// The names a client may ask for: the common name, if it looks like one, and all alternative names.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    // A certificate whose names cannot be read is still served to clients that ask for nothing it says.
    let subject = Subject::of(certificate).unwrap_or_default();
    let common = Some(subject.common_name).filter(|name| !name.is_empty() && !name.contains(['@', ' ']));
    let addresses = subject.addresses.iter().map(ToString::to_string);
    subject.dns_names.into_iter().chain(common).chain(addresses).collect()
}

/// A new pair, good for a year, for `localhost`, this machine's name and `addresses`.
pub(super) fn self_signed(
    name: &str,
    hostname: Option<String>,
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<Pem, PairError> {
    let named = ["localhost".to_owned()].into_iter().chain(hostname);
    let specified = addresses.iter().filter(|address| !address.is_unspecified());
    let mut alternatives: Vec<String> = named.chain(specified.map(ToString::to_string)).collect();
    let loopback = [IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()];
    alternatives.extend(loopback.map(|address| address.to_string()));
    alternatives.sort();
    alternatives.dedup();
    let mut params = CertificateParams::new(alternatives).map_err(PairError::SelfSigned)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{name}@{}", now.as_second()));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC).date();
    let day = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = day(today.saturating_sub(1.day()));
    params.not_after = day(today.saturating_add(366.days()));
    let key = KeyPair::generate().map_err(PairError::SelfSigned)?;
    let certificate = params.self_signed(&key).map_err(PairError::SelfSigned)?;
    Ok(Pem { certificate: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() })
}
