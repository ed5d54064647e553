//! The secure port of this process: health, metrics, configuration, for those who may.
//!
//! It is up before anything else, so that a process that waits for its API server can be asked how it is. Who may see
//! more than health is the API server's to say: until it is there, nobody may.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use controller_kit::client::{self, Clients};
use controller_kit::lifecycle::Group;
use controller_kit::log;
use controller_kit::metrics::Catalogue;
use controller_kit::serve::auth::review::{CLIENT_RATE, ReviewError};
use controller_kit::serve::auth::{
    Access, Authentication, Decision, KubeReviews, Reviews, Trust, TrustError, User,
};
use controller_kit::serve::{Contents, Server, Site};

use super::Process;
use super::configz::configz;
use crate::command::UPSTREAM_NAME;

/// How long the port may take to close.
const CLOSE: Duration = Duration::from_secs(3);

/// The port, bound, and whether the API server still has to be asked whom to trust.
pub(super) struct Port {
    pub(super) group: Group,
    pub(super) trust_is_due: bool,
}

/// Binds the port; `None` if nothing is to be served.
pub(super) async fn open(
    process: &Arc<Process>,
    metrics: Catalogue,
    verbosity: log::Handle,
) -> anyhow::Result<Option<Port>> {
    let serving = &process.config.serving;
    let Some(server) = Server::bind(&serving.options, Arc::clone(&process.clock)).await? else {
        return Ok(None);
    };
    let tokens = reviewing(process, serving.authentication_kubeconfig.as_deref()).await?;
    let rights = reviewing(process, serving.authorization_kubeconfig.as_deref()).await?;
    let (trust, trust_is_due) = trust(&serving.authentication, &tokens).await?;
    let trust = Arc::new(trust);
    let reviews = |client| KubeReviews::new(client, process.random.clone(), process.families.auth.clone());
    let access = Access::new(
        &serving.authentication,
        &serving.authorization,
        Arc::clone(&trust),
        Some(Arc::new(TwoWays { tokens: reviews(tokens), rights: reviews(rights) })),
        Arc::clone(&process.clock),
        process.families.auth.clone(),
    );
    let site = Arc::new(Site::new(Contents {
        component: UPSTREAM_NAME.to_owned(),
        version: process.config.version.clone(),
        checks: process.checks.clone(),
        metrics: Arc::new(metrics.into_registry()),
        configz: configz(&process.config),
        flags: process.config.flags.clone(),
        log: serving.profiling.then_some(verbosity),
        access,
        clock: Arc::clone(&process.clock),
    }));
    let group = Group::new("serving", CLOSE)
        .task("secure-port", |task| async move {
            server.run(site, &task.stop).await;
            Ok::<(), Infallible>(())
        })
        .task("trust", |task| async move {
            trust.refresh_on_change(&task.stop).await;
            Ok::<(), Infallible>(())
        });
    Ok(Some(Port { group, trust_is_due }))
}

/// Whom to trust. An API server that cannot be reached is no reason to fail yet: it has to be asked again.
async fn trust(options: &Authentication, client: &kube::Client) -> Result<(Trust, bool), TrustError> {
    match Trust::establish(options, Some(client.clone())).await {
        Ok(trust) => Ok((trust, false)),
        Err(error) if is_away(&error) => {
            let patient = Authentication { tolerate_lookup_failure: true, ..options.clone() };
            Ok((Trust::establish(&patient, Some(client.clone())).await?, true))
        }
        Err(error) => Err(error),
    }
}

fn is_away(error: &TrustError) -> bool {
    match error {
        TrustError::TooLate => true,
        TrustError::Lookup(error) => !matches!(**error, kube::Error::Api(_)),
        _ => false,
    }
}

/// Now that the API server is there, what it publishes has to be readable.
pub(super) async fn insist_on_trust(process: &Process) -> Result<(), TrustError> {
    let client = process.clients.named("authentication").build();
    Trust::establish(&process.config.serving.authentication, Some(client)).await.map(drop)
}

/// A client for questions about tokens or rights.
async fn reviewing(process: &Process, kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
    let clients = match kubeconfig {
        None => process.clients.clone(),
        Some(path) => {
            let options =
                client::Options { kubeconfig: Some(path.to_owned()), ..process.config.client.clone() };
            let connected =
                Clients::connect(options, process.random.clone(), process.families.client.clone()).await;
            connected.with_context(|| format!("preparing to ask about clients with {}", path.display()))?
        }
    };
    let named = clients.named("authentication").without_retries();
    Ok(named.sharing(&client::TokenBucket::new(CLIENT_RATE)).build())
}

/// Tokens and rights may be asked about with different credentials.
struct TwoWays {
    tokens: KubeReviews,
    rights: KubeReviews,
}

#[async_trait]
impl Reviews for TwoWays {
    async fn token(&self, token: &log::Secret) -> Result<Option<User>, ReviewError> {
        self.tokens.token(token).await
    }

    async fn access(&self, user: &User, verb: &str, path: &str) -> Result<Decision, ReviewError> {
        self.rights.access(user, verb, path).await
    }
}
