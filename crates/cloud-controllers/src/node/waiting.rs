//! Which Nodes wait to be initialised: since when, and what was told about them. Nothing is told twice in a row.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;
use super::plan::Plan;

/// After this long the same failure is told again: Events expire after an hour.
const TELL_AGAIN: Duration = Duration::from_secs(30 * 60);

/// A failure whose words change with every try (a request ID in them) is not told more often than this.
const NEW_WORDS: Duration = Duration::from_secs(60);

/// The Nodes that wait, by name.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    /// A Node that was deleted and made again under its name waits anew.
    uid: String,
    since: Instant,
    failing_since: Option<Instant>,
    told: Option<(Failure, Instant)>,
    /// What was sent and never answered: it may have been done.
    unanswered: Option<Plan>,
    /// It was initialised, and this is the version of the Node that shows it: what is older is the past.
    done: Option<u64>,
}

impl Waiting {
    /// Notes that a Node waits, in the version that was seen; whether it does: the cache may only not have caught up
    /// with its initialisation.
    pub(super) fn seen(&self, name: &str, uid: &str, version: Option<u64>, now: Instant) -> bool {
        let mut all = self.lock();
        let entry = all.entry(name.to_owned()).or_insert_with(|| Entry::new(uid, now));
        let is_past = entry.done.is_some_and(|done| version.is_some_and(|version| version < done));
        if entry.uid != uid || (entry.done.is_some() && !is_past) {
            *entry = Entry::new(uid, now);
        }
        entry.done.is_none()
    }

    /// Notes that a Node is initialised as of this version; how long it waited.
    pub(super) fn done(&self, name: &str, version: Option<u64>, now: Instant) -> Option<Duration> {
        let mut all = self.lock();
        let entry = all.get_mut(name)?;
        entry.done = version;
        entry.unanswered = None;
        Some(now - entry.since)
    }

    /// Notes that nobody answered when this was written to a Node.
    pub(super) fn unanswered(&self, name: &str, plan: Plan) {
        if let Some(entry) = self.lock().get_mut(name) {
            entry.unanswered = Some(plan);
        }
    }

    /// What may have initialised this Node, which is: it was sent, never answered, and nobody was told yet.
    pub(super) fn untold(&self, name: &str, uid: &str) -> Option<Plan> {
        self.lock().get_mut(name).filter(|entry| entry.uid == uid)?.unanswered.take()
    }

    /// Notes a failure; whether it is time to tell somebody.
    pub(super) fn failed(&self, name: &str, failure: &Failure, now: Instant) -> bool {
        let mut all = self.lock();
        let Some(entry) = all.get_mut(name) else { return false };
        let failing_since = *entry.failing_since.get_or_insert(now);
        let due = match &entry.told {
            None => now - failing_since >= failure.patience,
            Some((told, at)) if told.reason != failure.reason => now - *at >= failure.patience.min(NEW_WORDS),
            Some((told, at)) if told.message != failure.message => now - *at >= NEW_WORDS,
            Some((_, at)) => now - *at >= TELL_AGAIN,
        };
        if due {
            entry.told = Some((failure.clone(), now));
        }
        due
    }

    /// The Node waits no more, or is gone.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(uid: &str, now: Instant) -> Self {
        Self {
            uid: uid.to_owned(),
            since: now,
            failing_since: None,
            told: None,
            unanswered: None,
            done: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(reason: &'static str, message: &str, patience: u64) -> Failure {
        let patience = Duration::from_secs(patience);
        Failure { reason, message: message.into(), after: None, patience }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_when_it_is_new_and_then_rarely() {
        let (waiting, start) = (Waiting::default(), Instant::now());
        assert!(waiting.seen("a", "u1", Some(1), start));
        let at = |secs| start + Duration::from_secs(secs);
        assert!(!waiting.failed("a", &failure("InstanceNotFound", "m", 15), at(0)), "it may be young");
        assert!(!waiting.failed("a", &failure("InstanceNotFound", "m", 15), at(14)));
        assert!(waiting.failed("a", &failure("InstanceNotFound", "m", 15), at(15)));
        assert!(!waiting.failed("a", &failure("InstanceNotFound", "m", 15), at(600)));
        assert!(waiting.failed("a", &failure("CredentialInvalid", "m", 0), at(601)), "another reason");
        assert!(!waiting.failed("a", &failure("CredentialInvalid", "request 2", 0), at(602)));
        assert!(waiting.failed("a", &failure("CredentialInvalid", "request 3", 0), at(661)));
        assert!(waiting.failed("a", &failure("CredentialInvalid", "request 3", 0), at(661 + 1800)));
        assert!(waiting.seen("a", "u2", Some(9), at(3000)));
        assert!(waiting.failed("a", &failure("CredentialInvalid", "request 3", 0), at(3000)), "another node");
        assert_eq!(waiting.done("a", Some(12), at(3005)), Some(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_has_not_caught_up_does_not_make_an_initialised_node_wait_again() {
        let (waiting, now) = (Waiting::default(), Instant::now());
        assert!(waiting.seen("a", "u", Some(5), now));
        waiting.done("a", Some(7), now);
        assert!(!waiting.seen("a", "u", Some(6), now), "its status was seen, the end of its taint was not");
        assert!(waiting.seen("a", "u", Some(8), now), "somebody tainted it again");
        waiting.done("a", Some(9), now);
        assert!(waiting.seen("a", "another", Some(6), now), "another node");
        waiting.forget("a");
        assert_eq!(waiting.done("a", Some(10), now), None);
    }
}
