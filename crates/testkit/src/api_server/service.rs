//! The HTTP side: a tower service that turns a request into an answer, with the faults on the way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::{Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::faults::{Fate, Fault};
use super::kinds::KINDS;
use super::list;
use super::output::Output;
use super::route::{self, ObjectTarget, Parameters, Target, Verb};
use super::shared::Handle;
use super::status_error::StatusError;
use super::trace::Request;
use super::transport::TransportError;
use super::verbs;
use super::watch::{self, Watch};

/// How long the real server waits for its cache to reach a version that was asked for.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The body of an answer: whole, or a watch that goes on.
pub type AnswerBody = UnsyncBoxBody<Bytes, TransportError>;
type Answer = Result<Response<AnswerBody>, TransportError>;

/// The service behind [`crate::ApiServer::client`], for clients that are built with layers of their own.
#[derive(Debug, Clone)]
pub struct Frontend {
    pub(crate) shared: Handle,
    pub(crate) user_agent: Arc<str>,
}

impl tower::Service<http::Request<Body>> for Frontend {
    type Response = Response<AnswerBody>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), TransportError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let frontend = self.clone();
        Box::pin(async move { frontend.answer(request).await })
    }
}

/// A request, understood.
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) parameters: Parameters,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) output: Output,
    pub(crate) fate: Fate,
}

impl Frontend {
    async fn answer(self, request: http::Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(|_| TransportError::Body)?;
        let understood = self.understand(&parts, body);
        let call = match understood {
            Ok(call) => call,
            Err((number, error)) => {
                sleep(self.shared.latency()).await;
                return Ok(self.refuse(number, &error));
            }
        };
        self.refused_while_down(&call)?;
        sleep(self.shared.latency() + call.fate.delay).await;
        self.refused_while_down(&call)?;
        if let Some(failed) = self.fail_before(&call).await {
            return failed;
        }
        let answer = self.carry_out(&call).await;
        match call.fate.failure {
            Some(Fault::LostAnswer) => {
                self.shared.recorder().answered(
                    call.number,
                    self.shared.elapsed(),
                    0,
                    format_args!("applied, answer lost"),
                );
                Err(TransportError::Reset)
            }
            Some(Fault::HangAfterApplying) => {
                self.shared.recorder().answered(
                    call.number,
                    self.shared.elapsed(),
                    0,
                    format_args!("applied, never answered"),
                );
                std::future::pending().await
            }
            _ => Ok(answer),
        }
    }

    /// Reads the request, records it and decides its fate.
    fn understand(&self, parts: &http::request::Parts, body: Bytes) -> Result<Call, (u64, StatusError)> {
        let header = |name: header::HeaderName| {
            parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        let parameters = route::parameters(parts.uri.query());
        let target = route::target(parts.uri.path());
        let verb = match &target {
            Ok(target) => route::verb(&parts.method, target, &parameters),
            Err(error) => Err(error.clone()),
        };
        let content_type = header(header::CONTENT_TYPE);
        let json: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let agent = header(header::USER_AGENT);
        let mut record = Request {
            number: 0,
            at: self.shared.elapsed(),
            verb: verb.as_ref().copied().unwrap_or(Verb::Get),
            kind: parts.uri.path().to_owned(),
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            content_type: content_type.clone(),
            body: json,
            query: parts.uri.query().unwrap_or_default().trim_start_matches('&').to_owned(),
            user_agent: if self.user_agent.is_empty() { agent } else { self.user_agent.as_ref().to_owned() },
            code: 0,
        };
        if let Ok(target) = &target {
            describe(&mut record, target);
        }
        let fate = match (&target, &verb) {
            (Ok(_), Ok(_)) => self.shared.faults().decide(&record),
            _ => Fate::default(),
        };
        let number = self.shared.recorder().received(record);
        let (target, verb) = match (target, verb) {
            (Ok(target), Ok(verb)) => (target, verb),
            (Err(error), _) | (_, Err(error)) => return Err((number, error)),
        };
        let output = Output::negotiated(&header(header::ACCEPT));
        Ok(Call { number, verb, target, parameters, content_type, body, output, fate })
    }

    fn refused_while_down(&self, call: &Call) -> Result<(), TransportError> {
        let now = self.shared.elapsed();
        if now >= self.shared.faults().down_until {
            return Ok(());
        }
        self.shared.recorder().answered(call.number, now, 0, format_args!("refused"));
        Err(TransportError::Refused)
    }

    /// The faults that happen instead of the request.
    async fn fail_before(&self, call: &Call) -> Option<Answer> {
        let error = match call.fate.failure.as_ref()? {
            Fault::InternalError => {
                StatusError::new(500, "InternalError", "Internal error occurred: injected fault")
            }
            Fault::Unavailable => StatusError::new(
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            Fault::Throttled(after) => {
                StatusError::new(429, "TooManyRequests", "Too many requests, please try again later.")
                    .retrying_after(*after)
            }
            Fault::Forbidden => forbidden(call),
            Fault::Timeout(after) => {
                sleep(*after).await;
                StatusError::new(
                    504,
                    "Timeout",
                    "Timeout: request did not complete within the allotted timeout",
                )
            }
            Fault::Conflict if call.verb.is_write() => match &call.target {
                Target::Object(target) => {
                    StatusError::modified(target.kind(), target.name.as_deref().unwrap_or_default())
                }
                _ => return None,
            },
            Fault::Hang => {
                self.shared.recorder().answered(
                    call.number,
                    self.shared.elapsed(),
                    0,
                    format_args!("never answered"),
                );
                std::future::pending().await
            }
            Fault::Refused => {
                self.shared.recorder().answered(
                    call.number,
                    self.shared.elapsed(),
                    0,
                    format_args!("refused"),
                );
                return Some(Err(TransportError::Refused));
            }
            _ => return None,
        };
        Some(Ok(self.refuse(call.number, &error)))
    }

    async fn carry_out(&self, call: &Call) -> Response<AnswerBody> {
        let now = self.shared.elapsed();
        self.shared.state().store.age(now);
        let outcome = match (&call.target, call.verb) {
            (Target::Object(target), Verb::Watch) => return self.watch(call, target),
            (Target::Object(target), Verb::List) => self.list(call, target).await,
            (Target::Object(target), Verb::Get) => self.get(call, target).await,
            _ => {
                let before = self.shared.revision();
                let outcome = verbs::carry_out(&self.shared, call);
                self.shared.check_invariants(before);
                outcome
            }
        };
        match outcome {
            Ok((code, body)) => self.respond(call.number, code, body),
            Err(error) => self.refuse(call.number, &error),
        }
    }

    /// Waits until the cache has reached the version, as long as the real server would.
    async fn wait_for_version(&self, call: &Call, version: u64) -> Result<(), StatusError> {
        let behind = call.fate.revisions_behind;
        let deadline = self.shared.elapsed() + FRESHNESS_WAIT;
        loop {
            let cached = self.shared.cached_revision(behind);
            if cached >= version {
                return Ok(());
            }
            if self.shared.elapsed() >= deadline {
                return Err(StatusError::too_large_version(version, cached));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn list(&self, call: &Call, target: &ObjectTarget) -> Result<(u16, Bytes), StatusError> {
        let query = list::Query::parse(target.kind(), &call.parameters)?;
        if let Some(version) = query.needs() {
            self.wait_for_version(call, version).await?;
        }
        let cached = self.shared.cached_revision(call.fate.revisions_behind);
        let page = query.run(&self.shared.state(), target, cached)?;
        Ok((200, call.output.page(target.kind(), &page)))
    }

    async fn get(&self, call: &Call, target: &ObjectTarget) -> Result<(u16, Bytes), StatusError> {
        let name = target.name.as_deref().unwrap_or_default();
        let version = call.parameters.get("resourceVersion").map(String::as_str).unwrap_or_default();
        let key = super::store::Key::new(&target.namespace, name);
        let found = if version.is_empty() {
            self.shared.state().store.get(target.kind, &key).cloned()
        } else {
            self.wait_for_version(call, version.parse().unwrap_or_default()).await?;
            let cached = self.shared.cached_revision(call.fate.revisions_behind);
            let state = self.shared.state();
            let mut objects = state.store.objects_at(target.kind, cached).unwrap_or_default();
            objects.remove(&key)
        };
        let object = found.ok_or_else(|| StatusError::not_found(&KINDS[target.kind], name))?;
        Ok((200, call.output.object(&object)))
    }

    fn watch(&self, call: &Call, target: &ObjectTarget) -> Response<AnswerBody> {
        let query = match watch::Query::parse(target, &call.parameters) {
            Ok(query) => query,
            Err(error) => return self.refuse(call.number, &error),
        };
        self.shared.recorder().answered(
            call.number,
            self.shared.elapsed(),
            200,
            format_args!("200 watching"),
        );
        let watch = Watch::start(watch::Start {
            shared: Arc::clone(&self.shared),
            number: call.number,
            target: target.clone(),
            query,
            output: call.output,
            fate: call.fate.clone(),
        });
        let frames = stream::unfold(watch, |mut watch| async move {
            let piece = watch.next().await?;
            Some((piece.map(Frame::data), watch))
        });
        answer(200, StreamBody::new(frames).boxed_unsync())
    }

    fn respond(&self, number: u64, code: u16, body: Bytes) -> Response<AnswerBody> {
        self.shared.recorder().answered(number, self.shared.elapsed(), code, format_args!("{code}"));
        answer(code, whole(body))
    }

    fn refuse(&self, number: u64, error: &StatusError) -> Response<AnswerBody> {
        let at = self.shared.elapsed();
        self.shared.recorder().answered(
            number,
            at,
            error.code,
            format_args!("{} {}", error.code, error.message),
        );
        let body = Bytes::from(error.to_value().to_string());
        let mut response = answer(error.code, whole(body));
        if let Some(after) = error.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}

fn whole(body: Bytes) -> AnswerBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn answer(code: u16, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Fills in what the target says about the request.
fn describe(record: &mut Request, target: &Target) {
    match target {
        Target::Object(object) => {
            object.kind().kind.clone_into(&mut record.kind);
            record.namespace.clone_from(&object.namespace);
            let inside = record.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            record.name = object.name.clone().unwrap_or(inside);
            record.subresource = object.subresource.clone().unwrap_or_default();
        }
        Target::Review(kind) => (*kind).clone_into(&mut record.kind),
        Target::Token { namespace, name } => {
            "ServiceAccount".clone_into(&mut record.kind);
            record.namespace.clone_from(namespace);
            record.name.clone_from(name);
            "token".clone_into(&mut record.subresource);
        }
        Target::Version | Target::Health => {}
    }
}

fn forbidden(call: &Call) -> StatusError {
    match &call.target {
        Target::Object(target) => {
            let kind = target.kind();
            let why = format!(
                "User \"system:serviceaccount:kube-system:cloud-controller-manager\" cannot {} resource {:?} in API \
                 group {:?} at the cluster scope",
                call.verb, kind.plural, kind.group
            );
            StatusError::forbidden(kind, target.name.as_deref().unwrap_or_default(), why)
        }
        _ => StatusError::new(403, "Forbidden", json!("forbidden").to_string()),
    }
}
