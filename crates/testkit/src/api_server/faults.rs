//! Faults: what the server does wrong, by rules and by script. Every decision is drawn from one seeded stream, so
//! that the same seed goes wrong in the same way again.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::route::Verb;
use super::trace::Request;

mod plan;

pub use plan::Faults;

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Answers 500 and applies nothing.
    InternalError,
    /// Answers 503 and applies nothing.
    Unavailable,
    /// Answers 429 with `Retry-After` and applies nothing.
    Throttled(Duration),
    /// Answers 403: a verb is missing from the role.
    Forbidden,
    /// Answers 504 after this long and applies nothing.
    Timeout(Duration),
    /// Answers 409 to a write and applies nothing.
    Conflict,
    /// Never answers; nothing is applied.
    Hang,
    /// Applies the request, and never answers.
    HangAfterApplying,
    /// The connection is refused; nothing is applied.
    Refused,
    /// The request is applied and the connection breaks before the answer.
    LostAnswer,
    /// Answers late.
    Delay(Duration),
    /// Answers late, by a time drawn between the two bounds.
    DelayBetween(Duration, Duration),
    /// Shows the state of some revisions ago to reads that allow it: `resourceVersion=0` and watches.
    StaleRead {
        /// How many revisions ago.
        revisions: u64,
    },
    /// Ends a watch cleanly after this long.
    DropWatch(Duration),
    /// Breaks a watch's connection after this long.
    BreakWatch(Duration),
    /// Keeps a watch open and sends nothing, from `after` on, for `lasting`.
    StallWatch {
        /// When the silence begins.
        after: Duration,
        /// How long it lasts.
        lasting: Duration,
    },
    /// Ends a watch with a 410 event after this long.
    ExpireWatch(Duration),
}

/// Which requests a fault is about.
#[derive(Debug, Clone, Default)]
pub struct When {
    verbs: Vec<Verb>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    user_agent: Option<String>,
    probability: Option<f64>,
    from: Duration,
    until: Option<Duration>,
    times: Option<u64>,
}

impl When {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verbs: vec![verb], ..Self::default() }
    }

    /// GET and LIST.
    pub fn reads() -> Self {
        Self { verbs: vec![Verb::Get, Verb::List], ..Self::default() }
    }

    /// WATCH.
    pub fn watches() -> Self {
        Self::verb(Verb::Watch)
    }

    /// Everything that may change something.
    pub fn writes() -> Self {
        let verbs = vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
        Self { verbs, ..Self::default() }
    }

    /// Only about this kind, such as `Node`.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..self }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only about this object.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Only about this subresource; the empty text means the object itself.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only from this user agent.
    #[must_use]
    pub fn user_agent(self, agent: &str) -> Self {
        Self { user_agent: Some(agent.to_owned()), ..self }
    }

    /// Only so often: 0.1 is one request in ten.
    #[must_use]
    pub fn with_probability(self, probability: f64) -> Self {
        Self { probability: Some(probability), ..self }
    }

    /// Only from this virtual time on, counted from the server's start.
    #[must_use]
    pub fn from(self, from: Duration) -> Self {
        Self { from, ..self }
    }

    /// Only before this virtual time.
    #[must_use]
    pub fn until(self, until: Duration) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Only for the first so many requests.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    fn covers(&self, request: &Request) -> bool {
        let fits =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && fits(&self.kind, &request.kind)
            && fits(&self.namespace, &request.namespace)
            && fits(&self.name, &request.name)
            && fits(&self.subresource, &request.subresource)
            && fits(&self.user_agent, &request.user_agent)
            && request.at >= self.from
            && self.until.is_none_or(|until| request.at < until)
            && self.times != Some(0)
    }
}

/// What will happen to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How much later it is answered.
    pub(crate) delay: Duration,
    /// What happens instead of a good answer.
    pub(crate) failure: Option<Fault>,
    /// How many revisions behind it reads.
    pub(crate) revisions_behind: u64,
    /// How a watch ends early: when, and by which fault.
    pub(crate) watch_end: Option<(Duration, Fault)>,
    /// When a watch is silent: from, and for how long.
    pub(crate) stall: Option<(Duration, Duration)>,
}

/// A stretch of time in which the caches of the server show an older state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Travel {
    /// The revision that is shown.
    pub(crate) revision: u64,
    /// When it ends.
    pub(crate) until: Duration,
}

/// The rules behind the lock.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    random: SmallRng,
    rules: Vec<(When, Fault)>,
    /// Until when nothing listens.
    pub(crate) down_until: Duration,
    /// What the caches show instead of the latest state.
    pub(crate) travel: Option<Travel>,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
            rules: Vec::new(),
            down_until: Duration::ZERO,
            travel: None,
        }
    }

    /// Decides what happens to a request. Every rule that covers it and has a probability draws, whether or not an
    /// earlier rule has struck already: the stream then does not depend on the outcome.
    pub(crate) fn decide(&mut self, request: &Request) -> Fate {
        let mut fate = Fate::default();
        for (when, fault) in &mut self.rules {
            if !when.covers(request) {
                continue;
            }
            if when.probability.is_some_and(|probability| self.random.random::<f64>() >= probability) {
                continue;
            }
            if let Some(times) = &mut when.times {
                *times -= 1;
            }
            fate.add(fault, &mut self.random);
        }
        self.rules.retain(|(when, _)| when.times != Some(0));
        fate
    }
}

impl Fate {
    fn add(&mut self, fault: &Fault, random: &mut SmallRng) {
        match fault {
            Fault::Delay(delay) => self.delay += *delay,
            Fault::DelayBetween(least, most) => {
                self.delay += *least + most.saturating_sub(*least).mul_f64(random.random::<f64>());
            }
            Fault::StaleRead { revisions } => self.revisions_behind = self.revisions_behind.max(*revisions),
            Fault::DropWatch(after) | Fault::BreakWatch(after) | Fault::ExpireWatch(after) => {
                if self.watch_end.as_ref().is_none_or(|(earlier, _)| after < earlier) {
                    self.watch_end = Some((*after, fault.clone()));
                }
            }
            Fault::StallWatch { after, lasting } => self.stall = Some((*after, *lasting)),
            other => {
                self.failure.get_or_insert_with(|| other.clone());
            }
        }
    }
}
