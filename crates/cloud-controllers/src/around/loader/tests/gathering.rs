//! Questions that go to the cloud together, and those that share one answer.

use super::*;

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
