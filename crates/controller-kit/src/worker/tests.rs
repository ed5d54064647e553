//! Workers in virtual time: verdicts, panics, stalls and draining.

use std::sync::Mutex;

use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};

use super::*;
use crate::queue::{Metrics as QueueMetrics, Priority, RateLimits};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn queue() -> Queue<&'static str> {
    Queue::new("test", RateLimits::backoff(secs(5), secs(300)), &QueueMetrics::unregistered())
}

const ONE: Settings = Settings { workers: 1, deadline: None };

/// When which key was worked on, in whole seconds since the start.
#[derive(Clone)]
struct Diary(Arc<Mutex<Vec<(&'static str, u64)>>>, Instant);

impl Diary {
    fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    /// Notes a run and returns how many there were of this key before.
    fn note(&self, key: &'static str) -> usize {
        let mut runs = self.0.lock().unwrap();
        runs.push((key, self.1.elapsed().as_secs()));
        runs.iter().filter(|(other, _)| *other == key).count() - 1
    }

    fn of(&self, key: &str) -> Vec<u64> {
        self.0.lock().unwrap().iter().filter(|(other, _)| *other == key).map(|(_, at)| *at).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn each_verdict_brings_the_key_back_in_its_own_time() {
    let (queue, diary) = (queue(), Diary::new());
    let seen = diary.clone();
    let workers = Workers::spawn(queue.clone(), ONE, &Metrics::unregistered(), move |key| {
        let runs = seen.note(key);
        async move {
            match (key, runs) {
                ("fails", 0..3) => Err("the cloud said no"),
                ("unfinished", 0..2) => Ok(Outcome::Requeue),
                ("later", 0..2) => Ok(Outcome::RequeueAfter(secs(7))),
                _ => Ok(Outcome::Done),
            }
        }
    });
    for key in ["fine", "fails", "unfinished", "later"] {
        queue.add(key, Priority::NORMAL);
    }
    sleep(secs(1000)).await;
    assert_eq!(diary.of("fine"), [0]);
    assert_eq!(diary.of("fails"), [0, 5, 15, 35]);
    assert_eq!(diary.of("unfinished"), [0, 5, 15]);
    assert_eq!(diary.of("later"), [0, 7, 14]);
    assert_eq!(workers.drain(secs(1)).await, Leftover { queued: vec![], running: vec![] });
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_only_its_own_key_is_counted_and_comes_back_with_back_off() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (queue, diary) = (queue(), Diary::new());
    let seen = diary.clone();
    let _workers = Workers::spawn(queue.clone(), ONE, &metrics, move |key| {
        let runs = seen.note(key);
        assert!(!(key == "before the first await" && runs == 0), "provider bug");
        async move {
            sleep(secs(1)).await;
            assert!(!(key == "inside" && runs < 2), "provider bug in {key}");
            Ok::<_, BoxError>(Outcome::Done)
        }
    });
    for key in ["before the first await", "inside", "healthy"] {
        queue.add(key, Priority::NORMAL);
    }
    sleep(secs(100)).await;
    assert_eq!(diary.of("healthy"), [1]);
    assert_eq!(diary.of("before the first await"), [0, 5]);
    assert_eq!(diary.of("inside"), [0, 6, 17]);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("workqueue_panics_total{name=\"test\"} 3"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn as_many_keys_run_at_once_as_there_are_workers() {
    let queue = queue();
    let settings = Settings { workers: 3, deadline: None };
    let _workers = Workers::spawn(queue.clone(), settings, &Metrics::unregistered(), |_| async {
        sleep(secs(10)).await;
        Ok::<_, BoxError>(Outcome::Done)
    });
    for key in ["a", "b", "c", "d"] {
        queue.add(key, Priority::NORMAL);
    }
    sleep(secs(1)).await;
    assert_eq!((queue.running().len(), queue.len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn health_names_the_queue_and_the_key_past_its_deadline() {
    let queue = queue();
    let settings = Settings { workers: 2, deadline: Some(secs(60)) };
    let workers = Workers::spawn(queue.clone(), settings, &Metrics::unregistered(), |key| async move {
        sleep(if key == "slow" { secs(90) } else { secs(30) }).await;
        Ok::<_, BoxError>(Outcome::Done)
    });
    let (health, started) = (workers.health(), Instant::now());
    queue.add("slow", Priority::NORMAL);
    queue.add("quick", Priority::NORMAL);
    sleep(secs(59)).await;
    assert_eq!(health.check(), Ok(()));
    let expected = Running { key: "\"slow\"".to_owned(), started, deadline: Some(started + secs(60)) };
    assert_eq!(health.running(), [expected]);
    sleep(secs(11)).await;
    assert_eq!(health.check().unwrap_err().to_string(), "test has worked on \"slow\" for 70s");
    sleep(secs(30)).await;
    assert_eq!(health.check(), Ok(()), "a key that finished late is no longer stalled");
}

use crate::queue::Running;

#[tokio::test(start_paused = true)]
async fn draining_lets_a_running_key_finish_and_aborts_one_that_does_not() {
    let queue = queue();
    let finished = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&finished);
    let settings = Settings { workers: 2, deadline: None };
    let workers = Workers::spawn(queue.clone(), settings, &Metrics::unregistered(), move |key| {
        let log = Arc::clone(&log);
        async move {
            sleep(if key == "stuck" { secs(3600) } else { secs(2) }).await;
            log.lock().unwrap().push(key);
            Ok::<_, BoxError>(Outcome::Done)
        }
    });
    for key in ["running", "stuck", "queued"] {
        queue.add(key, Priority::NORMAL);
    }
    sleep(secs(1)).await;
    let started = Instant::now();
    let left = workers.drain(secs(8)).await;
    assert_eq!(started.elapsed(), secs(8));
    assert_eq!(left, Leftover { queued: vec!["queued", "stuck"], running: vec![] });
    assert_eq!(*finished.lock().unwrap(), ["running"]);
}

#[test]
fn an_error_is_logged_with_all_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("ensuring load balancer")]
    struct Outer(#[source] std::io::Error);
    let error = Outer(std::io::Error::other("quota exceeded"));
    assert_eq!(chain(&error), "ensuring load balancer: quota exceeded");
}
