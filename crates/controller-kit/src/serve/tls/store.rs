//! The certificates in force, by the name a client asks for. They can be replaced at any time; connections that are
//! open keep theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pair::{Pair, PairError, PairFiles, Pem, self_signed};
use super::reload::RENEW_AFTER;
use super::{Options, Policy, SniPair};
use crate::clock::SharedClock;

/// What a client is shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// For clients that ask for no name or for one that nobody has.
    default: Arc<CertifiedKey>,
    /// By lower-case name; a wildcard stands as `*.rest`.
    named: BTreeMap<String, Arc<CertifiedKey>>,
}

/// Where the default pair comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Files that somebody else keeps fresh.
    Files(PairFiles),
    /// Made here; made anew before it runs out.
    SelfSigned { name: String, hostname: Option<String>, addresses: Vec<IpAddr>, kept_in: Option<PairFiles> },
}

/// The certificates of a secure port.
pub struct Certificates {
    shown: RwLock<Arc<Shown>>,
    pub(super) source: Source,
    pub(super) sni: Vec<SniPair>,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) clock: SharedClock,
    /// What is in force, to be compared with what is on disk.
    pub(super) loaded: tokio::sync::Mutex<Loaded>,
}

/// All bytes that certificates are made from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pems {
    pub(super) default: Pem,
    /// In the order of the SNI pairs.
    pub(super) named: Vec<Pem>,
}

/// The bytes that the certificates in force were made from.
pub(super) struct Loaded {
    pub(super) pems: Pems,
    pub(super) at: Timestamp,
    /// The bytes that were last found to be unusable, so that they are reported once.
    pub(super) refused: Option<Pems>,
    /// Whether the files could not be read at all the last time.
    pub(super) unreadable: bool,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads or makes the pairs; a broken one is an error.
    pub(super) async fn load(
        options: &Options,
        policy: &Policy,
        addresses: &[IpAddr],
        clock: SharedClock,
    ) -> Result<Self, PairError> {
        let source = match options.pair() {
            Some(files) => Source::Files(files),
            None => Source::SelfSigned {
                name: options.pair_name.clone(),
                hostname: hostname(),
                addresses: addresses.to_vec(),
                kept_in: options.cert_dir.as_ref().map(|directory| PairFiles {
                    certificate: directory.join(format!("{}.crt", options.pair_name)),
                    key: directory.join(format!("{}.key", options.pair_name)),
                }),
            },
        };
        let now = clock.now();
        let (default, at) = source.obtain(now).await?;
        let pems = Pems { default, named: read_all(&options.sni).await? };
        let shown = build(&source, &options.sni, &pems, &policy.provider)?;
        let loaded = Loaded { pems, at, refused: None, unreadable: false };
        Ok(Self {
            shown: RwLock::new(Arc::new(shown)),
            source,
            sni: options.sni.clone(),
            provider: policy.provider.clone(),
            clock,
            loaded: tokio::sync::Mutex::new(loaded),
        })
    }

    pub(super) fn show(&self, shown: Shown) {
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown);
    }

    /// What clients that ask for no name are shown.
    #[cfg(test)]
    pub(super) fn default_key(&self) -> Arc<CertifiedKey> {
        self.shown().default.clone()
    }

    fn shown(&self) -> Arc<Shown> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown().find(hello.server_name()))
    }
}

impl Shown {
    /// An exact name wins over a wildcard, which stands for one label.
    fn find(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let found = name.and_then(|name| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let wildcard = || self.named.get(&format!("*.{}", name.split_once('.')?.1));
            self.named.get(&name).or_else(wildcard)
        });
        found.unwrap_or(&self.default).clone()
    }
}

/// Reads the pairs that are for certain names.
pub(super) async fn read_all(sni: &[SniPair]) -> Result<Vec<Pem>, PairError> {
    let mut pems = Vec::with_capacity(sni.len());
    for pair in sni {
        pems.push(pair.files.read().await?);
    }
    Ok(pems)
}

/// Builds the table.
pub(super) fn build(
    source: &Source,
    sni: &[SniPair],
    pems: &Pems,
    provider: &CryptoProvider,
) -> Result<Shown, PairError> {
    let made = PairFiles { certificate: "(self-signed)".into(), key: "(self-signed)".into() };
    let default_files = match source {
        Source::Files(files) => files,
        Source::SelfSigned { .. } => &made,
    };
    let default = default_files.parse(&pems.default, provider)?;
    let pairs = sni.iter().zip(&pems.named).map(|(pair, pem)| pair.files.parse(pem, provider));
    let pairs = pairs.collect::<Result<Vec<Pair>, PairError>>()?;
    let mut named = BTreeMap::new();
    // Explicit names win over extracted ones, and earlier pairs over later ones.
    let explicit =
        sni.iter().zip(&pairs).flat_map(|(sni, pair)| sni.names.iter().map(move |name| (name, pair)));
    let extracted = sni.iter().zip(&pairs).filter(|(sni, _)| sni.names.is_empty());
    let extracted = extracted.flat_map(|(_, pair)| pair.names.iter().map(move |name| (name, pair)));
    for (name, pair) in explicit.chain(extracted) {
        named.entry(name.trim_end_matches('.').to_ascii_lowercase()).or_insert_with(|| pair.key.clone());
    }
    Ok(Shown { default: default.key, named })
}

impl Source {
    /// The bytes of the default pair and when it was made: from its files, or made now, and kept if there is a place.
    async fn obtain(&self, now: Timestamp) -> Result<(Pem, Timestamp), PairError> {
        let (made, kept_in) = match self {
            Self::Files(files) => return Ok((files.read().await?, now)),
            Self::SelfSigned { name, hostname, addresses, kept_in } => {
                (|| self_signed(name, hostname.clone(), addresses, now), kept_in)
            }
        };
        let Some(files) = kept_in else { return Ok((made()?, now)) };
        if let Some(at) = files.made_at().await
            && now.duration_since(at).unsigned_abs() <= RENEW_AFTER
            && let Ok(pem) = files.read().await
        {
            return Ok((pem, at));
        }
        let pem = made()?;
        files.write(&pem).await?;
        Ok((pem, now))
    }
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty() && name.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(names: &[&str]) -> Pem {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Pem { certificate: certificate.pem().into(), key: key.serialize_pem().into() }
    }

    /// The names in the certificate that a client is shown who asks for `name`.
    fn asks(shown: &Shown, name: Option<&str>) -> Vec<String> {
        let chain = &shown.find(name).cert;
        crate::serve::subject::Subject::of(&chain[0]).unwrap().dns_names
    }

    #[test]
    fn exact_names_win_over_wildcards_explicit_over_extracted_and_earlier_over_later() {
        let source = Source::Files(PairFiles { certificate: "c".into(), key: "k".into() });
        let sni: Vec<SniPair> = ["c,k", "c,k:*.wide.example", "c,k:a.wide.example,own.example", "c,k"]
            .map(|text| text.parse().unwrap())
            .into();
        let named = vec![
            pem(&["own.example", "first.example"]),
            pem(&["wide"]),
            pem(&["exact"]),
            pem(&["first.example", "last.example"]),
        ];
        let pems = Pems { default: pem(&["default"]), named };
        let provider = rustls::crypto::ring::default_provider();
        let shown = build(&source, &sni, &pems, &provider).unwrap();
        for (asked, seen) in [
            (None, "default"),
            (Some("nobody.example"), "default"),
            (Some("b.wide.example"), "wide"),
            (Some("A.Wide.example."), "exact"),
            (Some("c.b.wide.example"), "default"),
            (Some("own.example"), "exact"),
            (Some("first.example"), "own.example"),
            (Some("last.example"), "first.example"),
        ] {
            assert_eq!(asks(&shown, asked)[0], seen, "{asked:?}");
        }
    }
}
