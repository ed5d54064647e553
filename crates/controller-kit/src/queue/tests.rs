//! The queue in virtual time: order, collapse, re-run, delays, metrics and draining.

use prometheus_client::registry::Registry;
use tokio::time::{Instant, advance, timeout};

use super::*;

fn queue() -> Queue<&'static str> {
    Queue::new("test", RateLimits::backoff(ms(5), ms(1_000_000)), &Metrics::unregistered())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn take_all(queue: &Queue<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.try_next())
        .map(|item| {
            let key = *item.key();
            item.done();
            key
        })
        .collect()
}

/// Proves: RT-5
#[tokio::test(start_paused = true)]
async fn adds_of_a_queued_key_collapse() {
    let queue = queue();
    for key in ["a", "b", "a", "a"] {
        queue.add(key, Priority::NORMAL);
    }
    assert_eq!(queue.len(), 2);
    assert_eq!(take_all(&queue), ["a", "b"]);
    assert!(queue.is_empty());
}

/// Proves: RT-5
#[tokio::test(start_paused = true)]
async fn a_key_dirtied_while_it_runs_runs_once_more_and_never_beside_itself() {
    let queue = queue();
    queue.add("a", Priority::NORMAL);
    let first = queue.try_next().unwrap();
    queue.add("a", Priority::NORMAL);
    queue.add("a", Priority::NORMAL);
    assert!(queue.try_next().is_none(), "two workers on one key");
    assert_eq!(queue.len(), 1);
    first.done();
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_go_first_and_first_come_first_served_within_one() {
    let queue = queue();
    for (key, priority) in [("drift", Priority::LOW), ("b", Priority::NORMAL), ("a", Priority::NORMAL)] {
        queue.add(key, priority);
    }
    queue.add("create", Priority::HIGH);
    assert_eq!(take_all(&queue), ["create", "b", "a", "drift"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_add_raises_the_priority_keeps_the_place_in_line_and_never_lowers_it() {
    let queue = queue();
    queue.add("early", Priority::LOW);
    queue.add("urgent", Priority::HIGH);
    queue.add("early", Priority::HIGH);
    queue.add("urgent", Priority::LOW);
    assert_eq!(take_all(&queue), ["early", "urgent"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_not_early_and_the_earliest_delay_wins() {
    let queue = queue();
    queue.add_after("a", ms(50), Priority::NORMAL);
    queue.add_after("a", ms(100), Priority::NORMAL);
    queue.add_after("b", ms(100), Priority::NORMAL);
    queue.add_after("b", ms(20), Priority::NORMAL);
    advance(ms(19)).await;
    assert_eq!((take_all(&queue).len(), queue.waiting()), (0, 2));
    advance(ms(1)).await;
    assert_eq!(take_all(&queue), ["b"]);
    advance(ms(30)).await;
    assert_eq!(take_all(&queue), ["a"]);
    advance(ms(1000)).await;
    assert_eq!((take_all(&queue).len(), queue.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_plain_add_does_not_cancel_a_promise_to_come_back() {
    let queue = queue();
    queue.add_after("a", ms(50), Priority::NORMAL);
    queue.add("a", Priority::NORMAL);
    assert_eq!(take_all(&queue), ["a"]);
    advance(ms(50)).await;
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_sleeps_for_a_late_key_wakes_for_an_earlier_one() {
    let queue = queue();
    queue.add_after("late", ms(10_000), Priority::NORMAL);
    let waiter = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.next().await.map(|item| *item.key()) })
    };
    advance(ms(1)).await;
    let started = Instant::now();
    queue.add_after("soon", ms(5), Priority::NORMAL);
    assert_eq!(waiter.await.unwrap(), Some("soon"));
    assert_eq!(started.elapsed(), ms(5));
}

#[tokio::test(start_paused = true)]
async fn retries_wait_longer_each_time_until_the_key_is_done() {
    let queue = queue();
    let mut waits = Vec::new();
    queue.add("a", Priority::HIGH);
    for _ in 0..4 {
        let item = queue.next().await.unwrap();
        assert_eq!(item.priority(), Priority::HIGH);
        let failed = Instant::now();
        item.retry();
        let item = queue.next().await.unwrap();
        waits.push(failed.elapsed().as_millis());
        if waits.len() == 3 {
            item.done();
            queue.add("a", Priority::HIGH);
        } else {
            drop(item);
        }
    }
    assert_eq!(waits, [5, 10, 20, 5]);
}

#[tokio::test(start_paused = true)]
async fn asking_to_come_back_later_leaves_the_back_off_as_it_is() {
    let queue = queue();
    queue.add_rate_limited("a", Priority::NORMAL);
    queue.next().await.unwrap().retry_after(ms(300));
    assert_eq!(queue.failures(&"a"), 1);
    let asked = Instant::now();
    let item = queue.next().await.unwrap();
    assert_eq!(asked.elapsed(), ms(300));
    item.done();
    assert_eq!(queue.failures(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_task_is_aborted_is_ready_again() {
    let queue = queue();
    queue.add("a", Priority::NORMAL);
    let holder = {
        let queue = queue.clone();
        tokio::spawn(async move {
            let _item = queue.next().await;
            std::future::pending::<()>().await;
        })
    };
    advance(ms(1)).await;
    assert_eq!(queue.running().len(), 1);
    holder.abort();
    assert!(holder.await.unwrap_err().is_cancelled());
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_running_keys_and_hands_back_the_rest() {
    let queue = queue();
    for key in ["finishes", "fails", "dirty", "queued"] {
        queue.add(key, Priority::NORMAL);
    }
    queue.add_after("later", ms(60_000), Priority::NORMAL);
    let [finishes, fails, dirty] = [(); 3].map(|()| queue.try_next().unwrap());
    queue.add("dirty", Priority::NORMAL);
    let work = tokio::spawn(async move {
        tokio::time::sleep(ms(700)).await;
        finishes.done();
        fails.retry();
        dirty.done();
    });
    let started = Instant::now();
    let left = queue.drain(ms(5000)).await;
    assert_eq!(started.elapsed(), ms(700));
    assert_eq!(left, Leftover { queued: vec!["dirty", "fails", "later", "queued"], running: vec![] });
    work.await.unwrap();
    queue.add("too late", Priority::HIGH);
    assert!(queue.next().await.is_none());
    assert!(!queue.drain(ms(0)).await.queued.contains(&"too late"));
}

#[tokio::test(start_paused = true)]
async fn draining_ends_at_its_deadline_and_names_what_still_runs() {
    let queue = queue();
    queue.add("stuck", Priority::NORMAL);
    let stuck = queue.try_next().unwrap();
    let started = Instant::now();
    let left = queue.drain(ms(5000)).await;
    assert_eq!(started.elapsed(), ms(5000));
    assert_eq!(left, Leftover { queued: vec![], running: vec!["stuck"] });
    drop(stuck);
    assert_eq!(queue.drain(ms(0)).await, Leftover { queued: vec!["stuck"], running: vec![] });
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_waiting_worker() {
    let queue = queue();
    let waiters = [(); 3].map(|()| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.next().await.is_none() })
    });
    advance(ms(1)).await;
    queue.close();
    for waiter in waiters {
        assert!(timeout(ms(1), waiter).await.unwrap().unwrap());
    }
}

fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

/// Proves: APP-54
#[tokio::test(start_paused = true)]
async fn the_metrics_have_upstreams_names_labels_and_buckets() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let queue = Queue::new("service", RateLimits::default(), &metrics);
    queue.add("a", Priority::NORMAL);
    queue.add("b", Priority::NORMAL);
    queue.add("b", Priority::NORMAL);
    advance(ms(250)).await;
    let item = queue.try_next().unwrap();
    queue.add("a", Priority::NORMAL);
    advance(ms(2000)).await;
    insta::assert_snapshot!(exposition(&registry));
    item.retry();
    let after = exposition(&registry);
    for line in [
        "workqueue_retries_total{name=\"service\"} 1",
        "workqueue_work_duration_seconds_sum{name=\"service\"} 2.0",
        "workqueue_unfinished_work_seconds{name=\"service\"} 0.0",
        "workqueue_depth{name=\"service\"} 2.0",
    ] {
        assert!(after.contains(line), "{line} is missing in\n{after}");
    }
    drop(queue);
    assert!(!exposition(&registry).contains("workqueue_depth{"));
}
