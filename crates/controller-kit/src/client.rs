//! How this process speaks to the API server.
//!
//! [`Clients`] owns one connection pool and hands out named [`kube::Client`]s over it. Each has its own user agent, a
//! deadline on everything but watches, retries where the server asks for them, client-go's metrics, and, if wanted, a
//! request budget. When the kubeconfig or a certificate in it changes on disk, all of them move over; kube itself
//! re-reads token files and the in-cluster CA within a minute. Not here: what is cached ([`crate::cache`]), how
//! patches are built ([`crate::patch`]).

mod bearer;
mod body;
mod bucket;
mod metrics;
mod pipeline;
mod redact;
mod reload;
mod source;
mod startup;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

pub use self::bearer::Bearer;
pub use self::bucket::{Rate, TokenBucket};
pub use self::metrics::Metrics;
pub use self::pipeline::TimedOut;
use self::pipeline::{Pipeline, Plan};
pub use self::redact::ExecPluginFailed;
use self::source::Source;
pub use self::startup::wait_for_api_server;
use self::transport::Transport;
use crate::lifecycle::Shutdown;
use crate::random::Randomness;

/// How long a request that is no watch may take: what the API server itself allows such requests.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What the flags said about the API server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--kubeconfig`; without it and without `master`, the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: the server's address, whatever the kubeconfig says.
    pub master: Option<String>,
    /// `--kube-api-qps` and `--kube-api-burst`, if given: a budget for each client that does not bring its own.
    pub rate: Option<Rate>,
    /// Who we are, without a client's name; see [`user_agent`].
    pub user_agent: String,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--master` is no URL.
    #[error("reading the master address {address:?}")]
    Master {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// The kubeconfig, or a file it names, cannot be used.
    #[error("reading the kubeconfig {}", path.display())]
    Kubeconfig {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// There is no kubeconfig, no master address, and no service account either.
    #[error("neither --kubeconfig nor --master was given, and reading the in-cluster configuration failed")]
    InCluster(#[source] kube::config::InClusterError),
    /// TLS or credentials could not be set up.
    #[error("setting up the connection to {host}")]
    Setup {
        /// The API server.
        host: String,
        /// What failed; credentials are cut out of it.
        #[source]
        source: BoxError,
    },
}

/// `product/version (os/arch) project/commit`, as client-go writes it.
pub fn user_agent(product: &str, version: &str, project: &str, commit: &str) -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{product}/{version} ({}/{arch}) {project}/{commit}", std::env::consts::OS)
}

/// Hands out clients over one connection pool; clones share it.
#[derive(Clone)]
pub struct Clients {
    transport: Arc<Transport>,
    source: Option<Arc<Source>>,
    options: Arc<Options>,
    random: Randomness,
    metrics: Metrics,
    bearer: Option<Arc<dyn Bearer>>,
}

impl Clients {
    /// Reads the configuration and prepares the connection; nothing is sent yet.
    pub async fn connect(options: Options, random: Randomness, metrics: Metrics) -> Result<Self, Error> {
        Self::from_source(Source::choose(&options)?, options, random, metrics).await
    }

    /// The same way to the API server, with nobody's credentials: for clients that bring their own, see
    /// [`Clients::bearing`].
    pub async fn connect_anonymously(
        options: Options,
        random: Randomness,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        Self::from_source(Source::choose(&options)?.anonymous(), options, random, metrics).await
    }

    async fn from_source(
        source: Source,
        options: Options,
        random: Randomness,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        let loaded = source.load().await?;
        let transport = Arc::new(Transport::new(loaded.client, loaded.host, loaded.default_namespace));
        transport.remember(loaded.fingerprint);
        let source = Some(Arc::new(source));
        Ok(Self { transport, source, options: Arc::new(options), random, metrics, bearer: None })
    }

    /// Over the same connections, each request with this one's token.
    #[must_use]
    pub fn bearing(&self, bearer: Arc<dyn Bearer>) -> Self {
        Self { bearer: Some(bearer), ..self.clone() }
    }

    /// The same over any service that answers Kubernetes requests: an API server inside a test.
    pub fn over<S, B>(service: S, options: Options, random: Randomness, metrics: Metrics) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let client = kube::Client::new(service, "default");
        let transport = Arc::new(Transport::new(client, "in-process".to_owned(), "default".to_owned()));
        Self { transport, source: None, options: Arc::new(options), random, metrics, bearer: None }
    }

    /// Host and port of the API server.
    pub fn host(&self) -> String {
        self.transport.host()
    }

    /// A client with this suffix to the user agent; change its plan, then [`NamedClient::build`] it.
    pub fn named(&self, name: &str) -> NamedClient {
        let user_agent = format!("{}/{name}", self.options.user_agent);
        let plan = Plan {
            transport: self.transport.clone(),
            user_agent,
            bucket: self.options.rate.map(TokenBucket::new),
            retries: true,
            timeout: REQUEST_TIMEOUT,
            random: self.random.clone(),
            metrics: self.metrics.clone(),
            bearer: self.bearer.clone(),
        };
        NamedClient { plan }
    }

    /// Watches the files of the configuration and moves all clients over when one of them changes. A configuration
    /// that cannot be used is reported once and the last good one stays. Returns when `stop` is triggered.
    pub async fn reload_on_change(&self, stop: &Shutdown) {
        match &self.source {
            Some(source) => reload::run(source, &self.transport, &self.metrics, stop).await,
            None => stop.wait().await,
        }
    }
}

/// A client that is being planned.
#[must_use = "call build"]
pub struct NamedClient {
    plan: Plan,
}

impl NamedClient {
    /// Spends from a budget that others spend from too.
    pub fn sharing(mut self, bucket: &TokenBucket) -> Self {
        self.plan.bucket = Some(bucket.clone());
        self
    }

    /// Spends from no budget, whatever the flags say.
    pub fn unlimited(mut self) -> Self {
        self.plan.bucket = None;
        self
    }

    /// Hands every answer to the caller at once. For lease renewal: its caller knows better when to give up.
    pub fn without_retries(mut self) -> Self {
        self.plan.retries = false;
        self
    }

    /// Another deadline than [`REQUEST_TIMEOUT`].
    pub fn within(mut self, timeout: Duration) -> Self {
        self.plan.timeout = timeout;
        self
    }

    /// The client.
    pub fn build(self) -> kube::Client {
        let namespace = self.plan.transport.default_namespace();
        kube::Client::new(Pipeline::new(self.plan), namespace)
    }
}
