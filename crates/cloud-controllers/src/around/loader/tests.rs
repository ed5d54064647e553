mod gathering;
mod listing;
mod memory;
mod patience;
mod trouble;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cloud_provider::{Decision, Evidence, Instance, ProviderId, Snapshot};
use controller_kit::random::Randomness;
use futures::future::join_all;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{advance, sleep, timeout};

use super::super::budget::{self, Budget};
use super::super::metrics::Metrics;
use super::super::operation::Deadlines;
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// What the scripted provider says to its calls.
#[derive(Debug, Clone, Copy)]
enum Says {
    Found,
    Absent,
    Doubt,
    NotMine,
    /// Found for the first so many, and nothing for the others.
    TooFew(usize),
    TooMany,
    Err,
    Throttled,
    ThrottledForOne,
    Panic,
    Hang,
}

/// One call as the provider saw it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    at: Duration,
    names: Vec<String>,
    freshness: Freshness,
}

/// A provider that says what the test wants, and remembers what it was asked.
struct Scripted {
    says: Mutex<Says>,
    takes: Mutex<Duration>,
    seen: Mutex<Vec<Seen>>,
    at_once: AtomicUsize,
    since: Instant,
}

impl Scripted {
    fn new(says: Says) -> Arc<Self> {
        let (says, takes) = (Mutex::new(says), Mutex::new(Duration::ZERO));
        let (seen, at_once) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { says, takes, seen, at_once, since: Instant::now() })
    }

    fn slow(self: Arc<Self>, takes: Duration) -> Arc<Self> {
        *self.takes.lock().unwrap() = takes;
        self
    }

    fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.seen().iter().map(|seen| seen.names.len()).collect()
    }
}

fn found(name: &str) -> Existence {
    Existence::Found(Box::new(Instance::new(ProviderId::new("test", name).unwrap())))
}

#[async_trait]
impl Instances for Scripted {
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        self.seen.lock().unwrap().push(Seen { at: self.since.elapsed(), names, freshness });
        let (says, takes) = (*self.says.lock().unwrap(), *self.takes.lock().unwrap());
        self.at_once.fetch_add(1, Ordering::Relaxed);
        sleep(takes).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        let all = |each: fn(&NodeRef) -> Existence| Ok(nodes.iter().map(each).collect());
        match says {
            Says::Found => all(|node| found(&node.name)),
            Says::Absent => all(|_| Existence::Absent(Evidence::NotFound { asked: "GET /".into() })),
            Says::Doubt => all(|_| Existence::Unknown(Doubt::EmptyInventory)),
            Says::NotMine => all(|_| Existence::NotMine),
            Says::TooFew(some) => Ok(nodes.iter().take(some).map(|node| found(&node.name)).collect()),
            Says::TooMany => Ok((0..=nodes.len()).map(|_| found("a")).collect()),
            Says::Err => Err(Error::unauthorized("listing servers")),
            Says::Throttled => Err(Error::throttled(None, "listing servers")),
            Says::ThrottledForOne => {
                let mut answers: Vec<Existence> = nodes.iter().map(|node| found(&node.name)).collect();
                let error = Error::throttled(None, "getting one server");
                answers[0] = Existence::Unknown(Doubt::Failed(error));
                Ok(answers)
            }
            Says::Panic => panic!("off by one"),
            Says::Hang => std::future::pending().await,
        }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn node(name: &str) -> NodeRef {
    NodeRef { name: name.into(), uid: format!("uid of {name}"), ..NodeRef::default() }
}

fn nodes(count: usize) -> Vec<NodeRef> {
    (0..count).map(|i| node(&format!("node-{i}"))).collect()
}

fn loader(provider: &Arc<Scripted>) -> Loader {
    loader_with(provider, Settings::default(), budget::Settings::default())
}

fn loader_with(provider: &Arc<Scripted>, settings: Settings, budget: budget::Settings) -> Loader {
    let metrics = Metrics::unregistered();
    let budget = Budget::new("test", budget, &metrics);
    let calls = Calls::new("test", budget, Deadlines::default(), &metrics);
    Loader::new(Arc::clone(provider) as Arc<dyn Instances>, calls, settings)
}

fn is(answer: &Existence, name: &str) -> bool {
    matches!(answer, Existence::Found(instance)
        if instance.provider_id.as_ref().is_some_and(|id| id.as_str() == format!("test://{name}")))
}

/// Why an answer is in doubt.
fn reason(answer: &Existence) -> String {
    match answer {
        Existence::Unknown(Doubt::Failed(error)) => error.report(),
        other => panic!("no failure: {other:?}"),
    }
}
