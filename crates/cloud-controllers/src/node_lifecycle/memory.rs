//! What this process remembers of Nodes between two passes, by UID: a Node that takes another's name starts anew.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::judge::Suspicion;
use super::settings::Settings;

/// After this long the same thing is told again: Events expire after an hour.
const TELL_AGAIN: Duration = Duration::from_secs(30 * 60);

/// A Node that stays not ready is looked up after a twelfth of the time that it has been so.
const PATIENCE: u32 = 12;

#[derive(Debug, Clone)]
struct Record {
    first_seen: Instant,
    not_ready: Option<NotReady>,
}

#[derive(Debug, Clone)]
struct NotReady {
    since: Instant,
    next_look: Instant,
    /// When the cloud first said that there is no instance; whatever else it says ends it.
    absent_since: Option<Instant>,
    /// How often it has said so since while it denied nobody who must exist.
    sightings: u32,
    /// When the cloud first said that the machine is off; likewise.
    off_since: Option<Instant>,
    told: Option<(&'static str, Instant)>,
}

/// The memory.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<String, Record>);

impl Memory {
    /// Takes in which Nodes there are, and whether they are ready; forgets the others.
    pub(super) fn see<'a>(&mut self, nodes: impl Iterator<Item = (&'a str, bool)>, now: Instant) {
        let mut present = HashMap::with_capacity(self.0.len());
        for (uid, ready) in nodes {
            let mut record = self.0.remove(uid).unwrap_or(Record { first_seen: now, not_ready: None });
            if ready {
                record.not_ready = None;
            } else {
                record.not_ready.get_or_insert(NotReady {
                    since: now,
                    next_look: now,
                    absent_since: None,
                    sightings: 0,
                    off_since: None,
                    told: None,
                });
            }
            present.insert(uid.to_owned(), record);
        }
        self.0 = present;
    }

    /// For how long this process has known a Node.
    pub(super) fn known_for(&self, uid: &str, now: Instant) -> Duration {
        self.0.get(uid).map_or(Duration::ZERO, |record| now - record.first_seen)
    }

    /// Whether it is time to ask for a Node that is not ready.
    pub(super) fn is_due(&self, uid: &str, now: Instant) -> bool {
        self.not_ready(uid).is_some_and(|record| record.next_look <= now)
    }

    /// When the next Node is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().filter_map(|record| Some(record.not_ready.as_ref()?.next_look)).min()
    }

    /// Whether the last answer about a Node was that it has no instance.
    pub(super) fn is_absent(&self, uid: &str) -> bool {
        self.not_ready(uid).is_some_and(|record| record.absent_since.is_some())
    }

    /// Takes in an answer, and decides when to ask again.
    pub(super) fn answered(&mut self, uid: &str, absent: bool, settings: &Settings, now: Instant) {
        let Some(record) = self.0.get_mut(uid).and_then(|record| record.not_ready.as_mut()) else { return };
        let usual =
            ((now - record.since) / PATIENCE).clamp(settings.period, settings.slowest.max(settings.period));
        let first = absent && record.absent_since.is_none();
        record.next_look = now + if first { settings.confirm_after } else { usual };
        record.absent_since = absent.then(|| record.absent_since.unwrap_or(now));
        if !absent {
            record.sightings = 0;
        }
    }

    /// A plausible answer said that a Node has no instance; how many have said so.
    pub(super) fn sighted(&mut self, uid: &str) -> u32 {
        let record = self.0.get_mut(uid).and_then(|record| record.not_ready.as_mut());
        let Some(record) = record.filter(|record| record.absent_since.is_some()) else { return 0 };
        record.sightings = record.sightings.saturating_add(1);
        record.sightings
    }

    /// The next look at a Node is then.
    pub(super) fn look_at(&mut self, uid: &str, when: Instant) {
        if let Some(record) = self.0.get_mut(uid).and_then(|record| record.not_ready.as_mut()) {
            record.next_look = when;
        }
    }

    /// Takes in whether a machine is off; for how long it has been, by all answers since.
    pub(super) fn off(&mut self, uid: &str, off: bool, now: Instant) -> Option<Duration> {
        let record = self.0.get_mut(uid)?.not_ready.as_mut()?;
        record.off_since = off.then(|| record.off_since.unwrap_or(now));
        record.off_since.map(|since| now - since)
    }

    /// Whether something is to be told of a Node: it is new, or long ago.
    pub(super) fn is_news(&mut self, uid: &str, what: &'static str, now: Instant) -> bool {
        let Some(record) = self.0.get_mut(uid).and_then(|record| record.not_ready.as_mut()) else {
            return true;
        };
        let known = record.told.is_some_and(|(told, at)| told == what && now - at < TELL_AGAIN);
        if !known {
            record.told = Some((what, now));
        }
        !known
    }

    fn not_ready(&self, uid: &str) -> Option<&NotReady> {
        self.0.get(uid)?.not_ready.as_ref()
    }
}

/// What was deleted lately, or may have been: a DELETE whose answer was lost counts.
#[derive(Debug, Default)]
pub(super) struct Deletions(VecDeque<Deletion>);

#[derive(Debug)]
struct Deletion {
    at: Instant,
    cloud: String,
    uid: String,
}

impl Deletions {
    /// Notes that a deletion ended now; a second try on the same Node takes the place of the first.
    pub(super) fn note(&mut self, cloud: &str, uid: &str, now: Instant) {
        self.0.retain(|each| each.uid != uid);
        self.0.push_back(Deletion { at: now, cloud: cloud.to_owned(), uid: uid.to_owned() });
    }

    /// Forgets what lies before the window.
    pub(super) fn forget_before(&mut self, window: Duration, now: Instant) {
        while self.0.front().is_some_and(|each| now - each.at >= window) {
            self.0.pop_front();
        }
    }

    /// Whether a Node is among them.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.0.iter().any(|each| each.uid == uid)
    }

    /// The UIDs of a cloud's.
    pub(super) fn of<'a>(&'a self, cloud: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |each| each.cloud == cloud).map(|each| each.uid.as_str())
    }
}

/// The breaker of one cloud: it opens at once and closes when the picture has been plausible for a while.
#[derive(Debug, Default)]
pub(super) struct Breaker(Option<(Suspicion, Instant)>);

impl Breaker {
    /// Takes in what is wrong with the picture, if anything; why nothing may be deleted, if it is so.
    pub(super) fn look(
        &mut self,
        suspicion: Option<Suspicion>,
        cool_down: Duration,
        now: Instant,
    ) -> Option<&Suspicion> {
        match suspicion {
            Some(suspicion) => self.0 = Some((suspicion, now)),
            None => {
                self.0.take_if(|(_, at)| now - *at >= cool_down);
            }
        }
        self.0.as_ref().map(|(suspicion, _)| suspicion)
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }
}
