//! Keeps a cache's store in step with the API server: list, watch, and what to do when either fails.
//!
//! kube's own watcher is not used: after a gap it lists from whichever server cache answers, however far behind, and
//! its back-off draws from its own randomness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::StatusCode;
use http_body_util::BodyExt as _;
use kube::api::{ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::key::Key;
use super::list::Splitter;
use super::store::Listing;
use super::{Inner, Object};
use crate::log::report;

/// For how long the storage itself has to answer from the past until that past is taken for the present.
pub const REWOUND_AFTER: Duration = Duration::from_secs(60);

/// Objects per page, where the server pages at all.
const PAGE: u32 = 500;

/// How long a watch is asked to last: drawn between the two, so that caches do not reconnect in step.
const WATCH_SECONDS: (u32, u32) = (200, 290);

/// How much longer than asked a watch may stay silent before its connection counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// A watch that ends sooner than this, with nothing to tell, did not work.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("asking the API server")]
    Request(#[source] kube::Error),
    #[error("building the request")]
    Build(#[source] kube::core::request::Error),
    #[error("the API server answered {}: {}", .0.code, .0.message)]
    Refused(Box<Status>),
    #[error("reading the answer")]
    Read(#[source] kube::Error),
    #[error("decoding an object of the list")]
    Object(#[source] serde_json::Error),
    #[error("decoding the list")]
    Envelope(#[source] serde_json::Error),
    #[error("the list has no resource version")]
    NoVersion,
    #[error("the watch ended at once and told nothing")]
    TooShort,
}

impl Error {
    fn code(&self) -> u16 {
        match self {
            Self::Refused(status)
            | Self::Request(kube::Error::Api(status))
            | Self::Read(kube::Error::Api(status)) => status.code,
            _ => 0,
        }
    }

    /// The version from which we wanted to go on is no longer, or not yet, known there.
    fn is_out_of_window(&self) -> bool {
        matches!(self.code(), 410 | 504)
    }
}

/// How fresh a list has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Freshness {
    /// Whatever the server has in its cache: for the first list, when nothing is known that could be rolled back.
    Any,
    /// The server's cache, but not older than this.
    Since(String),
    /// From the storage. Asked for when the server's cache failed us.
    Latest,
}

/// Runs for ever; its caller stops it by dropping it.
pub(super) async fn run<K: Object>(cache: &Inner<K>) {
    let mut reflector = Reflector {
        cache,
        backoff: Backoff::new(cache.random.clone()),
        freshness: Freshness::Any,
        behind_since: None,
        failing: false,
    };
    loop {
        let from = reflector.list_until_it_works().await;
        reflector.watch_until_out_of_window(from).await;
    }
}

struct Reflector<'a, K> {
    cache: &'a Inner<K>,
    backoff: Backoff,
    /// For the next list.
    freshness: Freshness,
    /// Since when the storage has answered from the past.
    behind_since: Option<Instant>,
    /// A failure was reported and no success yet: each trouble is told once, and once that it is over.
    failing: bool,
}

impl<K: Object> Reflector<'_, K> {
    /// Lists until a list can be used; answers the version from which to watch.
    async fn list_until_it_works(&mut self) -> String {
        loop {
            match list(self.cache, &self.freshness).await {
                Ok(listing) => {
                    let version = listing.resource_version.clone();
                    if self.take(listing) {
                        self.recovered();
                        self.freshness = Freshness::Since(version.clone());
                        return version;
                    }
                    self.cache.metrics.listed("stale");
                    self.fails("the list is older than what is already known");
                }
                Err(error) => {
                    self.cache.metrics.listed("error");
                    self.fails(&report(&error).to_string());
                }
            }
            if self.freshness != Freshness::Any {
                self.freshness = Freshness::Latest;
            }
            self.backoff.pause().await;
        }
    }

    /// Puts a list into the store unless it comes from the past.
    fn take(&mut self, listing: Listing<K>) -> bool {
        if !self.cache.read().store.is_behind(&listing.resource_version) {
            self.behind_since = None;
            self.cache.change(|store| store.replace(listing));
        } else if self.freshness == Freshness::Latest && self.is_rewound() {
            tracing::warn!(kind = %K::kind(&()), "The storage was set back; taking its older state for the present");
            self.behind_since = None;
            self.cache.change(|store| store.rewind(listing));
        } else {
            return false;
        }
        self.cache.metrics.listed("success");
        self.cache.mark_synced();
        true
    }

    /// Called with an answer of the storage itself that lies in the past.
    fn is_rewound(&mut self) -> bool {
        self.behind_since.get_or_insert_with(Instant::now).elapsed() >= REWOUND_AFTER
    }

    /// Watches, again and again, from the last version seen.
    async fn watch_until_out_of_window(&mut self, from: String) {
        let mut version = from;
        loop {
            let result = self.watch(&mut version).await;
            self.freshness = Freshness::Since(version.clone());
            match result {
                Ok(()) => {
                    self.cache.metrics.watched("success");
                    self.works();
                }
                Err(error) if error.is_out_of_window() => {
                    self.cache.metrics.watched("expired");
                    tracing::debug!(kind = %K::kind(&()), version, "Cannot resume the watch; listing again");
                    self.backoff.pause().await;
                    return;
                }
                Err(error) => {
                    self.cache.metrics.watched("error");
                    self.fails(&report(&error).to_string());
                    let undecodable = matches!(error, Error::Read(kube::Error::SerdeError(_)));
                    self.backoff.pause().await;
                    if undecodable {
                        return;
                    }
                }
            }
        }
    }

    /// One watch, until its end. `version` follows what it tells.
    async fn watch(&mut self, version: &mut String) -> Result<(), Error> {
        let seconds = self.watch_seconds();
        let parameters = WatchParams {
            label_selector: self.cache.scope.label_selector.clone(),
            field_selector: self.cache.scope.field_selector.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let request = request(self.cache).watch(&parameters, version).map_err(Error::Build)?;
        let began = Instant::now();
        let events = self.cache.client.request_events::<K>(request).await.map_err(Error::Request)?;
        self.cache.change(|_| Vec::new());
        let mut events = events.boxed();
        let patience = Duration::from_secs(seconds.into()) + WATCH_GRACE;
        let mut told = 0_u64;
        while let Ok(Some(event)) = tokio::time::timeout(patience, events.next()).await {
            self.tell(event.map_err(Error::Read)?, version)?;
            told += 1;
            self.works();
        }
        if told == 0 && began.elapsed() < SHORTEST_WATCH { Err(Error::TooShort) } else { Ok(()) }
    }

    fn tell(&self, event: WatchEvent<K>, version: &mut String) -> Result<(), Error> {
        let follow = |version: &mut String, seen: Option<&String>| {
            if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
                version.clone_from(seen);
            }
        };
        match event {
            WatchEvent::Added(mut object) | WatchEvent::Modified(mut object) => {
                self.cache.trim.apply(&mut object);
                follow(version, object.meta().resource_version.as_ref());
                self.cache.change(|store| store.apply(object));
            }
            WatchEvent::Deleted(mut object) => {
                self.cache.trim.apply(&mut object);
                follow(version, object.meta().resource_version.as_ref());
                self.cache.change(|store| store.delete(object));
            }
            WatchEvent::Bookmark(bookmark) => {
                follow(version, Some(&bookmark.metadata.resource_version));
                self.cache.change(|store| {
                    store.reach(&bookmark.metadata.resource_version);
                    Vec::new()
                });
            }
            WatchEvent::Error(status) => return Err(Error::Refused(status)),
        }
        Ok(())
    }

    fn watch_seconds(&self) -> u32 {
        let (least, most) = WATCH_SECONDS;
        let spread = self.cache.random.unit() * f64::from(most - least);
        // Truncation keeps it below `most`.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 90")]
        let spread = spread as u32;
        least + spread
    }

    /// A watch works. A list alone does not shorten the pauses: where every watch expires at once, lists must
    /// become rare.
    fn works(&mut self) {
        self.backoff.reset();
        self.recovered();
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = %K::kind(&()), "Following the API server again");
        }
    }

    fn fails(&mut self, why: &str) {
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(kind = %K::kind(&()), why, "Still cannot follow the API server");
        } else {
            tracing::warn!(kind = %K::kind(&()), why, "Cannot follow the API server; keeping what is known");
        }
    }
}

fn request<K: Object>(cache: &Inner<K>) -> Request {
    Request::new(K::url_path(&(), cache.scope.namespace.as_deref()))
}

/// One complete list, page by page and object by object.
async fn list<K: Object>(cache: &Inner<K>, freshness: &Freshness) -> Result<Listing<K>, Error> {
    let (resource_version, version_match) = match freshness {
        Freshness::Any => (Some("0".to_owned()), Some(VersionMatch::NotOlderThan)),
        Freshness::Since(version) => (Some(version.clone()), Some(VersionMatch::NotOlderThan)),
        Freshness::Latest => (None, None),
    };
    let mut parameters = ListParams {
        label_selector: cache.scope.label_selector.clone(),
        field_selector: cache.scope.field_selector.clone(),
        limit: Some(PAGE),
        resource_version,
        version_match,
        ..ListParams::default()
    };
    let mut objects = BTreeMap::new();
    loop {
        let envelope = list_page(cache, &parameters, &mut objects).await?;
        let token = envelope.metadata.continue_token.filter(|token| !token.is_empty());
        let Some(token) = token else {
            let version = envelope.metadata.resource_version.filter(|version| !version.is_empty());
            return Ok(Listing { objects, resource_version: version.ok_or(Error::NoVersion)? });
        };
        // The token stands for the version of the first page.
        (parameters.resource_version, parameters.version_match) = (None, None);
        parameters.continue_token = Some(token);
    }
}

async fn list_page<K: Object>(
    cache: &Inner<K>,
    parameters: &ListParams,
    objects: &mut BTreeMap<Key, Arc<K>>,
) -> Result<super::list::Envelope, Error> {
    let request = request(cache).list(parameters).map_err(Error::Build)?;
    let answer = cache.client.send(request.map(Into::into)).await.map_err(Error::Request)?;
    let status = answer.status();
    let mut body = answer.into_body();
    if status != StatusCode::OK {
        let text = body.collect().await.map_err(Error::Read)?.to_bytes();
        return Err(Error::Refused(Box::new(refusal(status, &text))));
    }
    let mut splitter = Splitter::default();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(Error::Read)?.into_data() else { continue };
        splitter.feed(&piece, |item| {
            let mut object: K = serde_json::from_slice(item).map_err(Error::Object)?;
            let key = Key::of(&object);
            let kept = cache.read().store.same(&key, &object);
            let kept = kept.unwrap_or_else(|| {
                cache.trim.apply(&mut object);
                Arc::new(object)
            });
            objects.insert(key, kept);
            Ok(())
        })?;
    }
    splitter.finish().map_err(Error::Envelope)
}

/// What a server says when it does not list; proxies between us and it may say it without a Status.
fn refusal(status: StatusCode, text: &[u8]) -> Status {
    let parsed: Option<Status> = serde_json::from_slice(text).ok();
    let mut refusal = parsed.unwrap_or_else(|| Status::failure("not an answer of an API server", ""));
    refusal.code = status.as_u16();
    refusal
}
