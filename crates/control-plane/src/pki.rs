//! The cluster's own certificate authority, and the certificates and keys it hands out. Keys are ECDSA P-256.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::error::Error;

mod client;

/// The authority's name.
const AUTHORITY: &str = "nephos-control-plane";

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The authority that the API server trusts clients by, and clients the API server.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority that keeps its files in `directory`.
    pub(crate) fn new(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory).map_err(Error::io(format!("making {}", directory.display())))?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self { directory: directory.to_owned(), issuer };
        write(&authority.certificate(), &authority.issuer.pem())?;
        Ok(authority)
    }

    /// The authority's own certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// A certificate for a daemon that serves on loopback and, inside a cluster, as `kubernetes.default.svc`.
    pub(crate) fn server(&self, name: &str) -> Result<Pair, Error> {
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut names: Vec<String> = names.map(str::to_owned).into();
        names.push(Ipv4Addr::LOCALHOST.to_string());
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(name, &params)
    }

    /// A certificate by which the API server knows its holder as `user`, a member of `groups`.
    pub(crate) fn client(&self, base: &Path, user: &str, groups: &[&str]) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let certificate = client::certificate(&self.issuer, &key, user, groups)?;
        let pair = Pair { certificate: base.with_extension("crt"), key: base.with_extension("key") };
        write(&pair.certificate, &certificate)?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }

    fn issue(&self, name: &str, params: &CertificateParams) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let pair = self.pair(name);
        write(&pair.certificate, &certificate.pem())?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }

    /// The key that service-account tokens are signed with, its public half as the certificate.
    pub(crate) fn token_signer(&self) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let pair = self.pair("service-accounts");
        write(&pair.certificate, &key.public_key_pem())?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }

    fn pair(&self, name: &str) -> Pair {
        Pair {
            certificate: self.directory.join(format!("{name}.crt")),
            key: self.directory.join(format!("{name}.key")),
        }
    }
}

/// Writes a file that only its owner can reach: the directory around it is closed to others.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(Error::io(format!("writing {}", path.display())))
}
