//! What this process knows of each Service, by name: which object it is, what its load balancer is, what was told about it.
//! It is memory and nothing else: after a restart the cloud and the API server say it all again.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::well_known::event_reasons;
use controller_kit::cache::Key;
use k8s_openapi::api::core::v1::Service;
use tokio::time::Instant;

use super::backends::Backends;
use super::failure::Failure;
use super::metrics::NodeSync;
use super::plan::{Applied, Known};
use super::wish::{self, Print};

/// After this long the same failure is told again: Events expire after an hour.
const TELL_AGAIN: Duration = Duration::from_secs(30 * 60);

/// A failure whose words change with every try (a request ID in them) is not told more often than this.
const NEW_WORDS: Duration = Duration::from_secs(60);

/// All that is known, by name.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<HashMap<Key, Entry>>);

/// What is known of one name.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each for itself")]
pub(super) struct Entry {
    /// The newest version of the object that we saw or wrote.
    service: Arc<Service>,
    pub(super) known: Known,
    /// Former objects of this name, of which something may be left in the cloud.
    departed: Vec<Arc<Service>>,
    /// The object is gone; only what departed is left.
    gone: bool,
    /// What the beginning of the work was told for.
    announced: Option<Print>,
    /// What it was told for that a part of it is left out.
    warned: Option<Print>,
    /// The removal was told.
    pub(super) removing: bool,
    /// It was made as a load balancer and has no address yet: somebody waits since its creation.
    pub(super) waiting: bool,
    /// A call was made for it.
    pub(super) called: bool,
    /// It differed from what the cloud had.
    pub(super) drifted: bool,
    /// The node change that it still has to follow.
    pub(super) node_sync: Option<Arc<NodeSync>>,
    /// When it was last compared with the cloud, or made.
    compared: Instant,
    failing_since: Option<Instant>,
    told: Option<(Failure, Instant)>,
}

impl Entry {
    fn new(service: &Arc<Service>) -> Self {
        Self {
            service: Arc::clone(service),
            known: Known::default(),
            departed: Vec::new(),
            gone: false,
            announced: None,
            warned: None,
            removing: false,
            waiting: wish::is_load_balancer(service) && !wish::has_address(service),
            called: false,
            drifted: false,
            node_sync: None,
            compared: Instant::now(),
            failing_since: None,
            told: None,
        }
    }

    /// Ends the object: what may be left of it in the cloud is remembered.
    fn depart(&mut self) {
        if self.known.holds {
            self.departed.push(Arc::clone(&self.service));
        }
        let departed = std::mem::take(&mut self.departed);
        *self = Self { departed, gone: true, ..Self::new(&self.service) };
    }
}

impl Ledger {
    /// Takes in what the cache shows of a name. An older version of what we wrote ourselves is the past.
    pub(super) fn see(&self, key: &Key, shown: Option<&Arc<Service>>) {
        let mut all = self.lock();
        match (all.get_mut(key), shown) {
            (None, Some(service)) => drop(all.insert(key.clone(), Entry::new(service))),
            (None, None) => {}
            (Some(entry), Some(service)) if !entry.gone && uid(&entry.service) == uid(service) => {
                if version(service) >= version(&entry.service) {
                    entry.service = Arc::clone(service);
                }
            }
            (Some(entry), Some(service)) => {
                if !entry.gone {
                    entry.depart();
                }
                let departed = std::mem::take(&mut entry.departed);
                *entry = Entry { departed, ..Entry::new(service) };
            }
            (Some(entry), None) => {
                if !entry.gone {
                    entry.depart();
                }
                if entry.departed.is_empty() {
                    all.remove(key);
                }
            }
        }
    }

    /// The object of this name, in the newest version, and what is known of it.
    pub(super) fn current(&self, key: &Key) -> Option<(Arc<Service>, Known)> {
        let all = self.lock();
        let entry = all.get(key).filter(|entry| !entry.gone)?;
        Some((Arc::clone(&entry.service), entry.known.clone()))
    }

    /// Former objects of this name of which something may be left.
    pub(super) fn departed(&self, key: &Key) -> Vec<Arc<Service>> {
        self.lock().get(key).map(|entry| entry.departed.clone()).unwrap_or_default()
    }

    /// Whether something may be in the cloud for the object with this UID, and we see to it.
    pub(super) fn works_for(&self, owner: &str) -> bool {
        let all = self.lock();
        let current = |entry: &Entry| !entry.gone && entry.known.holds && uid(&entry.service) == owner;
        let former = |entry: &Entry| entry.departed.iter().any(|service| uid(service) == owner);
        all.values().any(|entry| current(entry) || former(entry))
    }

    /// Nothing is left of a former object.
    pub(super) fn is_clean(&self, key: &Key, former: &Service) {
        let mut all = self.lock();
        let Some(entry) = all.get_mut(key) else { return };
        entry.departed.retain(|departed| uid(departed) != uid(former));
        if entry.gone && entry.departed.is_empty() {
            all.remove(key);
        }
    }

    /// Changes what is known of this very object; `None` if the name has another by now, or none.
    pub(super) fn with<T>(&self, service: &Service, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut all = self.lock();
        let entry = all.get_mut(&Key::of(service)).filter(|entry| !entry.gone)?;
        (uid(&entry.service) == uid(service)).then(|| change(entry))
    }

    /// We wrote this version.
    pub(super) fn wrote(&self, service: &Arc<Service>) {
        self.with(service, |entry| {
            if version(service) >= version(&entry.service) {
                entry.service = Arc::clone(service);
            }
        });
    }

    /// Something may be in the cloud from now on; whether the object is still there, so that it may be made at all.
    pub(super) fn hold(&self, service: &Service) -> bool {
        self.with(service, |entry| entry.known.holds = true).is_some()
    }

    /// Whether it is time to tell that the work begins: once for each wish.
    pub(super) fn announces(&self, service: &Service, print: &Print) -> bool {
        let news = |entry: &mut Entry| entry.announced.replace(print.clone()).as_ref() != Some(print);
        self.with(service, news).unwrap_or(false)
    }

    /// Whether it is time to tell what is left out of a wish: once for each.
    pub(super) fn announces_refusal(&self, service: &Service, print: &Print) -> bool {
        let news = |entry: &mut Entry| entry.warned.replace(print.clone()).as_ref() != Some(print);
        self.with(service, news).unwrap_or(false)
    }

    /// The load balancer is like this.
    pub(super) fn applied(&self, service: &Service, applied: Applied) {
        self.with(service, |entry| {
            entry.known.applied = Some(applied);
            entry.known.refused = None;
            entry.known.looked = true;
            entry.known.look_due = false;
            entry.known.holds = true;
            entry.compared = Instant::now();
            entry.node_sync = None;
            entry.failing_since = None;
            entry.told = None;
        });
    }

    /// Nothing of it is left in the cloud.
    pub(super) fn cleaned(&self, service: &Service) {
        self.with(service, |entry| {
            let kept = Entry::new(&entry.service);
            let departed = std::mem::take(&mut entry.departed);
            *entry = Entry { departed, known: Known { looked: true, ..Known::default() }, ..kept };
        });
    }

    /// Notes a failure; whether it is time to tell somebody.
    pub(super) fn failed(&self, service: &Service, failure: &Failure, now: Instant) -> bool {
        let due = |entry: &mut Entry| {
            let since = *entry.failing_since.get_or_insert(now);
            let due = match &entry.told {
                None => now - since >= failure.patience,
                Some((told, at)) if told.reason != failure.reason => {
                    now - *at >= failure.patience.min(NEW_WORDS)
                }
                Some((told, at)) if told.message != failure.message => now - *at >= NEW_WORDS,
                Some((_, at)) => now - *at >= TELL_AGAIN,
            };
            if due {
                entry.told = Some((failure.clone(), now));
            }
            due
        };
        self.with(service, due).unwrap_or(false)
    }

    /// The load balancer that was not compared with the cloud for the longest time, and since when.
    pub(super) fn least_compared(&self) -> Option<(Key, Instant)> {
        let all = self.lock();
        let settled = |entry: &Entry| !entry.gone && entry.known.applied.is_some() && !entry.known.look_due;
        let settled = all.iter().filter(|(_, entry)| settled(entry));
        settled
            .map(|(key, entry)| (key.clone(), entry.compared))
            .min_by(|(a, at), (b, bt)| (at, a).cmp(&(bt, b)))
    }

    /// It is time to compare this one.
    pub(super) fn look_again(&self, key: &Key) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.known.look_due = true;
            entry.compared = Instant::now();
        }
    }

    /// The nodes changed: notes the change with everyone whose load balancer has others; their names, in order.
    pub(super) fn follow(&self, nodes: &Backends, sync: impl FnOnce() -> NodeSync) -> Vec<Key> {
        let mut all = self.lock();
        let (mut keys, sync) = (Vec::new(), LazyCell::new(|| Arc::new(sync())));
        for (key, entry) in all.iter_mut() {
            let old = entry.known.applied.as_ref().filter(|_| !entry.gone);
            if old.is_some_and(|applied| !applied.backends.has_nodes_of(nodes)) {
                entry.node_sync = Some(Arc::clone(&sync));
                keys.push(key.clone());
            }
        }
        keys.sort();
        keys
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason of the Event about a failure.
pub(super) fn event_reason(failure: &Failure) -> &'static str {
    if failure.pending { super::PENDING_REASON } else { event_reasons::SYNC_LOAD_BALANCER_FAILED }
}

/// A Service's UID.
pub(super) fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

/// A Service's version, where versions can be compared, which Kubernetes promises since 1.35 and etcd always gave.
fn version(service: &Service) -> Option<u64> {
    service.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use testkit::service;

    use super::*;

    fn version_of(version: &str, uid: &str) -> Arc<Service> {
        let mut service = service("web").namespace("shop").uid(uid).load_balancer().build();
        service.metadata.resource_version = Some(version.to_owned());
        Arc::new(service)
    }

    /// Proves: SVC-57
    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_a_service_goes_with_it() {
        let (ledger, web) = (Ledger::default(), version_of("5", "u1"));
        let key = Key::of(&*web);
        ledger.see(&key, Some(&web));
        assert!(ledger.hold(&web));
        ledger.cleaned(&web);
        ledger.see(&key, None);
        assert!(ledger.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_lags_does_not_undo_what_we_wrote() {
        let (ledger, key) = (Ledger::default(), Key::namespaced("shop", "web"));
        ledger.see(&key, Some(&version_of("5", "u1")));
        ledger.wrote(&version_of("7", "u1"));
        ledger.see(&key, Some(&version_of("6", "u1")));
        let (current, _) = ledger.current(&key).unwrap();
        assert_eq!(current.metadata.resource_version.as_deref(), Some("7"));
    }

    /// Proves: SVC-18, SVC-20
    #[tokio::test(start_paused = true)]
    async fn a_former_object_is_remembered_until_nothing_is_left_of_it() {
        let (ledger, key) = (Ledger::default(), Key::namespaced("shop", "web"));
        let (first, second) = (version_of("5", "u1"), version_of("9", "u2"));
        ledger.see(&key, Some(&first));
        assert!(ledger.hold(&first));
        ledger.see(&key, Some(&second));
        assert!(!ledger.hold(&first), "nothing more is made for it");
        assert_eq!(ledger.departed(&key).len(), 1);
        ledger.see(&key, None);
        assert!(ledger.current(&key).is_none());
        assert_eq!(ledger.departed(&key).len(), 1, "nothing was ever made for the second");
        ledger.is_clean(&key, &first);
        assert!(ledger.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_when_it_is_new_and_then_rarely() {
        let (ledger, web, start) = (Ledger::default(), version_of("5", "u1"), Instant::now());
        ledger.see(&Key::of(&*web), Some(&web));
        let at = |secs| start + Duration::from_secs(secs);
        let pending = Failure::no_address();
        assert!(!ledger.failed(&web, &pending, at(0)), "it may only take a moment");
        assert!(ledger.failed(&web, &pending, at(15)));
        assert!(!ledger.failed(&web, &pending, at(600)));
        let failing = Failure { reason: "CloudFailed", patience: Duration::ZERO, ..pending };
        assert!(ledger.failed(&web, &failing, at(601)), "another reason");
        let other_words = Failure { message: "request 2".into(), ..failing };
        assert!(!ledger.failed(&web, &other_words, at(602)));
        assert!(ledger.failed(&web, &other_words, at(661)));
        assert!(ledger.failed(&web, &other_words, at(661 + 1800)));
    }
}
