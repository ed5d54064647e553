//! How the API server is asked who a token belongs to and what somebody may do: `TokenReview` and
//! `SubjectAccessReview`, with upstream's deadline and retries.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::authorize::Decision;
use super::{Metrics, User};
use crate::client::Rate;
use crate::log::Secret;
use crate::random::Randomness;

/// What the client that reviews go through may spend, as upstream's.
pub const CLIENT_RATE: Rate = Rate { qps: 200.0, burst: 400 };

/// How long a review may take, its retries included.
const WITHIN: Duration = Duration::from_secs(10);
/// How many reviews of a kind are under way at once; others wait. A flood of made-up tokens then neither floods the API
/// server nor runs up a debt in the client's budget that honest clients would pay.
const AT_ONCE: usize = 64;
/// How often a review is tried, how long the first pause is, by how much pauses grow, and how much chance adds.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);
const GROWTH: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Why a review brought no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReviewError {
    /// The API server refused it or could not be reached.
    #[error("asking the API server for a {kind}")]
    Failed {
        /// Which review.
        kind: &'static str,
        /// Why; shared, because several may have waited for this answer.
        #[source]
        source: Arc<kube::Error>,
    },
    /// It took too long.
    #[error("asking the API server for a {0} took more than {within}s", within = WITHIN.as_secs())]
    TooLate(&'static str),
    /// The review was made and came to an error.
    #[error("reviewing on the API server: {0}")]
    Reviewed(String),
}

/// Somebody who knows tokens and rights.
#[async_trait]
pub trait Reviews: Send + Sync + 'static {
    /// Whose token this is; `None` if nobody's.
    async fn token(&self, token: &Secret) -> Result<Option<User>, ReviewError>;

    /// Whether `user` may `verb` a path; if not, why.
    async fn access(&self, user: &User, verb: &str, path: &str) -> Result<Decision, ReviewError>;
}

/// Asks the API server.
#[derive(Clone)]
pub struct KubeReviews {
    tokens: (Api<TokenReview>, Arc<Semaphore>),
    rights: (Api<SubjectAccessReview>, Arc<Semaphore>),
    random: Randomness,
    metrics: Metrics,
}

impl std::fmt::Debug for KubeReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeReviews").finish_non_exhaustive()
    }
}

impl KubeReviews {
    /// `client` should retry nothing itself and have a budget of [`CLIENT_RATE`].
    pub fn new(client: kube::Client, random: Randomness, metrics: Metrics) -> Self {
        let slots = || Arc::new(Semaphore::new(AT_ONCE));
        let (tokens, rights) = ((Api::all(client.clone()), slots()), (Api::all(client), slots()));
        Self { tokens, rights, random, metrics }
    }

    async fn create<K>(
        &self,
        (api, slots): &(Api<K>, Arc<Semaphore>),
        kind: &'static str,
        review: &K,
    ) -> Result<K, ReviewError>
    where
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let attempts = async {
            // It fails only when the semaphore is closed, which nobody does.
            let _slot = slots.acquire().await;
            let mut pause = PAUSE;
            let mut attempt = 1;
            loop {
                let started = Instant::now();
                let answer = api.create(&PostParams::default(), review).await;
                self.metrics.reviewed(kind, answer.as_ref().err(), started.elapsed());
                match answer {
                    Err(error) if attempt < ATTEMPTS && is_worth_a_retry(&error) => {
                        tokio::time::sleep(self.random.jitter(pause, JITTER)).await;
                        (pause, attempt) = (pause.mul_f64(GROWTH), attempt + 1);
                    }
                    answer => {
                        return answer.map_err(|source| ReviewError::Failed { kind, source: source.into() });
                    }
                }
            }
        };
        tokio::time::timeout(WITHIN, attempts).await.map_err(|_| ReviewError::TooLate(kind))?
    }
}

/// Upstream's rule: an internal error, too many requests, a timeout of the server, or a connection that was reset.
fn is_worth_a_retry(error: &kube::Error) -> bool {
    if let kube::Error::Api(status) = error {
        return matches!(status.code, 429 | 500 | 503 | 504);
    }
    let chain =
        std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
    let mut kinds =
        chain.filter_map(|error| error.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    kinds.any(|kind| kind == std::io::ErrorKind::ConnectionReset)
}

#[async_trait]
impl Reviews for KubeReviews {
    async fn token(&self, token: &Secret) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: Some(token.expose().to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = self.create(&self.tokens, "TokenReview", &review).await?.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return match status.error.filter(|error| !error.is_empty()) {
                Some(error) => Err(ReviewError::Reviewed(error)),
                None => Ok(None),
            };
        }
        let info = status.user.unwrap_or_default();
        Ok(Some(User {
            name: info.username.unwrap_or_default(),
            uid: info.uid.unwrap_or_default(),
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }))
    }

    async fn access(&self, user: &User, verb: &str, path: &str) -> Result<Decision, ReviewError> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: Some(user.uid.clone()),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                non_resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status =
            self.create(&self.rights, "SubjectAccessReview", &review).await?.status.unwrap_or_default();
        if status.allowed && status.denied != Some(true) {
            return Ok(Decision::Allowed);
        }
        Ok(Decision::Denied(status.reason.unwrap_or_default()))
    }
}
