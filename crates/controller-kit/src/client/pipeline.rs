//! What happens to a request between a client and the connection pool, from the outside in: budget, deadline, retries
//! where the server asks for them, metrics, one log line per attempt. Neither headers nor bodies are ever logged.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::bearer::{self, Bearer};
use super::body::TimedBody;
use super::bucket::TokenBucket;
use super::metrics::Metrics;
use super::redact::redacted;
use super::transport::Transport;
use crate::random::Randomness;

/// How often a request is sent again when the server asks for it; client-go's number.
const MAX_RETRIES: u32 = 10;

/// How long to wait when the server is too busy to say for how long.
const BUSY: Duration = Duration::from_secs(1);

/// The server did not answer a request completely before its deadline.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{method} {path} was not answered within {} s", within.as_secs_f64())]
pub struct TimedOut {
    /// The HTTP method.
    pub method: String,
    /// The path that was asked for, without its query.
    pub path: String,
    /// How long it was given.
    pub within: Duration,
}

/// Everything that a named client does in its own way.
pub(super) struct Plan {
    pub(super) transport: Arc<Transport>,
    pub(super) user_agent: String,
    pub(super) bucket: Option<TokenBucket>,
    pub(super) retries: bool,
    pub(super) timeout: Duration,
    pub(super) random: Randomness,
    pub(super) metrics: Metrics,
    pub(super) bearer: Option<Arc<dyn Bearer>>,
}

/// A plan as a tower service.
#[derive(Clone)]
pub(super) struct Pipeline(Arc<Plan>);

impl Pipeline {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Arc::new(plan))
    }
}

impl Service<Request<Body>> for Pipeline {
    type Response = Response<TimedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let plan = self.0.clone();
        async move { plan.send(request).await }.boxed()
    }
}

impl Plan {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<TimedBody>, BoxError> {
        if let Ok(user_agent) = HeaderValue::from_str(&self.user_agent) {
            request.headers_mut().entry(USER_AGENT).or_insert(user_agent);
        }
        let (verb, host) = (request.method().to_string(), self.transport.host());
        self.spend(&verb, &host).await;
        let watch = is_watch(request.uri());
        let began = Instant::now();
        let deadline = began + self.timeout;
        let timed_out =
            TimedOut { method: verb.clone(), path: request.uri().path().to_owned(), within: self.timeout };
        let attempts = tokio::time::timeout_at(deadline, self.attempts(request, deadline));
        let Ok(answer) = attempts.await else {
            self.metrics.answered(&verb, &host, None);
            return Err(timed_out.into());
        };
        if !watch {
            // client-go does not time watches, whose end is not the server's answer.
            self.metrics.took(&verb, &host, began.elapsed());
        }
        // A watch streams as long as it likes, but its head must arrive in time.
        Ok(answer?.map(|body| TimedBody::new(body, (!watch).then_some((deadline, timed_out)))))
    }

    async fn spend(&self, verb: &str, host: &str) {
        if let Some(bucket) = &self.bucket {
            let waited = bucket.take().await;
            self.metrics.throttled(verb, host, waited);
        }
    }

    async fn attempts(&self, request: Request<Body>, deadline: Instant) -> Result<Response<Body>, BoxError> {
        let mut request = request;
        let mut retries = 0;
        loop {
            let again = if self.retries { copy(&request) } else { None };
            let (verb, host) = (request.method().to_string(), self.transport.host());
            let answer = self.attempt(request, &verb, &host).await?;
            let Some(again) = again.filter(|_| retries < MAX_RETRIES) else { return Ok(answer) };
            let Some(pause) = asked_pause(&answer) else { return Ok(answer) };
            let pause = self.random.jitter(pause, 0.2);
            // An answer now is worth more than a timeout later.
            if Instant::now() + pause >= deadline {
                return Ok(answer);
            }
            self.metrics.retried(&verb, &host, answer.status().as_u16());
            tokio::time::sleep(pause).await;
            self.spend(&verb, &host).await;
            request = again;
            retries += 1;
        }
    }

    async fn attempt(
        &self,
        mut request: Request<Body>,
        verb: &str,
        host: &str,
    ) -> Result<Response<Body>, BoxError> {
        if let Some(bearer) = &self.bearer {
            bearer::sign(&**bearer, &mut request).await?;
        }
        let uri = request.uri().clone();
        let began = Instant::now();
        let answer = self.transport.send(request).await;
        if let (Some(bearer), Ok(answer)) = (&self.bearer, &answer) {
            bearer::heed(&**bearer, answer);
        }
        let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        self.metrics.answered(verb, host, code);
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match answer {
            Ok(answer) => {
                tracing::trace!(v = 6, verb, host, %uri, status = code, milliseconds, "Response");
                Ok(answer)
            }
            Err(error) => {
                let error = redacted(error);
                tracing::trace!(v = 6, verb, host, %uri, milliseconds, err = %crate::log::report(&*error), "No response");
                Err(error)
            }
        }
    }
}

/// Requests that outlive any deadline by design.
fn is_watch(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or("").split('&');
    pairs.any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"))
}

/// The same request once more; a body that streams cannot be repeated.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

/// How long the server wants us to wait before we ask again. A server that does not say so may have done part of
/// the work, so the answer goes to the caller.
fn asked_pause(answer: &Response<Body>) -> Option<Duration> {
    let status = answer.status();
    let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    match after {
        Some(seconds) if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            Some(Duration::from_secs(seconds))
        }
        None if status == StatusCode::TOO_MANY_REQUESTS => Some(BUSY),
        _ => None,
    }
}
