//! Lists: consistent pages, versions, and tokens that expire.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::route::{ObjectTarget, Parameters};
use super::selector::Selector;
use super::state::State;
use super::status_error::{Cause, StatusError};
use super::store::{Key, Objects};

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// The revision that the page shows.
    pub(crate) revision: u64,
    /// Its objects.
    pub(crate) items: Vec<std::sync::Arc<Value>>,
    /// How to get the next page.
    pub(crate) continue_token: Option<String>,
    /// How many objects are left, where the real server says it.
    pub(crate) remaining: Option<usize>,
}

/// Which state of the server a list wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// The latest.
    Latest,
    /// Whatever the cache holds.
    Any,
    /// The cache, once it is not older than this.
    NotOlderThan(u64),
    /// Exactly this.
    Exact(u64),
    /// The page after a key, of this revision or, without one, of the latest.
    Continue(Option<u64>, Key),
}

/// A list as it is asked for.
#[derive(Debug)]
pub(crate) struct Query {
    wanted: Wanted,
    limit: Option<usize>,
    selector: Selector,
}

impl Query {
    /// Reads the parameters of a list.
    pub(crate) fn parse(kind: &Kind, parameters: &Parameters) -> Result<Self, StatusError> {
        let text = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        let limit = number(parameters, "limit")?.filter(|limit| *limit > 0);
        let version = text("resourceVersion");
        let token = text("continue");
        check_version_match(text("resourceVersionMatch"), version, token)?;
        let wanted = match (version, text("resourceVersionMatch")) {
            ("" | "0", _) if !token.is_empty() => continued(token)?,
            _ if !token.is_empty() => {
                return Err(StatusError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            ("", _) => Wanted::Latest,
            ("0", _) => Wanted::Any,
            (version, "Exact") => Wanted::Exact(parsed(version)?),
            (version, "NotOlderThan") => Wanted::NotOlderThan(parsed(version)?),
            // Older clients: a limit made the version exact.
            (version, _) if limit.is_some() => Wanted::Exact(parsed(version)?),
            (version, _) => Wanted::NotOlderThan(parsed(version)?),
        };
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Self { wanted, limit, selector: Selector::parse(kind, parameters)? })
    }

    /// The version that the cache must have reached before this list can be answered.
    pub(crate) fn needs(&self) -> Option<u64> {
        match self.wanted {
            Wanted::NotOlderThan(version) | Wanted::Exact(version) => Some(version),
            _ => None,
        }
    }

    /// Makes the page; `cached` is the revision that the cache shows.
    pub(crate) fn run(&self, state: &State, target: &ObjectTarget, cached: u64) -> Result<Page, StatusError> {
        let store = &state.store;
        let latest = store.revision();
        let at = |revision: u64| store.objects_at(target.kind, revision);
        let (revision, objects) = match &self.wanted {
            Wanted::Latest | Wanted::Continue(None, _) => (latest, Some(store.objects(target.kind).clone())),
            Wanted::Any | Wanted::NotOlderThan(_) => (cached, at(cached)),
            Wanted::Exact(revision) | Wanted::Continue(Some(revision), _) => (*revision, at(*revision)),
        };
        let Some(objects) = objects else {
            return Err(self.expired());
        };
        Ok(self.page(revision, objects, &target.namespace))
    }

    fn page(&self, revision: u64, objects: Objects, namespace: &str) -> Page {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let start = match &self.wanted {
            Wanted::Continue(_, start) => Some(Key::raw(format!("{prefix}{}", start.as_str()))),
            _ => None,
        };
        // The cache knows no pages: `resourceVersion=0` answers everything at once.
        let limit = if self.wanted == Wanted::Any { None } else { self.limit };
        let mut items: Vec<_> = objects
            .into_iter()
            .filter(|(key, object)| {
                key.is_in(namespace)
                    && start.as_ref().is_none_or(|start| key >= start)
                    && self.selector.matches(object)
            })
            .collect();
        let total = items.len();
        let mut page = Page { revision, items: Vec::new(), continue_token: None, remaining: None };
        if let Some(limit) = limit.filter(|limit| *limit < total) {
            items.truncate(limit);
            if let Some((last, _)) = items.last() {
                let last = last.as_str().strip_prefix(&prefix).unwrap_or(last.as_str());
                page.continue_token =
                    Some(token(i64::try_from(revision).unwrap_or(i64::MAX), &format!("{last}\0")));
            }
            page.remaining = self.selector.is_everything().then_some(total - limit);
        }
        page.items = items.into_iter().map(|(_, object)| object).collect();
        page
    }

    fn expired(&self) -> StatusError {
        let Wanted::Continue(_, start) = &self.wanted else {
            return StatusError::expired("The resourceVersion for the provided list is too old.");
        };
        let mut error = StatusError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
             that were created, modified, or deleted between the time the first chunk was returned and now may show \
             up in the list.",
        );
        error.continue_token = Some(token(-1, start.as_str()));
        error
    }
}

/// A token as the real server makes it; a revision of -1 stands for "whatever is there now".
fn token(revision: i64, start: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
}

fn continued(token: &str) -> Result<Wanted, StatusError> {
    let refused = |why: &str| {
        StatusError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refused("illegal base64 data"))?;
    let fields: Value = serde_json::from_slice(&bytes).map_err(|e| refused(&e.to_string()))?;
    if fields["v"] != "meta.k8s.io/v1" {
        return Err(refused(&format!("server does not recognize this encoded version {}", fields["v"])));
    }
    let start = fields["start"].as_str().filter(|start| !start.is_empty());
    let start = start.ok_or_else(|| refused("encoded start key empty (version meta.k8s.io/v1)"))?;
    match fields["rv"].as_i64().unwrap_or_default() {
        0 => Err(refused("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
        revision => Ok(Wanted::Continue(u64::try_from(revision).ok(), Key::raw(start))),
    }
}

fn parsed(version: &str) -> Result<u64, StatusError> {
    version.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
        let cause = Cause::invalid("resourceVersion", &json!(version), why);
        StatusError::invalid_named("meta.k8s.io", "ListOptions", "", &[cause])
    })
}

/// A whole number among the parameters.
pub(crate) fn number(parameters: &Parameters, name: &str) -> Result<Option<i64>, StatusError> {
    match parameters.get(name).map(String::as_str) {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            StatusError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        }),
    }
}

fn check_version_match(version_match: &str, version: &str, token: &str) -> Result<(), StatusError> {
    let field = "resourceVersionMatch";
    let cause = match version_match {
        "" => return Ok(()),
        _ if version.is_empty() => {
            Cause::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        _ if !token.is_empty() => {
            Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
        }
        "Exact" if version == "0" => {
            Cause::forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" => return Ok(()),
        other => Cause::not_supported(field, &json!(other), &["Exact", "NotOlderThan", ""]),
    };
    Err(StatusError::invalid_named("meta.k8s.io", "ListOptions", "", &[cause]))
}
