//! A candidate as tests see it: its task, its fence and its clock that may jump.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller_kit::clock::{TokioClock, WallClock};
use controller_kit::leader::{Config, Elector, Ended, Leadership, Metrics, Notice, Surroundings, Timing};
use controller_kit::random::Randomness;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::store::{Connection, Faults, Server};

/// A wall clock that can be set wrong.
#[derive(Debug)]
pub(crate) struct JumpyClock {
    clock: TokioClock,
    offset: AtomicI64,
}

impl JumpyClock {
    pub(crate) fn new() -> Self {
        let epoch: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        Self { clock: TokioClock::starting_at(epoch), offset: AtomicI64::new(0) }
    }

    pub(crate) fn jump(&self, seconds: i64) {
        self.offset.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl WallClock for JumpyClock {
    fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_secs(self.offset.load(Ordering::Relaxed));
        self.clock.now().saturating_add(offset).unwrap()
    }
}

pub(crate) struct Candidate {
    pub(crate) leadership: Leadership,
    pub(crate) connection: Connection,
    pub(crate) clock: Arc<JumpyClock>,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// Ends the candidate's work in good order: it then drains for a while and releases.
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Ended<()>>,
}

/// What to start a candidate with.
pub(crate) struct Setup {
    pub(crate) name: String,
    pub(crate) faults: Faults,
    pub(crate) seed: u64,
    /// How long the work goes on after it is told to stop.
    pub(crate) drain: Duration,
    pub(crate) metrics: Metrics,
}

impl Setup {
    pub(crate) fn named(name: &str) -> Self {
        let seed = name.bytes().fold(0, |seed, byte| seed * 31 + u64::from(byte));
        let (faults, drain) = (Faults::default(), Duration::ZERO);
        Self { name: name.to_owned(), faults, seed, drain, metrics: Metrics::unregistered() }
    }

    pub(crate) fn with(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    pub(crate) fn start(self, server: &Server) -> Candidate {
        let connection = Connection::new(server, self.faults, self.seed);
        let clock = Arc::new(JumpyClock::new());
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&notices);
        let config = Config {
            namespace: "kube-system".into(),
            name: "cloud-controller-manager".into(),
            identity: self.name,
            timing: Timing::default(),
        };
        let surroundings = Surroundings {
            store: Arc::new(connection.clone()),
            clock: clock.clone(),
            random: Randomness::seeded(self.seed),
            metrics: self.metrics,
            listener: Arc::new(move |notice: &Notice| heard.lock().unwrap().push(notice.to_string())),
        };
        let elector = Elector::new(config, surroundings).unwrap();
        let (leadership, stop, drain) = (elector.leadership(), CancellationToken::new(), self.drain);
        let stopping = stop.clone();
        let task = tokio::spawn(async move {
            let told = stopping.clone();
            let work = |_| async move {
                told.cancelled().await;
                sleep(drain).await;
            };
            elector.run(&stopping, work).await
        });
        Candidate { leadership, connection, clock, notices, stop, task }
    }
}

impl Candidate {
    pub(crate) fn leads(&self) -> bool {
        self.leadership.may_write()
    }

    /// The process is killed: nothing of it runs any more.
    pub(crate) fn crash(&self) {
        self.task.abort();
    }
}

/// Waits until `condition` holds and says how long that took; fails after `limit`.
pub(crate) async fn eventually(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    started.elapsed()
}
