//! Where the address of the API server and our credentials come from.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use super::redact::{redacted, redacted_kubeconfig};
use super::{Error, Options};

/// A place, and whether the credentials that stand there are used.
pub(super) struct Source {
    place: Place,
    anonymous: bool,
}

/// One of three, as client-go chooses.
enum Place {
    /// `--kubeconfig`, perhaps with another address.
    File { path: PathBuf, master: Option<Uri> },
    /// Only `--master`: no credentials.
    Master(Uri),
    /// The pod's service account.
    InCluster,
}

/// A configuration that was read and can be used.
pub(super) struct Loaded {
    pub(super) client: kube::Client,
    pub(super) host: String,
    pub(super) default_namespace: String,
    pub(super) fingerprint: u64,
}

impl Source {
    pub(super) fn choose(options: &Options) -> Result<Self, Error> {
        let master = match options.master.as_deref().filter(|address| !address.is_empty()) {
            Some(address) => Some(parse_master(address)?),
            None => None,
        };
        let path = options.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty());
        let place = match (path, master) {
            (Some(path), master) => Place::File { path, master },
            (None, Some(master)) => Place::Master(master),
            (None, None) => Place::InCluster,
        };
        Ok(Self { place, anonymous: false })
    }

    /// The same without credentials.
    pub(super) fn anonymous(self) -> Self {
        Self { anonymous: true, ..self }
    }

    /// Whether the server can be asked if it takes the credentials.
    pub(super) fn has_credentials(&self) -> bool {
        !self.anonymous
    }

    /// Reads the configuration and prepares a connection pool. Credential plugins run here, so it may take a while.
    pub(super) async fn load(&self) -> Result<Loaded, Error> {
        let fingerprint = self.fingerprint().await;
        let mut config = self.config().await?;
        // Retries are the pipeline's, which counts and limits them.
        config.default_retry = false;
        if self.anonymous {
            config.auth_info = AuthInfo::default();
        }
        let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
        let default_namespace = config.default_namespace.clone();
        let built = tokio::task::spawn_blocking(move || kube::Client::try_from(config)).await;
        let client = match built {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Error::Setup { host, source: redacted(error) }),
            Err(panic) => return Err(Error::Setup { host, source: panic.into() }),
        };
        Ok(Loaded { client, host, default_namespace, fingerprint })
    }

    async fn config(&self) -> Result<Config, Error> {
        match &self.place {
            Place::InCluster => Config::incluster().map_err(Error::InCluster),
            Place::Master(address) => Ok(Config::new(address.clone())),
            Place::File { path, master } => {
                let failed =
                    |source| Error::Kubeconfig { path: path.clone(), source: redacted_kubeconfig(source) };
                let file = Kubeconfig::read_from(path).map_err(failed)?;
                let names_proxy = file.clusters.iter().filter_map(|named| named.cluster.as_ref());
                let names_proxy = names_proxy.into_iter().any(|cluster| cluster.proxy_url.is_some());
                let options = KubeConfigOptions::default();
                let mut config = Config::from_custom_kubeconfig(file, &options).await.map_err(failed)?;
                if let Some(address) = master {
                    config.cluster_url = address.clone();
                }
                // HTTPS_PROXY in a pod is meant for the cloud's API, not for the API server next door.
                if !names_proxy {
                    config.proxy_url = None;
                }
                Ok(config)
            }
        }
    }

    /// What all files of this configuration look like now. Token files and the in-cluster CA are not among them: kube
    /// reads those again by itself.
    pub(super) async fn fingerprint(&self) -> u64 {
        let Place::File { path, .. } = &self.place else { return 0 };
        let path = path.clone();
        tokio::task::spawn_blocking(move || fingerprint_of(&path)).await.unwrap_or(0)
    }
}

fn parse_master(address: &str) -> Result<Uri, Error> {
    // client-go takes a bare host for http.
    let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    whole.parse().map_err(|source| Error::Master { address: address.to_owned(), source })
}

/// A hash over the kubeconfig and the certificates and keys that it names.
fn fingerprint_of(path: &Path) -> u64 {
    let mut files = BTreeSet::from([path.to_owned()]);
    if let Ok(kubeconfig) = Kubeconfig::read_from(path) {
        for cluster in kubeconfig.clusters.into_iter().filter_map(|named| named.cluster) {
            files.extend(cluster.certificate_authority.map(PathBuf::from));
        }
        for user in kubeconfig.auth_infos.into_iter().filter_map(|named| named.auth_info) {
            files.extend([user.client_certificate, user.client_key].into_iter().flatten().map(PathBuf::from));
        }
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(&file).ok().hash(&mut hasher);
        file.hash(&mut hasher);
    }
    hasher.finish()
}
