//! What is remembered, for how long, and what never is.

use super::*;

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
