//! A service account for each controller: its requests carry a token of its own, asked for with `TokenRequest`, so that
//! the API server's audit log and RBAC tell the controllers apart.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use cloud_provider::well_known::leases;
use controller_kit::client::{Bearer, Clients};
use controller_kit::lifecycle::{Group, Shutdown};
use controller_kit::log::{Secret, report};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::Process;

/// How long a token is asked for, and the least that is taken for its life.
const LIFE: Duration = Duration::from_secs(3600);
const LEAST_LIFE: Duration = Duration::from_secs(600);

/// What is waited after a failure, first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The clients of all accounts.
pub(super) struct Credentials {
    /// The way to the API server, with nobody's credentials.
    way: Clients,
    accounts: BTreeMap<&'static str, Account>,
}

struct Account {
    clients: Clients,
    token: Arc<Token>,
}

/// The token of one account, once there is one.
struct Token {
    current: watch::Sender<Option<Secret>>,
    /// Told when the API server did not take it.
    refused: Notify,
}

impl Credentials {
    /// Prepares a client for each account; nothing is sent yet.
    pub(super) async fn prepare(process: &Process, accounts: &[&'static str]) -> anyhow::Result<Self> {
        let (random, metrics) = (process.random.clone(), process.families.client.clone());
        let way = Clients::connect_anonymously(process.config.client.clone(), random, metrics)
            .await
            .context("setting up the connection for service accounts")?;
        let account = |name: &'static str| {
            let token = Arc::new(Token { current: watch::Sender::new(None), refused: Notify::new() });
            (name, Account { clients: way.bearing(Arc::clone(&token) as _), token })
        };
        let accounts = accounts.iter().copied().map(account).collect();
        Ok(Self { way, accounts })
    }

    /// The client of an account.
    pub(super) fn client(&self, account: &str) -> Option<kube::Client> {
        let clients = &self.accounts.get(account)?.clients;
        Some(clients.named(&format!("system:serviceaccount:{}:{account}", leases::NAMESPACE)).build())
    }

    /// Keeps every token fresh.
    pub(super) fn group(&self, process: &Process) -> Group {
        let root = process.clients.named("token-request").build();
        let way = self.way.clone();
        let mut group = Group::new("credentials", Duration::from_secs(1)).task("way", |task| async move {
            task.ready.complete();
            way.reload_on_change(&task.stop).await;
            Ok::<(), Infallible>(())
        });
        for (name, account) in &self.accounts {
            let api: Api<ServiceAccount> = Api::namespaced(root.clone(), leases::NAMESPACE);
            let (name, token) = (*name, Arc::clone(&account.token));
            group = group.task(name, move |task| async move {
                task.ready.complete();
                keep_fresh(&api, name, &token, &task.stop).await;
                Ok::<(), Infallible>(())
            });
        }
        group
    }
}

/// Asks for a token, and for the next when a fifth of its life is left or the API server refuses it.
async fn keep_fresh(api: &Api<ServiceAccount>, name: &str, token: &Token, stop: &Shutdown) {
    let mut pause = PAUSE;
    loop {
        let Some(asked) = stop.or_stop(ask(api, name)).await else { return };
        let again = match asked {
            Ok((secret, life)) => {
                token.current.send_replace(Some(secret));
                pause = PAUSE;
                Instant::now() + life.max(LEAST_LIFE).mul_f64(0.8)
            }
            Err(error) => {
                tracing::warn!(account = name, why = %report(&error), "Cannot get a token for a service account");
                let again = Instant::now() + pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                again
            }
        };
        let wait = async {
            // A token that is refused before its time is worth a new one, but not more than one a moment.
            if timeout_at(again, token.refused.notified()).await.is_ok() {
                sleep(PAUSE).await;
            }
        };
        if stop.or_stop(wait).await.is_none() {
            return;
        }
    }
}

async fn ask(api: &Api<ServiceAccount>, name: &str) -> Result<(Secret, Duration), kube::Error> {
    if api.get_opt(name).await?.is_none() {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        api.create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() }).await?;
    }
    let seconds = i64::try_from(LIFE.as_secs()).ok();
    let spec = TokenRequestSpec { expiration_seconds: seconds, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = api.create_token_request(name, &PostParams::default(), &request).await?;
    let granted = answer.spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    Ok((Secret::new(token), granted.map_or(LIFE, Duration::from_secs)))
}

#[async_trait]
impl Bearer for Token {
    async fn token(&self) -> Secret {
        let mut current = self.current.subscribe();
        // The sender is ours, so that it cannot go while we wait.
        let token = current.wait_for(Option::is_some).await.ok().and_then(|token| token.clone());
        token.unwrap_or_else(|| Secret::new(String::new()))
    }

    fn refused(&self) {
        self.refused.notify_one();
    }
}
