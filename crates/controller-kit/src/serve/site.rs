//! What is served on the port: which paths there are, who may see them, and what they show.
//!
//! A path that is not served is answered at once, before anybody is asked anything: a storm of made-up paths costs the
//! API server nothing, and the paths of a published program are no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::Instant;

use super::answer::{self, Answer};
use super::auth::Access;
use super::health::{Checks, Endpoint};
use super::{Application, exposition, pages};
use crate::clock::SharedClock;
use crate::log::Handle;
use crate::metrics;

/// What the pages are made from.
pub struct Contents {
    /// The program's name, as `/statusz` and `/flagz` show it.
    pub component: String,
    /// Its version.
    pub version: String,
    /// What the health endpoints ask.
    pub checks: Checks,
    /// What `/metrics` shows.
    pub metrics: Arc<Registry>,
    /// What `/configz` shows: by group name, the configuration in force. It must hold no secret.
    pub configz: BTreeMap<String, Value>,
    /// What `/flagz` shows: the flags in force by name. It must hold no secret.
    pub flags: BTreeMap<String, String>,
    /// What `/debug/flags/v` changes; without it (`--profiling=false`) that path is not served.
    pub log: Option<Handle>,
    /// Who may see all this.
    pub access: Access,
    /// Tells `/statusz` the time.
    pub clock: SharedClock,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").field("component", &self.component).finish_non_exhaustive()
    }
}

/// The pages of a process.
#[derive(Debug)]
pub struct Site {
    contents: Contents,
    slis: Registry,
    started: (Timestamp, Instant),
}

/// What a path stands for.
#[derive(Debug, PartialEq, Eq)]
enum Page {
    Health(Endpoint),
    Check(Endpoint, String),
    Metrics,
    Slis,
    Configz,
    Statusz,
    Flagz,
    Verbosity,
}

impl Site {
    /// The process counts as started now.
    pub fn new(contents: Contents) -> Self {
        let mut slis = Registry::default();
        contents.checks.slis().register(&mut slis);
        let started = (contents.clock.now(), Instant::now());
        Self { contents, slis, started }
    }

    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/metrics" => return Some(Page::Metrics),
            "/metrics/slis" => return Some(Page::Slis),
            "/configz" => return Some(Page::Configz),
            "/statusz" => return Some(Page::Statusz),
            "/flagz" => return Some(Page::Flagz),
            "/debug/flags/v" => return self.contents.log.is_some().then_some(Page::Verbosity),
            _ => {}
        }
        let (endpoint, check) = path.strip_prefix('/').map(|path| match path.split_once('/') {
            Some((endpoint, check)) => (endpoint, Some(check)),
            None => (path, None),
        })?;
        let all = [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz];
        let endpoint = all.into_iter().find(|known| known.name() == endpoint)?;
        match check {
            None => Some(Page::Health(endpoint)),
            Some(check) => {
                self.contents.checks.knows(endpoint, check).then(|| Page::Check(endpoint, check.to_owned()))
            }
        }
    }

    fn show(&self, page: &Page, request: &Request<Bytes>) -> Answer {
        let query = |name: &str| -> Vec<String> {
            let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
            pairs.filter(|(key, _)| key == name).map(|(_, value)| value.into_owned()).collect()
        };
        match page {
            Page::Health(endpoint) => {
                let exclude: BTreeSet<String> = query("exclude").into_iter().collect();
                self.contents.checks.ask(*endpoint, exclude).answer(!query("verbose").is_empty())
            }
            Page::Check(endpoint, name) => match self.contents.checks.ask_one(*endpoint, name) {
                None => not_found(),
                Some(Ok(())) => answer::text(StatusCode::OK, "ok"),
                Some(Err(error)) => answer::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("internal server error: {}\n", crate::log::report(error.as_ref())),
                ),
            },
            Page::Metrics => scrape(&self.contents.metrics, request.headers()),
            Page::Slis if request.method() == Method::DELETE => {
                self.contents.checks.slis().reset();
                answer::text(StatusCode::OK, "metrics reset\n")
            }
            Page::Slis => scrape(&self.slis, request.headers()),
            Page::Configz => {
                let configz = self.contents.configz.iter().map(|(name, value)| (name.clone(), value.clone()));
                answer::json(StatusCode::OK, &Value::Object(configz.collect()))
            }
            Page::Statusz => pages::status(&pages::Status {
                component: &self.contents.component,
                version: &self.contents.version,
                started: self.started.0,
                up: self.started.1.elapsed(),
                verbosity: self.contents.log.as_ref().map(Handle::verbosity),
            }),
            Page::Flagz => pages::flags(&self.contents.component, &self.contents.flags),
            Page::Verbosity => match &self.contents.log {
                Some(log) if request.method() == Method::PUT => pages::set_verbosity(log, request.body()),
                Some(log) => answer::text(StatusCode::OK, format!("{}\n", log.verbosity())),
                None => not_found(),
            },
        }
    }
}

#[async_trait]
impl Application for Site {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let Some(page) = self.page(request.uri().path()) else { return not_found() };
        let also = match page {
            Page::Slis => Some(Method::DELETE),
            Page::Verbosity => Some(Method::PUT),
            _ => None,
        };
        let method = request.method();
        if method != Method::GET && method != Method::HEAD && also.as_ref() != Some(method) {
            return not_allowed(also.as_ref());
        }
        if let Err(refusal) = self.contents.access.admit(&request).await {
            return *refusal;
        }
        let mut answer = self.show(&page, &request);
        if request.method() == Method::HEAD {
            *answer.body_mut() = Full::default();
        }
        answer
    }
}

fn scrape(registry: &Registry, headers: &HeaderMap) -> Answer {
    match metrics::encode(registry) {
        Err(_) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "encoding the metrics failed\n"),
        Ok(text) if exposition::wants_openmetrics(headers) => {
            answer::of(StatusCode::OK, metrics::CONTENT_TYPE, text)
        }
        Ok(text) => answer::of(StatusCode::OK, exposition::PROMETHEUS, exposition::prometheus(&text)),
    }
}

fn not_found() -> Answer {
    answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn not_allowed(also: Option<&Method>) -> Answer {
    let mut answer = answer::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    let allow = match also.map(Method::as_str) {
        Some("PUT") => "GET, HEAD, PUT",
        Some("DELETE") => "GET, HEAD, DELETE",
        _ => "GET, HEAD",
    };
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    answer
}
