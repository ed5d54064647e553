//! Whole processes of toy tasks, in virtual time: what starts when, what stops when, and who is to blame.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller_kit::lifecycle::{Error, Group, Lifecycle, Shutdown, Stopped};
use tokio::time::{Instant, sleep};

#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A group of one task that is ready after `warm_up` and needs `wind_down` to stop.
fn group(diary: &Diary, name: &'static str, warm_up: u64, wind_down: u64) -> Group {
    let diary = diary.clone();
    Group::new(name, Duration::from_secs(5)).task("it", move |task| async move {
        diary.write(format!("start {name}"));
        sleep(Duration::from_secs(warm_up)).await;
        diary.write(format!("ready {name}"));
        task.ready.complete();
        task.stop.wait().await;
        diary.write(format!("stop {name}"));
        sleep(Duration::from_secs(wind_down)).await;
        diary.write(format!("stopped {name}"));
        Ok::<_, Infallible>(())
    })
}

#[tokio::test(start_paused = true)]
async fn groups_start_in_order_and_stop_in_reverse() {
    let (diary, shutdown) = (Diary::default(), Shutdown::new());
    let mut lifecycle = Lifecycle::new(shutdown.clone());
    lifecycle.start(group(&diary, "servers", 0, 1)).await;
    lifecycle.start(group(&diary, "caches", 3, 1)).await;
    lifecycle.start(group(&diary, "controllers", 1, 2)).await;
    assert!(lifecycle.readiness().is_ready());
    shutdown.trigger();
    assert_eq!(lifecycle.run().await.unwrap(), Stopped::default());
    let expected = [
        "start servers",
        "ready servers",
        "start caches",
        "ready caches",
        "start controllers",
        "ready controllers",
        "stop controllers",
        "stopped controllers",
        "stop caches",
        "stopped caches",
        "stop servers",
        "stopped servers",
    ];
    assert_eq!(diary.read(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_process_is_ready_when_the_last_handle_is_completed_or_dropped() {
    let mut lifecycle = Lifecycle::new(Shutdown::new());
    let readiness = lifecycle.readiness();
    let first = readiness.handle("first");
    let second = readiness.handle("second");
    assert_eq!(readiness.waiting_for(), ["first", "second"]);
    first.complete();
    assert!(!readiness.is_ready());
    drop(second);
    assert!(readiness.is_ready());
    lifecycle.start(group(&Diary::default(), "caches", 7, 0)).await;
    assert!(readiness.is_ready(), "start waits for the group");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_stop_in_time_is_cut_off_and_named() {
    let (diary, shutdown) = (Diary::default(), Shutdown::new());
    let mut lifecycle = Lifecycle::new(shutdown.clone());
    lifecycle.start(group(&diary, "servers", 0, 0)).await;
    lifecycle.start(group(&diary, "controllers", 0, 3600)).await;
    shutdown.trigger();
    let began = Instant::now();
    assert_eq!(lifecycle.run().await.unwrap().late, ["controllers/it"]);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    sleep(Duration::from_secs(7200)).await;
    assert!(!diary.read().contains(&"stopped controllers".to_owned()), "it was aborted");
    assert!(diary.read().contains(&"stopped servers".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_early_is_named_and_ends_the_process() {
    let diary = Diary::default();
    let shutdown = Shutdown::new();
    let mut lifecycle = Lifecycle::new(shutdown.clone());
    lifecycle.start(group(&diary, "servers", 0, 0)).await;
    let early = Group::new("leader", Duration::from_secs(1)).task("election", |task| async move {
        task.ready.complete();
        sleep(Duration::from_secs(30)).await;
        Ok::<_, Infallible>(())
    });
    lifecycle.start(early).await;
    let error = lifecycle.run().await.unwrap_err();
    assert!(matches!(&error, Error::EndedEarly { task } if task == "leader/election"), "{error}");
    assert!(shutdown.is_triggered(), "everybody else is told");
    assert_eq!(diary.read().last().unwrap(), "stopped servers");
}

#[tokio::test(start_paused = true)]
async fn a_failing_task_gives_its_reason() {
    let mut lifecycle = Lifecycle::new(Shutdown::new());
    let lost = Group::new("leader", Duration::from_secs(1)).task("election", |_| async {
        sleep(Duration::from_secs(1)).await;
        Err::<(), _>(io::Error::other("lease lost"))
    });
    lifecycle.start(lost).await;
    let error = lifecycle.run().await.unwrap_err();
    assert_eq!(controller_kit::log::report(&error).to_string(), "task leader/election failed: lease lost");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_task_is_named_with_its_message_and_nothing_more_is_started() {
    let diary = Diary::default();
    let mut lifecycle = Lifecycle::new(Shutdown::new());
    let broken = Group::new("caches", Duration::from_secs(1)).task("nodes", |task| async move {
        let _held_until_the_panic = task.ready;
        sleep(Duration::from_secs(1)).await;
        assert!(diary_has_room(), "no room for {}", "nodes");
        Ok::<_, Infallible>(())
    });
    lifecycle.start(broken).await;
    lifecycle.start(group(&diary, "controllers", 0, 0)).await;
    let error = lifecycle.run().await.unwrap_err();
    assert_eq!(error.to_string(), "task caches/nodes panicked: no room for nodes");
    assert!(diary.read().is_empty(), "the group behind was never started");
}

fn diary_has_room() -> bool {
    false
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_start_up_stops_what_was_started_and_starts_no_more() {
    let (diary, shutdown) = (Diary::default(), Shutdown::new());
    let mut lifecycle = Lifecycle::new(shutdown.clone());
    let trigger = shutdown.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(2)).await;
        trigger.trigger();
    });
    lifecycle.start(group(&diary, "caches", 4, 0)).await;
    lifecycle.start(group(&diary, "controllers", 0, 0)).await;
    lifecycle.run().await.unwrap();
    assert_eq!(diary.read(), ["start caches", "ready caches", "stop caches", "stopped caches"]);
}

#[tokio::test]
async fn sigterm_triggers_the_shutdown() {
    let shutdown = Shutdown::new();
    shutdown.trigger_on_signals().unwrap();
    let id = std::process::id().to_string();
    let status = tokio::process::Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(status.success());
    tokio::time::timeout(Duration::from_secs(10), shutdown.wait()).await.unwrap();
}
