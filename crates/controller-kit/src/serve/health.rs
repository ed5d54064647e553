//! `/healthz`, `/livez` and `/readyz`: a registry of checks that other parts add to while the process runs.
//!
//! Liveness asks one question: would a restart help? A worker past its own deadline says yes, and names itself. A cloud
//! or an API server that fails says no: such checks are [`Scope::Ready`] and never make a kubelet restart a process
//! that does its best. `/healthz`, which deployments made for upstream probe, asks what `/livez` asks.

mod metrics;
mod report;
mod reported;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use self::metrics::Slis;
use self::report::Report;
pub use self::reported::Reported;
use crate::leader::Leadership;
use crate::lifecycle::{Readiness, Shutdown};
use crate::worker;

/// Why a check failed.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Something that can be asked whether it is well. The answer must come at once, from what is known already: a check
/// never waits for anybody, so that a health endpoint never hangs.
pub trait Check: Send + Sync + 'static {
    /// Fails with a reason that an operator can act on.
    fn check(&self) -> Result<(), BoxError>;
}

impl<F: Fn() -> Result<(), BoxError> + Send + Sync + 'static> Check for F {
    fn check(&self) -> Result<(), BoxError> {
        self()
    }
}

/// Fails for workers that are past their own deadline, and names the keys.
impl Check for worker::Health {
    fn check(&self) -> Result<(), BoxError> {
        worker::Health::check(self).map_err(Into::into)
    }
}

/// The check `leaderElection`.
impl Check for Leadership {
    fn check(&self) -> Result<(), BoxError> {
        Leadership::check(self).map_err(Into::into)
    }
}

/// Fails while something that was started is not ready.
impl Check for Readiness {
    fn check(&self) -> Result<(), BoxError> {
        let waiting = self.waiting_for();
        if waiting.is_empty() { Ok(()) } else { Err(format!("waiting for {}", waiting.join(", ")).into()) }
    }
}

/// Fails once the process is asked to stop.
impl Check for Shutdown {
    fn check(&self) -> Result<(), BoxError> {
        if self.is_triggered() { Err("the process is shutting down".into()) } else { Ok(()) }
    }
}

/// What a failing check means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only a restart helps. Asked by all three endpoints.
    Live,
    /// The process cannot do its work at the moment, through no fault of its own. Asked by `/readyz` only.
    Ready,
}

/// One of the three endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/healthz`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

impl Endpoint {
    /// Its name, which is its path without the slash and a label of the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    fn asks(self, scope: Scope) -> bool {
        scope == Scope::Live || self == Self::Readyz
    }
}

struct Entry {
    name: String,
    scope: Scope,
    check: Arc<dyn Check>,
}

/// The checks of a process; clones share them.
#[derive(Clone, Default)]
pub struct Checks {
    entries: Arc<RwLock<Vec<Entry>>>,
    /// What failed when it was last asked, so that a change is logged once.
    failing: Arc<Mutex<BTreeSet<(Endpoint, String)>>>,
    slis: Slis,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

impl Checks {
    /// Without checks; a check `ping` that always passes then stands for them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, in place of one of the same name.
    pub fn add(&self, scope: Scope, name: impl Into<String>, check: impl Check) {
        let entry = Entry { name: name.into(), scope, check: Arc::new(check) };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match entries.iter_mut().find(|known| known.name == entry.name) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }

    /// Takes a check away.
    pub fn remove(&self, name: &str) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).retain(|entry| entry.name != name);
    }

    /// What `/metrics/slis` shows of these checks.
    pub fn slis(&self) -> &Slis {
        &self.slis
    }

    /// Whether an endpoint knows a check of that name.
    pub(super) fn knows(&self, endpoint: Endpoint, name: &str) -> bool {
        self.of(endpoint).iter().any(|(known, _)| known == name)
    }

    /// Asks all checks of an endpoint but those excluded.
    pub(super) fn ask(&self, endpoint: Endpoint, exclude: BTreeSet<String>) -> Report {
        let mut report = Report::new(endpoint, exclude);
        for (name, check) in self.of(endpoint) {
            if report.excludes(&name) {
                continue;
            }
            let result = check.check();
            self.slis.observe(endpoint, &name, result.is_ok());
            self.log(endpoint, &name, result.as_ref().err());
            report.add(&name, &result);
        }
        report
    }

    /// Asks one check; `None` if there is no such check.
    pub(super) fn ask_one(&self, endpoint: Endpoint, name: &str) -> Option<Result<(), BoxError>> {
        let (_, check) = self.of(endpoint).into_iter().find(|(known, _)| known == name)?;
        Some(check.check())
    }

    fn of(&self, endpoint: Endpoint) -> Vec<(String, Arc<dyn Check>)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let asked = entries.iter().filter(|entry| endpoint.asks(entry.scope));
        let mut checks: Vec<_> = asked.map(|entry| (entry.name.clone(), entry.check.clone())).collect();
        if checks.is_empty() {
            checks.push(("ping".to_owned(), Arc::new(|| Ok(()))));
        }
        checks
    }

    /// The reason is withheld from the answer, which anybody may read, and stands here instead.
    fn log(&self, endpoint: Endpoint, name: &str, error: Option<&BoxError>) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (endpoint, name.to_owned());
        match error {
            Some(error) => {
                if failing.insert(key) {
                    let reason = crate::log::report(error.as_ref());
                    tracing::warn!(endpoint = endpoint.name(), check = name, %reason, "Health check fails");
                }
            }
            None => {
                if failing.remove(&key) {
                    tracing::info!(endpoint = endpoint.name(), check = name, "Health check passes again");
                }
            }
        }
    }
}
