//! A cloud that fails, hangs, throttles or miscounts.

use super::*;

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
