//! Who waits, who goes first, and who leaves before the answer.

use super::*;

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
