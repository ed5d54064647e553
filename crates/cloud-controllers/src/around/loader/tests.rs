mod listing;

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

#[tokio::test(start_paused = true)]
async fn ten_thousand_single_questions_are_two_calls_of_five_thousand() {
    let provider = Scripted::new(Says::Found).slow(ms(300));
    let (loader, nodes) = (loader(&provider), nodes(10_000));
    let started = Instant::now();
    let answers = join_all(nodes.iter().map(|node| loader.one(node, Urgency::Initialise))).await;
    assert_eq!(provider.sizes(), [5000, 5000]);
    assert!(nodes.iter().zip(&answers).all(|(node, answer)| is(answer, &node.name)));
    assert_eq!(started.elapsed(), ms(300), "full batches wait for no window and not for each other");
}

#[tokio::test(start_paused = true)]
async fn a_few_questions_go_together_when_nobody_has_asked_for_a_moment() {
    let provider = Scripted::new(Says::Found);
    let loader = loader(&provider);
    let late = async {
        sleep(ms(15)).await;
        loader.one(&node("c"), Urgency::Refresh).await
    };
    let (a, b) = (node("a"), node("b"));
    let (a, b, c) = tokio::join!(loader.one(&a, Urgency::Refresh), loader.one(&b, Urgency::Refresh), late);
    assert!(is(&a, "a") && is(&b, "b") && is(&c, "c"));
    let names = ["a", "b", "c"].map(String::from).to_vec();
    assert_eq!(provider.seen(), [Seen { at: ms(35), names, freshness: Freshness::Recent }]);
}

#[tokio::test(start_paused = true)]
async fn while_a_look_up_is_under_way_questions_gather_until_it_ends() {
    let provider = Scripted::new(Says::Found).slow(ms(200));
    let (loader, nodes) = (loader(&provider), nodes(11));
    let trickle = nodes.iter().enumerate().map(|(i, node)| {
        let loader = &loader;
        async move {
            sleep(ms(100 * i as u64)).await;
            loader.one(node, Urgency::Initialise).await
        }
    });
    assert!(join_all(trickle).await.iter().all(|answer| matches!(**answer, Existence::Found(_))));
    // The first goes alone at 20 ms; what comes before its answer at 220 ms goes together, 80 ms after the last of them;
    // the rest never leaves the 320 ms that are now waited for, so it goes after the second that is gathered at most.
    assert_eq!(provider.sizes(), [1, 2, 8]);
    assert_eq!((provider.seen()[1].at, provider.seen()[2].at), (ms(280), ms(1300)));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_gathered_and_its_last_is_not_kept_waiting() {
    let provider = Scripted::new(Says::Found).slow(ms(100));
    let (loader, nodes) = (loader(&provider), nodes(1000));
    let crowd = (0_u64..).zip(&nodes).map(|(i, node)| {
        let loader = &loader;
        async move {
            sleep(ms(6 * i)).await;
            let asked = Instant::now();
            let answer = loader.one(node, Urgency::Initialise).await;
            assert!(is(&answer, &node.name));
            asked.elapsed()
        }
    });
    let waits = join_all(crowd).await;
    assert!(provider.sizes().len() <= 6, "{:?}", provider.sizes());
    // The twelfth part of the six seconds, and the call.
    assert!(*waits.last().unwrap() <= ms(600), "{:?}", waits.last());
    // A third of those before it is a batch: nobody waits much longer than a third of the time so far.
    assert!(*waits.iter().max().unwrap() <= ms(2100), "{:?}", waits.iter().max());
    // And a single one, later, is a single one again.
    sleep(ms(5000)).await;
    let asked = Instant::now();
    loader.one(&node("late"), Urgency::Initialise).await;
    assert_eq!(asked.elapsed(), ms(120));
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_hangs_delays_the_others_by_half_a_second_and_no_more() {
    let provider = Scripted::new(Says::Hang);
    let loader = loader(&provider);
    let (a, b) = (node("a"), node("b"));
    let other = async {
        sleep(ms(100)).await;
        provider.says(Says::Found);
        loader.one(&b, Urgency::Initialise).await
    };
    let (hung, other) = tokio::join!(loader.one(&a, Urgency::Initialise), other);
    assert!(is(&other, "b"));
    assert_eq!(provider.seen()[1].at, ms(600));
    assert_eq!(
        reason(&hung),
        "looking up 1 nodes: waiting for the cloud to answer lookup_instances: nothing came within 60s"
    );
}

#[tokio::test(start_paused = true)]
async fn everybody_who_asks_for_a_node_that_is_asked_for_shares_the_answer() {
    let provider = Scripted::new(Says::Absent).slow(ms(500));
    let loader = loader(&provider);
    let (a, all) = (node("a"), vec![node("a"), node("a")]);
    let later = async {
        sleep(ms(300)).await;
        let age = Age::AtMost(Duration::from_secs(60));
        tokio::join!(
            loader.one(&a, Urgency::Initialise),
            loader.many(&all, Urgency::Create, age),
            loader.many(&all, Urgency::Refresh, Age::Now),
        )
    };
    let (first, (one, many, now)) = tokio::join!(loader.one(&a, Urgency::Refresh), later);
    assert!(Arc::ptr_eq(&first, &one) && many.iter().all(|each| Arc::ptr_eq(&first, each)));
    // Only the question that decides on a deletion is asked again, once.
    assert!(now.iter().all(|each| !Arc::ptr_eq(&first, each)) && Arc::ptr_eq(&now[0], &now[1]));
    let freshness: Vec<Freshness> = provider.seen().iter().map(|seen| seen.freshness).collect();
    assert_eq!(freshness, [Freshness::Recent, Freshness::Now]);
    assert_eq!(provider.sizes(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_a_call_that_was_sent_too_long_ago() {
    let provider = Scripted::new(Says::Hang);
    let (loader, a) = (loader(&provider), [node("a")]);
    let age = Age::AtMost(ms(5000));
    let later = async |wait| {
        sleep(ms(wait)).await;
        provider.says(Says::Found);
        loader.many(&a, Urgency::Refresh, age).await
    };
    let (hung, joined, asked) =
        tokio::join!(loader.many(&a, Urgency::Refresh, age), later(4999), later(5000));
    assert!(Arc::ptr_eq(&hung[0], &joined[0]) && is(&asked[0], "a"));
}

#[tokio::test(start_paused = true)]
async fn what_was_found_is_remembered_as_long_as_the_question_allows() {
    for says in [Says::Found, Says::NotMine] {
        let provider = Scripted::new(says);
        let settings = Settings { reuse: ms(5000), ..Settings::default() };
        let (loader, nodes) = (loader_with(&provider, settings, budget::Settings::default()), nodes(3));
        let ask = async |age| loader.many(&nodes, Urgency::Refresh, age).await.len();
        ask(Age::AtMost(ms(5000))).await;
        advance(ms(4999)).await;
        ask(Age::AtMost(ms(5000))).await;
        loader.one(&nodes[0], Urgency::Initialise).await;
        assert_eq!(provider.sizes(), [3], "{says:?}");
        advance(ms(1)).await;
        ask(Age::AtMost(ms(5000))).await;
        ask(Age::Now).await;
        ask(Age::AtMost(Duration::ZERO)).await;
        assert_eq!(provider.sizes(), [3, 3, 3, 3], "{says:?}");
        let renamed = NodeRef { uid: "another".into(), ..nodes[0].clone() };
        loader.many(&[renamed], Urgency::Refresh, Age::AtMost(HOUR)).await;
        let named = NodeRef { provider_id: Some("test://x".into()), ..nodes[0].clone() };
        loader.many(&[named], Urgency::Refresh, Age::AtMost(HOUR)).await;
        loader.forget("node-0");
        loader.many(&nodes, Urgency::Refresh, Age::AtMost(HOUR)).await;
        assert_eq!(provider.sizes()[4..], [1, 1, 1], "{says:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn absence_and_doubt_are_never_remembered() {
    for says in [Says::Absent, Says::Doubt, Says::Err, Says::TooMany] {
        let provider = Scripted::new(says);
        let (loader, a) = (loader(&provider), node("a"));
        for _ in 0..3 {
            let one = loader.one(&a, Urgency::Refresh).await;
            assert!(!matches!(*one, Existence::Found(_)));
            loader.many(std::slice::from_ref(&a), Urgency::Refresh, Age::AtMost(HOUR)).await;
        }
        assert_eq!(provider.sizes().len(), 6, "{says:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_ends_what_was_remembered_and_a_doubt_does_not() {
    let provider = Scripted::new(Says::Found);
    let (loader, a) = (loader(&provider), [node("a")]);
    let remembered = Age::AtMost(HOUR);
    loader.many(&a, Urgency::Refresh, remembered).await;
    provider.says(Says::Doubt);
    loader.many(&a, Urgency::Refresh, Age::Now).await;
    assert!(is(&loader.many(&a, Urgency::Refresh, remembered).await[0], "a"));
    provider.says(Says::Absent);
    loader.many(&a, Urgency::Refresh, Age::Now).await;
    assert!(matches!(*loader.many(&a, Urgency::Refresh, remembered).await[0], Existence::Absent(_)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_does_not_stand_against_a_later_question() {
    let provider = Scripted::new(Says::Found).slow(ms(1000));
    let (loader, a) = (loader(&provider), [node("a")]);
    let slow = loader.many(&a, Urgency::Refresh, Age::Now);
    let quick = async {
        sleep(ms(100)).await;
        *provider.takes.lock().unwrap() = Duration::ZERO;
        provider.says(Says::NotMine);
        loader.many(&a, Urgency::Refresh, Age::Now).await
    };
    let (slow, quick) = tokio::join!(slow, quick);
    assert!(is(&slow[0], "a") && matches!(*quick[0], Existence::NotMine));
    let remembered = loader.many(&a, Urgency::Refresh, Age::AtMost(HOUR)).await;
    assert!(Arc::ptr_eq(&remembered[0], &quick[0]));
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_is_unknown_for_each_with_the_reason() {
    let expected = [
        (Says::TooFew(2), "reading the provider's answer: it has 2 entries for 3 nodes"),
        (Says::TooFew(0), "reading the provider's answer: it has 0 entries for 3 nodes"),
        (Says::TooMany, "reading the provider's answer: it has 4 entries for 3 nodes"),
        (Says::Err, "listing servers"),
        (Says::Panic, "the provider test panicked in lookup_instances: off by one"),
        (Says::Hang, "waiting for the cloud to answer lookup_instances: nothing came within 60s"),
    ];
    for (says, why) in expected {
        let provider = Scripted::new(says);
        let loader = loader(&provider);
        let answers = loader.many(&nodes(3), Urgency::Refresh, Age::Now).await;
        assert_eq!(answers.len(), 3);
        for answer in &answers {
            assert_eq!(reason(answer), format!("looking up 3 nodes: {why}"));
        }
        provider.says(Says::Found);
        assert!(is(&*loader.one(&node("b"), Urgency::Refresh).await, "b"), "the next call is a new one");
        assert!(loader.0.desk().is_clear());
    }
}

#[tokio::test(start_paused = true)]
async fn the_decision_of_a_failed_look_up_is_kept() {
    let provider = Scripted::new(Says::Err);
    let answer = loader(&provider).one(&node("a"), Urgency::Refresh).await;
    let Existence::Unknown(Doubt::Failed(error)) = &*answer else { panic!("{answer:?}") };
    assert_eq!(error.decision(), &Decision::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn throttling_is_noticed_even_where_it_hit_one_node_of_many() {
    for says in [Says::Throttled, Says::ThrottledForOne] {
        let provider = Scripted::new(says);
        let loader = loader(&provider);
        loader.many(&nodes(3), Urgency::Refresh, Age::Now).await;
        assert_eq!(loader.0.calls.budget().slots(), 8, "{says:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_the_order_asked_however_they_are_divided() {
    let provider = Scripted::new(Says::Found);
    let settings = Settings { bulk: NonZeroUsize::new(4).unwrap(), ..Settings::default() };
    let loader = loader_with(&provider, settings, budget::Settings::default());
    let mut nodes = nodes(10);
    nodes.push(nodes[2].clone());
    let answers = loader.many(&nodes, Urgency::Refresh, Age::Now).await;
    assert!(nodes.iter().zip(&answers).all(|(node, answer)| is(answer, &node.name)));
    assert_eq!(provider.sizes(), [4, 4, 2], "the node that is asked for twice is sent once");
    assert!(loader.many(&[], Urgency::Refresh, Age::Now).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_urgent_do_not_wait_for_the_turn_of_the_patient() {
    let provider = Scripted::new(Says::Found).slow(ms(10));
    let one_slot = budget::Settings { slots: NonZeroUsize::MIN, ..budget::Settings::default() };
    let loader = loader_with(&provider, Settings::default(), one_slot);
    let slot = loader.0.calls.budget().enter(Urgency::Create).await;
    let (a, order) = (node("a"), Mutex::new(Vec::new()));
    let ask = async |name: &str, node: &NodeRef, urgency| {
        loader.many(std::slice::from_ref(node), urgency, Age::AtMost(ms(1))).await;
        order.lock().unwrap().push(name.to_owned());
    };
    let (b, c) = (node("b"), node("c"));
    tokio::join!(
        ask("patient", &b, Urgency::Refresh),
        ask("drift", &a, Urgency::Drift),
        ask("also patient", &c, Urgency::Refresh),
        ask("urgent", &a, Urgency::Initialise),
        async {
            sleep(ms(50)).await;
            drop(slot);
        }
    );
    assert_eq!(order.lock().unwrap()[0], "urgent");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_nobody_waits_for_any_more_are_not_asked_for() {
    let provider = Scripted::new(Says::Found);
    let loader = loader(&provider);
    let (a, b) = (node("a"), node("b"));
    let left = timeout(ms(5), loader.one(&a, Urgency::Refresh));
    let (left, stayed) = tokio::join!(left, loader.one(&b, Urgency::Refresh));
    assert!(left.is_err() && is(&stayed, "b"));
    assert_eq!(provider.seen()[0].names, ["b"]);
    assert!(timeout(ms(5), loader.one(&a, Urgency::Refresh)).await.is_err());
    sleep(ms(100)).await;
    assert_eq!(provider.seen().len(), 1, "and a batch of nobody is not sent at all");
    assert!(loader.0.desk().is_clear());
}

#[tokio::test(start_paused = true)]
async fn the_cancellation_of_whoever_asked_first_costs_nobody_else_the_answer() {
    let provider = Scripted::new(Says::Found).slow(ms(500));
    let loader = loader(&provider);
    let a = node("a");
    let first = timeout(ms(100), loader.one(&a, Urgency::Refresh));
    let second = async {
        sleep(ms(50)).await;
        loader.one(&a, Urgency::Refresh).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err() && is(&second, "a"));
    assert_eq!(provider.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_in_time_and_number() {
    let provider = Scripted::new(Says::Found);
    let settings = Settings { keep: Duration::from_secs(60), remembered: 100, ..Settings::default() };
    let loader = loader_with(&provider, settings, budget::Settings::default());
    let all = nodes(130);
    loader.many(&all[..80], Urgency::Refresh, Age::Now).await;
    advance(Duration::from_secs(1)).await;
    loader.many(&all[80..], Urgency::Refresh, Age::Now).await;
    assert!(loader.0.desk().cache.len() <= 100);
    let calls = provider.seen().len();
    loader.many(&all[80..], Urgency::Refresh, Age::AtMost(HOUR)).await;
    assert_eq!(provider.seen().len(), calls, "the youngest are kept");
    advance(Duration::from_secs(61)).await;
    loader.many(&all[..1], Urgency::Refresh, Age::Now).await;
    assert_eq!(loader.0.desk().cache.len(), 1);
}

/// Random callers with random patience against a provider of random moods: whoever stays is answered, about the right
/// node, and nothing is left on the desk or in the budget.
#[tokio::test(start_paused = true)]
async fn whoever_stays_is_answered_whoever_else_leaves() {
    for seed in 0..100 {
        let random = Randomness::seeded(seed);
        let pick = |below: u32| u32::try_from(random.uuid().as_u128() % u128::from(below)).unwrap();
        let provider = Scripted::new(Says::Found);
        let settings = Settings { batch: NonZeroUsize::new(5).unwrap(), ..Settings::default() };
        let slots = NonZeroUsize::new(1 + pick(4) as usize).unwrap();
        let budget =
            budget::Settings { slots, window: Duration::from_secs(4), ..budget::Settings::default() };
        let loader = loader_with(&provider, settings, budget);
        let (mut staying, mut leaving) = (JoinSet::new(), JoinSet::new());
        for _ in 0..80 {
            let (delay, patience, urgency) = (pick(400), pick(300), Urgency::ALL[pick(4) as usize]);
            let (kind, first, stays) = (pick(3), pick(20), pick(2) == 0);
            let loader = loader.clone();
            let call = async move {
                sleep(ms(delay.into())).await;
                let asked: Vec<NodeRef> = (first..first + 3).map(|i| node(&format!("node-{i}"))).collect();
                let answers = match kind {
                    0 => vec![loader.one(&asked[0], urgency).await],
                    1 => loader.many(&asked, urgency, Age::AtMost(ms(50))).await,
                    _ => loader.many(&asked, urgency, Age::Now).await,
                };
                for (node, answer) in asked.iter().zip(&answers) {
                    let right = is(answer, &node.name) || matches!(**answer, Existence::Unknown(_));
                    assert!(right, "{} got {answer:?}", node.name);
                }
                answers.len()
            };
            if stays {
                staying.spawn(call);
            } else {
                leaving.spawn(timeout(ms(patience.into()), call));
            }
        }
        for _ in 0..10 {
            *provider.takes.lock().unwrap() = ms(pick(120).into());
            provider
                .says([Says::Found, Says::Found, Says::Err, Says::Panic, Says::Throttled][pick(5) as usize]);
            sleep(ms(60)).await;
        }
        provider.says(Says::Found);
        let answered = timeout(HOUR, staying.join_all()).await;
        assert!(answered.is_ok_and(|counts| counts.iter().all(|count| *count > 0)), "seed {seed}");
        leaving.join_all().await;
        sleep(Duration::from_secs(120)).await;
        yield_now().await;
        let budget = loader.0.calls.budget();
        assert!(loader.0.desk().is_clear(), "seed {seed}");
        assert_eq!((budget.in_flight(), budget.waiting()), (0, 0), "seed {seed}");
        assert_eq!(provider.at_once.load(Ordering::Relaxed), 0);
    }
}
