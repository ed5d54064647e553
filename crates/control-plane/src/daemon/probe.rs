//! The question that tells whether a daemon is ready. Every attempt has a deadline of its own.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::connect;
use crate::error::Error;

/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Whom to ask.
pub(crate) enum Probe {
    /// etcd, on its client port.
    Etcd(u16),
    /// The API server, as the holder of this kubeconfig.
    ApiServer(PathBuf),
    /// A daemon that serves `/healthz` where this kubeconfig points.
    Healthz(PathBuf),
}

/// A probe with its connection.
pub(crate) enum Asking {
    Etcd(u16),
    ApiServer(Client),
    Healthz(Client),
}

impl Probe {
    pub(crate) async fn connect(&self) -> Result<Asking, Error> {
        Ok(match self {
            Self::Etcd(port) => Asking::Etcd(*port),
            Self::ApiServer(kubeconfig) => Asking::ApiServer(connect(kubeconfig).await?),
            Self::Healthz(kubeconfig) => Asking::Healthz(connect(kubeconfig).await?),
        })
    }
}

impl Asking {
    /// Whether the daemon says that it is ready; no answer is a no.
    pub(crate) async fn is_ready(&self) -> bool {
        tokio::time::timeout(ANSWER, self.ask()).await.unwrap_or(false)
    }

    async fn ask(&self) -> bool {
        match self {
            Self::Etcd(port) => etcd_is_healthy(*port).await.unwrap_or(false),
            Self::ApiServer(client) => says_ok(client, "/readyz").await && has_namespaces(client).await,
            Self::Healthz(client) => says_ok(client, "/healthz").await,
        }
    }
}

async fn says_ok(client: &Client, path: &str) -> bool {
    let Ok(request) = http::Request::get(path).body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok_and(|answer| answer == "ok")
}

/// The API server makes these after it is ready, and a test that comes too early would be refused.
async fn has_namespaces(client: &Client) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["default", "kube-system", "kube-node-lease"] {
        if !matches!(namespaces.get_opt(name).await, Ok(Some(_))) {
            return false;
        }
    }
    true
}

async fn etcd_is_healthy(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.contains(r#""health":"true""#))
}
