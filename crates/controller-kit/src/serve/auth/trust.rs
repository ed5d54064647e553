//! Which certificate authorities vouch for clients and for proxies: those of the flags, otherwise those that the API
//! server publishes in a ConfigMap. Both are read again and again, so that a rotated authority counts without a restart.

mod authority;
mod published;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;

pub(super) use self::authority::Authority;
pub use self::authority::{NoAuthority, Untrusted};
use self::published::Published;
use super::options::{Authentication, RequestHeader};
use crate::lifecycle::Shutdown;
use crate::log::report;

/// INVARIANT: where the API server publishes its authorities.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// How often files are read again, and how many times that the ConfigMap is.
const POLL: Duration = Duration::from_secs(10);
const TICKS_PER_LOOKUP: u32 = 3;
/// How long reading the ConfigMap may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Why nobody can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A CA file cannot be read.
    #[error("reading the certificate authority in {}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file or the ConfigMap holds no usable certificate.
    #[error("using the certificate authority of {place}")]
    Authority {
        /// A file, or a key of the ConfigMap.
        place: String,
        /// Why.
        #[source]
        source: NoAuthority,
    },
    /// The ConfigMap cannot be read.
    #[error("looking up configmap {NAME} in {NAMESPACE}")]
    Lookup(#[source] Box<kube::Error>),
    /// Reading the ConfigMap took too long.
    #[error("looking up configmap {NAME} in {NAMESPACE} took more than {}s", WITHIN.as_secs())]
    TooLate,
    /// The ConfigMap is not of the form that the API server writes.
    #[error("reading key {key} of configmap {NAME}")]
    Malformed {
        /// Which key.
        key: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// A proxy's authority and the headers by which it says whom it speaks for.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) authority: Authority,
    pub(super) allowed_names: Vec<String>,
    pub(super) username_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

/// The authorities in force.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    pub(super) clients: Option<Authority>,
    pub(super) proxy: Option<Proxy>,
}

/// What the authorities are made from; compared to see whether something changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Inputs {
    client_file: Option<Vec<u8>>,
    proxy_file: Option<Vec<u8>>,
    published: Option<Published>,
}

/// The authorities, kept fresh.
pub struct Trust {
    options: Authentication,
    /// `None` if the ConfigMap is not to be read.
    lookup: Option<Api<ConfigMap>>,
    current: RwLock<Arc<Authorities>>,
    inputs: Mutex<Inputs>,
    /// The last failure that was reported, so that each is reported once.
    failure: Mutex<Option<String>>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads everything once. A file that cannot be used is an error, and so is the ConfigMap unless that is tolerated;
    /// without a client the ConfigMap is not read.
    pub async fn establish(
        options: &Authentication,
        client: Option<kube::Client>,
    ) -> Result<Self, TrustError> {
        let complete = options.client_ca_file.is_some() && options.request_header.client_ca_file.is_some();
        let wanted = !options.skip_lookup && !complete;
        if wanted && client.is_none() {
            tracing::warn!(
                "Client certificates are not accepted: there is no API server to ask for their authority"
            );
        }
        let lookup = client.filter(|_| wanted).map(|client| Api::namespaced(client, NAMESPACE));
        let trust = Self {
            options: options.clone(),
            lookup,
            current: RwLock::default(),
            inputs: Mutex::default(),
            failure: Mutex::default(),
        };
        trust.read_files().await?;
        match trust.look_up().await {
            Err(error) if options.tolerate_lookup_failure => {
                trust.failed(&error, "Continuing without the API server's certificate authorities");
            }
            looked_up => looked_up?,
        }
        Ok(trust)
    }

    /// For a process that takes no client certificates.
    pub fn nobody() -> Self {
        Self {
            options: Authentication::default(),
            lookup: None,
            current: RwLock::default(),
            inputs: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Keeps the authorities fresh until `stop` is triggered. What cannot be used is reported once and the last good
    /// state stays.
    pub async fn refresh_on_change(&self, stop: &Shutdown) {
        let mut tick = 0;
        while stop.or_stop(tokio::time::sleep(POLL)).await.is_some() {
            tick += 1;
            let mut refreshed = self.read_files().await;
            if tick % TICKS_PER_LOOKUP == 0 && refreshed.is_ok() {
                refreshed = self.look_up().await;
            }
            match refreshed {
                Ok(()) => *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None,
                Err(error) => self.failed(&error, "Keeping the certificate authorities in force"),
            }
        }
    }

    pub(super) fn current(&self) -> Arc<Authorities> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn read_files(&self) -> Result<(), TrustError> {
        let client_file = read(self.options.client_ca_file.as_deref()).await?;
        let proxy_file = read(self.options.request_header.client_ca_file.as_deref()).await?;
        self.change(|inputs| (inputs.client_file, inputs.proxy_file) = (client_file, proxy_file))
    }

    async fn look_up(&self) -> Result<(), TrustError> {
        let Some(api) = &self.lookup else { return Ok(()) };
        let found = tokio::time::timeout(WITHIN, api.get(NAME)).await.map_err(|_| TrustError::TooLate)?;
        let found = found.map_err(|error| TrustError::Lookup(Box::new(error)))?;
        let published = Published::read(found.data.unwrap_or_default())?;
        self.change(|inputs| inputs.published = Some(published))
    }

    fn change(&self, change: impl FnOnce(&mut Inputs)) -> Result<(), TrustError> {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = inputs.clone();
        change(&mut changed);
        if changed != *inputs {
            let authorities = build(&self.options, &changed)?;
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authorities);
            *inputs = changed;
            tracing::info!(v = 2, "Certificate authorities of clients changed");
        }
        Ok(())
    }

    fn failed(&self, error: &TrustError, consequence: &'static str) {
        let text = report(error).to_string();
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&text) {
            tracing::error!(error = text, "{consequence}");
            *last = Some(text);
        }
    }
}

async fn read(path: Option<&Path>) -> Result<Option<Vec<u8>>, TrustError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = tokio::fs::read(path).await;
    bytes.map(Some).map_err(|source| TrustError::File { path: path.to_owned(), source })
}

/// A file wins over what is published.
fn build(options: &Authentication, inputs: &Inputs) -> Result<Authorities, TrustError> {
    let authority = |place: &str, pem: &[u8]| {
        let unusable = |source| TrustError::Authority { place: place.to_owned(), source };
        Authority::of(pem).map_err(unusable)
    };
    let published = inputs.published.as_ref();
    let clients = match (&inputs.client_file, published.and_then(|published| published.client_ca.as_ref())) {
        (Some(pem), _) => Some(authority("--client-ca-file", pem)?),
        (None, Some(pem)) => Some(authority("client-ca-file", pem.as_bytes())?),
        (None, None) => None,
    };
    let published = published.and_then(|published| published.request_header.as_ref());
    let proxy = match (&inputs.proxy_file, published) {
        (Some(pem), _) => Some((authority("--requestheader-client-ca-file", pem)?, &options.request_header)),
        (None, Some((pem, headers))) => {
            Some((authority("requestheader-client-ca-file", pem.as_bytes())?, headers))
        }
        (None, None) => None,
    };
    Ok(Authorities { clients, proxy: proxy.map(|(authority, headers)| trusting(authority, headers)) })
}

fn trusting(authority: Authority, headers: &RequestHeader) -> Proxy {
    Proxy {
        authority,
        allowed_names: headers.allowed_names.clone(),
        username_headers: headers.username_headers.clone(),
        uid_headers: headers.uid_headers.clone(),
        group_headers: headers.group_headers.clone(),
        extra_prefixes: headers.extra_prefixes.clone(),
    }
}
