//! Whether somebody may do something: always-allowed paths, then `system:masters`, then the API server. Whoever cannot
//! be asked about may not.

use std::sync::Arc;
use std::time::Duration;

use super::options::Authorization;
use super::remembered::Remembered;
use super::review::{ReviewError, Reviews};
use super::{MASTERS, User};

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// It may not, for this reason, which may be empty.
    Denied(String),
}

pub(super) struct Authorizer {
    exact: Vec<String>,
    prefixes: Vec<String>,
    reviews: Option<Arc<dyn Reviews>>,
    remembered: Remembered<Decision, ReviewError>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("exact", &self.exact).finish_non_exhaustive()
    }
}

impl Authorizer {
    pub(super) fn new(options: &Authorization, reviews: Option<Arc<dyn Reviews>>) -> Self {
        let bare = |path: &str| path.trim_start_matches('/').to_owned();
        let paths = &options.always_allow_paths;
        Self {
            exact: paths.iter().filter(|path| !path.ends_with('*')).map(|path| bare(path)).collect(),
            prefixes: paths.iter().filter_map(|path| path.strip_suffix('*')).map(bare).collect(),
            reviews,
            remembered: Remembered::new(),
            allowed_ttl: options.allowed_ttl,
            denied_ttl: options.denied_ttl,
        }
    }

    pub(super) fn always_allows(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.exact.iter().any(|exact| exact == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }

    pub(super) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Decision, ReviewError> {
        if self.always_allows(path) || user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Decision::Allowed);
        }
        let Some(reviews) = &self.reviews else { return Ok(Decision::Denied(String::new())) };
        let lasts = |decision: &Decision| match decision {
            Decision::Allowed => self.allowed_ttl,
            Decision::Denied(_) => self.denied_ttl,
        };
        let question = question(user, verb, path);
        let question: Vec<&[u8]> = question.iter().map(Vec::as_slice).collect();
        self.remembered.ask(&question, lasts, || reviews.access(user, verb, path)).await
    }
}

/// All that a decision depends on; counts keep lists apart.
fn question(user: &User, verb: &str, path: &str) -> Vec<Vec<u8>> {
    let count = |count: usize| count.to_le_bytes().to_vec();
    let mut parts: Vec<Vec<u8>> =
        [verb, path, &user.name, &user.uid].map(|part| part.as_bytes().to_vec()).into();
    parts.push(count(user.groups.len()));
    parts.extend(user.groups.iter().map(|group| group.as_bytes().to_vec()));
    for (key, values) in &user.extra {
        parts.extend([key.as_bytes().to_vec(), count(values.len())]);
        parts.extend(values.iter().map(|value| value.as_bytes().to_vec()));
    }
    parts
}
