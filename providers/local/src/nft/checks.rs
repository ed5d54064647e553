//! Asks the backends of all balancers whether they serve. A place that several ports ask the same of is asked once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use crate::health::{self, AT_ONCE, Patient, Round};
use crate::intent::status::Health;
use crate::intent::{Backend, HealthCheck, Intent, PortKey, Probe, Protocol, Settings};

/// What is asked, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    place: SocketAddr,
    check: HealthCheck,
}

/// Everything that is asked now.
#[derive(Debug)]
pub(super) struct Checks {
    asked: Mutex<AskedFor>,
    /// Counts the verdicts that were news.
    news: watch::Sender<u64>,
    questions: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct AskedFor {
    /// The intent that these questions are for.
    intent: Arc<Intent>,
    questions: HashMap<Question, Asked>,
}

#[derive(Debug)]
struct Asked {
    /// How many backends it is asked for.
    uses: usize,
    subject: Arc<Subject>,
    /// Never changes: another check is another question. It ends the asking when it is dropped.
    _settings: watch::Sender<Arc<Settings>>,
    _asking: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Subject {
    place: SocketAddr,
    health: Mutex<Health>,
    news: watch::Sender<u64>,
}

impl Checks {
    /// Nothing is asked yet.
    pub(super) fn none() -> Self {
        Self {
            asked: Mutex::default(),
            news: watch::Sender::new(0),
            questions: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Tells when a verdict changed.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Counts the verdicts that were news: while it says the same, so does [`Self::health`] of every backend.
    pub(super) fn verdicts(&self) -> u64 {
        *self.news.borrow()
    }

    /// Asks exactly what this intent needs. What several ask goes on while one of them does.
    pub(super) fn follow(&self, intent: &Arc<Intent>) {
        let mut asked = self.lock();
        let AskedFor { intent: before, questions: known } = &mut *asked;
        for question in needed_by_new(intent, before) {
            known.entry(question).or_insert_with_key(|question| self.ask(question)).uses += 1;
        }
        for question in needed_by_new(before, intent) {
            if let Entry::Occupied(mut held) = known.entry(question) {
                held.get_mut().uses -= 1;
                if held.get().uses == 0 {
                    held.remove();
                }
            }
        }
        *before = Arc::clone(intent);
    }

    fn ask(&self, question: &Question) -> Asked {
        let subject = Arc::new(Subject {
            place: question.place,
            health: Health::Unknown.into(),
            news: self.news.clone(),
        });
        let settings = Settings { health_check: question.check.clone(), ..Settings::default() };
        let settings = watch::Sender::new(Arc::new(settings));
        let round = Round {
            settings: settings.subscribe(),
            end: CancellationToken::new(),
            questions: Arc::clone(&self.questions),
        };
        let asking = health::watch(Arc::clone(&subject), Protocol::Tcp, round);
        Asked { uses: 0, subject, _settings: settings, _asking: AbortOnDropHandle::new(tokio::spawn(asking)) }
    }

    /// What is known of a backend.
    pub(super) fn health(&self, settings: &Settings, key: PortKey, backend: &Backend) -> Health {
        let Some(question) = question(settings, key, backend) else { return Health::Unchecked };
        self.lock().questions.get(&question).map_or(Health::Unknown, |asked| asked.subject.health())
    }

    /// Waits until every question was answered once, but no longer than this.
    pub(super) async fn first_answers(&self, limit: Duration) {
        let mut news = self.news();
        let all = news.wait_for(|_| {
            self.lock().questions.values().all(|asked| asked.subject.health() != Health::Unknown)
        });
        // Those who did not answer by then are not known.
        let _ = tokio::time::timeout(limit, all).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, AskedFor> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The questions of the balancers of an intent that another one does not have, or has otherwise.
fn needed_by_new<'a>(intent: &'a Intent, other: &'a Intent) -> impl Iterator<Item = Question> + 'a {
    let balancers = intent.balancers.iter();
    let new = balancers.filter(|(uid, balancer)| other.balancers.get(*uid) != Some(*balancer));
    new.flat_map(|(_, balancer)| {
        let ports = balancer.ports.iter();
        let backends = ports.flat_map(|(key, port)| port.backends.iter().map(move |backend| (*key, backend)));
        backends.filter_map(|(key, backend)| question(&balancer.settings, key, backend))
    })
}

fn question(settings: &Settings, key: PortKey, backend: &Backend) -> Option<Question> {
    let check = &settings.health_check;
    if !health::is_asked(key.protocol, check) {
        return None;
    }
    let port = match check.probe {
        Probe::Http { port, .. } => port,
        Probe::Tcp | Probe::None => backend.port,
    };
    Some(Question { place: SocketAddr::new(backend.address, port), check: check.clone() })
}

impl Patient for Subject {
    fn socket(&self) -> SocketAddr {
        self.place
    }

    fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn judge(&self, health: Health) {
        let before = std::mem::replace(
            &mut *self.health.lock().unwrap_or_else(PoisonError::into_inner),
            health.clone(),
        );
        if std::mem::discriminant(&before) != std::mem::discriminant(&health) {
            info!(place = %self.place, ?health, "health changed");
            self.news.send_modify(|count| *count += 1);
        }
    }

    fn doubted(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}
