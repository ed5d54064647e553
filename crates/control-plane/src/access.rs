//! Ways into the cluster: kubeconfig files, and plain `kube` clients made from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ObjectMeta;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::cluster::ControlPlane;
use crate::error::Error;
use crate::pki::{Authority, Pair, write};

/// How long the requests behind one call here may take together.
const DEADLINE: Duration = Duration::from_secs(30);

/// A service account with a token for it.
#[derive(Clone, Debug)]
pub struct ServiceAccountAccess {
    /// A kubeconfig file that holds the token.
    pub kubeconfig: PathBuf,
    /// The token itself, in a file, as a pod has it.
    pub token_file: PathBuf,
}

impl ServiceAccountAccess {
    /// A client that speaks as the service account.
    pub async fn client(&self) -> Result<Client, Error> {
        connect(&self.kubeconfig).await
    }
}

impl ControlPlane {
    /// A client that may do everything (group `system:masters`).
    pub async fn admin(&self) -> Result<Client, Error> {
        connect(self.admin_kubeconfig()).await
    }

    /// A kubeconfig file for `user` as a member of `groups`, who has no right but what RBAC gives.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let file = format!("{}-{}", file_name(user), uuid::Uuid::new_v4().simple());
        certificate_kubeconfig(self.authority(), &self.directory().join(file), &self.server(), user, groups)
    }

    /// A client for `user` as a member of `groups`.
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<Client, Error> {
        connect(&self.kubeconfig_for(user, groups)?).await
    }

    /// Makes the service account, and its namespace, where they are missing, and asks for a token (`TokenRequest`)
    /// that is good for a day. It has no right but what RBAC gives.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountAccess, Error> {
        let asking = format!("asking for a token for the service account {namespace}/{name}");
        let token = tokio::time::timeout(DEADLINE, self.token(namespace, name))
            .await
            .map_err(|_| Error::Deadline { attempt: asking.clone(), after: DEADLINE })?
            .map_err(Error::api(asking))?;
        let base = self.directory().join(format!("sa-{}", uuid::Uuid::new_v4().simple()));
        let access = ServiceAccountAccess {
            kubeconfig: base.with_extension("kubeconfig"),
            token_file: base.with_extension("token"),
        };
        write(&access.token_file, &token)?;
        let credential = json!({ "token": token });
        write_kubeconfig(&access.kubeconfig, &self.server(), &self.authority_certificate(), &credential)?;
        Ok(access)
    }

    async fn token(&self, namespace: &str, name: &str) -> Result<String, kube::Error> {
        let client = self.admin().await.map_err(|error| kube::Error::Service(error.into()))?;
        let meta = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let home = Namespace { metadata: meta(namespace), ..Namespace::default() };
        ensure(&namespaces, &home).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
        let account = ServiceAccount { metadata: meta(name), ..ServiceAccount::default() };
        ensure(&accounts, &account).await?;
        let spec = TokenRequestSpec { expiration_seconds: Some(24 * 60 * 60), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        Ok(answer.status.map(|status| status.token).unwrap_or_default())
    }
}

/// A plain client for whoever the kubeconfig speaks for. Proxies of the environment are not used: the server is on
/// loopback.
pub async fn connect(kubeconfig: &Path) -> Result<Client, Error> {
    // An error means that somebody has installed a provider already, which is then used.
    _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |source| Error::Kubeconfig { path: kubeconfig.to_owned(), source: Box::new(source) };
    let parsed = Kubeconfig::read_from(kubeconfig).map_err(failed)?;
    let mut config =
        Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.map_err(failed)?;
    config.proxy_url = None;
    Client::try_from(config).map_err(Error::api("making a client"))
}

/// Writes `base`.crt, .key and .kubeconfig and returns the last.
pub(crate) fn certificate_kubeconfig(
    authority: &Authority,
    base: &Path,
    server: &str,
    user: &str,
    groups: &[&str],
) -> Result<PathBuf, Error> {
    let Pair { certificate, key } = authority.client(base, user, groups)?;
    let kubeconfig = base.with_extension("kubeconfig");
    let credential = json!({ "client-certificate": certificate, "client-key": key });
    write_kubeconfig(&kubeconfig, server, &authority.certificate(), &credential)?;
    Ok(kubeconfig)
}

fn write_kubeconfig(path: &Path, server: &str, authority: &Path, credential: &Value) -> Result<(), Error> {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "nephos", "cluster": { "server": server, "certificate-authority": authority } }],
        "users": [{ "name": "user", "user": credential }],
        "contexts": [{ "name": "nephos", "context": { "cluster": "nephos", "user": "user" } }],
        "current-context": "nephos",
    });
    write(path, &format!("{kubeconfig:#}\n"))
}

async fn ensure<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

/// A user's name such as `system:node:a/b` as part of a file's name.
fn file_name(user: &str) -> String {
    user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect()
}
