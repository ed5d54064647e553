//! Watches: a stream of JSON lines that follows the history of one kind, with bookmarks, time limits and the faults
//! that a stream can have.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::bell::Bell;
use super::faults::{Fate, Fault};
use super::kinds::KINDS;
use super::list::number;
use super::output::Output;
use super::route::{ObjectTarget, Parameters};
use super::selector::Selector;
use super::shared::{Cut, Handle};
use super::status_error::{Cause, StatusError};
use super::store::{Change, Key};
use super::transport::TransportError;

/// How often a quiet watch that asked for bookmarks gets one.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How long before its end a watch gets a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How a watch is asked for.
#[derive(Debug)]
pub(crate) struct Query {
    selector: Selector,
    /// `None` asks for synthetic events about the present state first.
    from: Option<u64>,
    bookmarks: bool,
    /// Marks the end of the synthetic events with a bookmark.
    initial_events: bool,
    timeout: Option<Duration>,
}

impl Query {
    /// Reads the parameters of a watch.
    pub(crate) fn parse(target: &ObjectTarget, parameters: &Parameters) -> Result<Self, StatusError> {
        let is_true = |name: &str| parameters.get(name).is_some_and(|v| v == "true" || v == "1");
        let version = parameters.get("resourceVersion").map(String::as_str).unwrap_or_default();
        let from = match version {
            "" | "0" => None,
            text => Some(text.parse().map_err(|_| {
                let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
                StatusError::unexplained(format!("resourceVersion: Invalid value: {text:?}: {why}"))
            })?),
        };
        let initial_events = is_true("sendInitialEvents");
        if initial_events
            && parameters.get("resourceVersionMatch").map(String::as_str) != Some("NotOlderThan")
        {
            let cause = Cause::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
            return Err(StatusError::invalid_named("meta.k8s.io", "ListOptions", "", &[cause]));
        }
        let timeout =
            number(parameters, "timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        Ok(Self {
            selector: Selector::parse(target.kind(), parameters)?,
            from: if initial_events { None } else { from },
            bookmarks: is_true("allowWatchBookmarks"),
            initial_events,
            timeout: timeout.map(Duration::from_secs),
        })
    }
}

/// A running watch.
pub(crate) struct Watch {
    shared: Handle,
    number: u64,
    target: ObjectTarget,
    query: Query,
    output: Output,
    fate: Fate,
    started: Duration,
    ends: Duration,
    next_bookmark: Option<Duration>,
    /// The version that the client knew when the watch began.
    began_at: u64,
    /// Everything up to here has been sent.
    cursor: u64,
    written: Bell,
    cutting: Bell,
    /// How many interruptions of all watches have been heeded.
    cuts_heeded: u64,
    pending: Vec<u8>,
    over: bool,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Broken,
}

impl End {
    /// The last piece of the stream.
    fn piece(self) -> Option<Result<Bytes, TransportError>> {
        (self == Self::Broken).then_some(Err(TransportError::Reset))
    }
}

/// The parts a watch is started from.
pub(crate) struct Start {
    pub(crate) shared: Handle,
    pub(crate) number: u64,
    pub(crate) target: ObjectTarget,
    pub(crate) query: Query,
    pub(crate) output: Output,
    pub(crate) fate: Fate,
}

impl Watch {
    /// Starts a watch; what it sends first is ready at once.
    pub(crate) fn start(start: Start) -> Self {
        let Start { shared, number, target, query, output, fate } = start;
        let now = shared.elapsed();
        let (written, default_timeout) = {
            let mut state = shared.state();
            state.store.age(now);
            // The real server draws between half an hour and an hour.
            (state.store.written(target.kind), Duration::from_secs(1800 + state.below(1800)))
        };
        let ends = now + query.timeout.unwrap_or(default_timeout);
        let (cutting, cuts_heeded) = (shared.cutting(), shared.cuts().count);
        let mut watch = Self {
            started: now,
            ends,
            next_bookmark: None,
            cursor: query.from.unwrap_or_default(),
            began_at: 0,
            pending: Vec::new(),
            over: false,
            shared,
            number,
            target,
            query,
            output,
            fate,
            written,
            cutting,
            cuts_heeded,
        };
        watch.schedule_bookmark(now);
        watch.begin();
        watch.began_at = watch.cursor.max(watch.cached_revision());
        watch
    }

    fn begin(&mut self) {
        let cached = self.cached_revision();
        let compacted = self.shared.compacted();
        match self.query.from {
            Some(from) if from < compacted => {
                self.send_expired();
                self.over = true;
            }
            Some(_) => {}
            None => self.send_present_state(cached),
        }
    }

    fn cached_revision(&self) -> u64 {
        self.shared.cached_revision(self.fate.revisions_behind)
    }

    fn send_present_state(&mut self, revision: u64) {
        let objects = self.shared.state().store.objects_at(self.target.kind, revision).unwrap_or_default();
        for (key, object) in objects {
            if key.is_in(&self.target.namespace) && self.query.selector.matches(&object) {
                self.send("ADDED", &key, &object);
            }
        }
        self.cursor = revision;
        if self.query.initial_events && self.query.bookmarks {
            self.send_bookmark(true);
        }
    }

    /// The next piece of the stream; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, TransportError>> {
        loop {
            if !self.pending.is_empty() {
                return Some(Ok(Bytes::from(std::mem::take(&mut self.pending))));
            }
            if self.over {
                return None;
            }
            // Asked for before looking, so that nothing that happens in between is missed.
            let (cut, written) = (self.cutting.next_ring(), self.written.next_ring());
            let now = self.shared.elapsed();
            if let Some(end) = self.was_cut().or_else(|| self.reached_end(now)) {
                return end.piece();
            }
            self.advance(now);
            if self.pending.is_empty() && !self.over {
                let wake = self.shared.instant(self.wakes_at(now));
                tokio::select! {
                    biased;
                    () = cut => {}
                    () = written => {}
                    () = sleep_until(wake) => {}
                }
            }
        }
    }

    /// Whether all watches were interrupted since this one last looked.
    fn was_cut(&mut self) -> Option<End> {
        let cuts = self.shared.cuts();
        let news = cuts.count != self.cuts_heeded;
        self.cuts_heeded = cuts.count;
        if news { self.cut(cuts.last) } else { None }
    }

    /// Whether a fault or the time limit ends the watch now.
    fn reached_end(&mut self, now: Duration) -> Option<End> {
        if let Some((after, fault)) = &self.fate.watch_end
            && now >= self.started + *after
        {
            let fault = fault.clone();
            self.over = true;
            return match fault {
                Fault::BreakWatch(_) => self.cut(Cut::Broken),
                Fault::ExpireWatch(_) => {
                    self.send_expired();
                    None
                }
                _ => self.cut(Cut::Clean),
            };
        }
        if now >= self.ends { self.cut(Cut::Clean) } else { None }
    }

    fn cut(&mut self, how: Cut) -> Option<End> {
        match how {
            Cut::Wake => return None,
            Cut::Clean => self.shared.note(format_args!("#{} watch ends", self.number)),
            Cut::Broken => self.shared.note(format_args!("#{} watch breaks", self.number)),
        }
        self.over = true;
        Some(if how == Cut::Broken { End::Broken } else { End::Clean })
    }

    /// When the stream must look at the clock again.
    fn wakes_at(&self, now: Duration) -> Duration {
        let travel = self.shared.faults().travel.map(|travel| travel.until);
        let stall =
            self.fate.stall.map(|(after, lasting)| [self.started + after, self.started + after + lasting]);
        [
            Some(self.ends),
            self.next_bookmark,
            travel,
            self.fate.watch_end.as_ref().map(|(a, _)| self.started + *a),
        ]
        .into_iter()
        .chain(stall.into_iter().flatten().map(Some))
        .flatten()
        .filter(|at| *at > now)
        .min()
        .unwrap_or(self.ends)
    }

    /// Sends what has happened since, unless the watch is stalled.
    fn advance(&mut self, now: Duration) {
        if self.fate.stall.is_some_and(|(after, lasting)| {
            (self.started + after..self.started + after + lasting).contains(&now)
        }) {
            return;
        }
        let until = self.cached_revision();
        let (changes, missed): (Vec<Change>, bool) = {
            let state = self.shared.state();
            let store = &state.store;
            let changes = store.changes(self.target.kind, self.cursor, until).cloned().collect();
            (changes, store.has_forgotten_changes_since(self.target.kind, self.cursor))
        };
        if missed {
            // Only a stalled watch falls behind the history.
            self.send_expired();
            self.over = true;
            return;
        }
        for change in changes {
            self.send_change(&change);
        }
        self.cursor = self.cursor.max(until);
        if self.next_bookmark.is_some_and(|at| now >= at) {
            // The real server tells only what is news.
            if self.cursor > self.began_at {
                self.send_bookmark(false);
            }
            self.schedule_bookmark(now);
        }
    }

    fn schedule_bookmark(&mut self, now: Duration) {
        let last = self.ends.saturating_sub(LAST_BOOKMARK);
        let next = (now + BOOKMARK_INTERVAL).min(last);
        self.next_bookmark = (self.query.bookmarks && next > now).then_some(next);
    }

    fn send_change(&mut self, change: &Change) {
        if !change.key.is_in(&self.target.namespace) {
            return;
        }
        let selector = &self.query.selector;
        let was_in = change.previous.as_ref().is_some_and(|object| selector.matches(object));
        let is_in = !change.deleted && selector.matches(&change.object);
        let (kind, object) = match (was_in, is_in) {
            (false, true) => ("ADDED", Arc::clone(&change.object)),
            (true, true) => ("MODIFIED", Arc::clone(&change.object)),
            (true, false) => ("DELETED", last_seen(change)),
            (false, false) => return,
        };
        self.send(kind, &change.key, &object);
    }

    fn send(&mut self, kind: &str, key: &Key, object: &Value) {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let plural = KINDS[self.target.kind].plural;
        self.shared.note(format_args!("#{} {kind} {plural}/{} {version}", self.number, key.as_str()));
        self.output.event(kind, object, &mut self.pending);
    }

    fn send_expired(&mut self) {
        let message = format!("too old resource version: {} ({})", self.cursor, self.shared.compacted());
        let error = StatusError::expired(message);
        self.shared.note(format_args!("#{} ERROR {}", self.number, error.message));
        Output::Whole.event("ERROR", &error.to_value(), &mut self.pending);
    }

    fn send_bookmark(&mut self, end_of_initial_events: bool) {
        let kind = self.target.kind();
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if end_of_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata});
        self.shared.note(format_args!("#{} BOOKMARK {}", self.number, self.cursor));
        self.output.event("BOOKMARK", &object, &mut self.pending);
    }
}

/// The last state that a watcher may see of an object that left its selection, under the revision of the change.
fn last_seen(change: &Change) -> Arc<Value> {
    match &change.previous {
        Some(previous) if !change.deleted => {
            let mut object = (**previous).clone();
            object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
            Arc::new(object)
        }
        _ => Arc::clone(&change.object),
    }
}
