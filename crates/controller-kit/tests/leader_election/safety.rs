//! Many seeds of chaos: whatever the network and the clocks do, no two candidates may write at the same instant, and
//! when the chaos ends somebody leads.
//!
//! `LEADER_SEEDS` sets how many seeds run; a failure names its seed, and `LEADER_SEED` runs that one alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use controller_kit::leader::{Config, Elector, Leadership, Metrics, Surroundings, Timing};
use controller_kit::random::Randomness;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use crate::candidate::{JumpyClock, eventually};
use crate::store::{Connection, Faults, Server};

/// A process that can be stopped as with SIGSTOP: while it is, nothing of it runs, and its timers are all late.
struct Stoppable<F> {
    process: Pin<Box<F>>,
    stopped_until: Arc<Mutex<Instant>>,
    wake: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Stoppable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let until = *self.stopped_until.lock().unwrap();
        if Instant::now() < until {
            let mut wake = Box::pin(tokio::time::sleep_until(until));
            let ready = wake.as_mut().poll(context).is_ready();
            self.wake = Some(wake);
            if !ready {
                return Poll::Pending;
            }
        }
        self.process.as_mut().poll(context)
    }
}

struct Member {
    leadership: Leadership,
    connection: Connection,
    stopped_until: Arc<Mutex<Instant>>,
    clock: Arc<JumpyClock>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn member(server: &Server, name: &str, faults: Faults, seed: u64) -> Member {
    let connection = Connection::new(server, faults, seed);
    let clock = Arc::new(JumpyClock::new());
    let config = Config {
        namespace: "kube-system".into(),
        name: "ccm".into(),
        identity: name.to_owned(),
        timing: Timing::default(),
    };
    let surroundings = Surroundings {
        store: Arc::new(connection.clone()),
        clock: clock.clone(),
        random: Randomness::seeded(seed),
        metrics: Metrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let mut elector = Elector::new(config, surroundings).unwrap();
    let (leadership, stop) = (elector.leadership(), CancellationToken::new());
    let stopped_until = Arc::new(Mutex::new(Instant::now()));
    let token = stop.clone();
    let process = async move {
        if elector.acquire(&token).await {
            let lost =
                tokio::select! { biased; () = token.cancelled() => false, () = elector.hold() => true };
            if !lost {
                elector.release().await;
            }
        }
    };
    let process = Stoppable { process: Box::pin(process), stopped_until: stopped_until.clone(), wake: None };
    Member { leadership, connection, stopped_until, clock, stop, task: tokio::spawn(process) }
}

fn faults(rng: &mut SmallRng) -> Faults {
    let share = |rng: &mut SmallRng| if rng.random_bool(0.5) { 0 } else { rng.random_range(0..20) };
    Faults {
        refuse: share(rng),
        lose_answer: share(rng),
        hang: share(rng),
        conflict: share(rng),
        latency: Duration::from_millis(rng.random_range(0..3000)),
        forbid_watch: rng.random_bool(0.3),
        cut: rng.random_bool(0.1),
    }
}

fn assert_one_writer(members: &[Member], seed: u64, started: Instant) -> usize {
    let writers: Vec<usize> = members
        .iter()
        .enumerate()
        .filter(|(_, member)| member.leadership.may_write())
        .map(|(index, _)| index)
        .collect();
    assert!(writers.len() <= 1, "seed {seed}: {writers:?} may write at {:?}", started.elapsed());
    writers.len()
}

/// How often the chaos was looked at and what was seen: the properties would hold trivially if nobody ever led.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looks {
    /// Somebody could write.
    led: usize,
    /// The calls of all candidates of the end, which tell one run from another.
    calls: Vec<Vec<&'static str>>,
    /// Two believed to lead, as every election on leases lets happen; only the fence tells them apart.
    believed: usize,
}

async fn chaos(seed: u64, server: Server) -> Looks {
    let (mut rng, started) = (SmallRng::seed_from_u64(seed), Instant::now());
    let count = rng.random_range(2..5);
    let mut born = 0;
    let mut spawn = |rng: &mut SmallRng, faults: Faults| {
        born += 1;
        member(&server, &format!("candidate-{born}"), faults, rng.random())
    };
    let mut members: Vec<Member> = (0..count)
        .map(|_| {
            let faults = faults(&mut rng);
            spawn(&mut rng, faults)
        })
        .collect();
    // The dead keep their fences: a handle in a forgotten task must not say yes either.
    let mut dead: Vec<Member> = Vec::new();
    let mut looks = Looks::default();
    while started.elapsed() < Duration::from_secs(120) {
        sleep(Duration::from_millis(rng.random_range(1..60))).await;
        looks.led += assert_one_writer(&members, seed, started);
        let leaders = members.iter().filter(|member| member.leadership.is_leader()).count();
        looks.believed += usize::from(leaders > 1);
        let index = rng.random_range(0..members.len());
        match rng.random_range(0..400) {
            0..8 => *members[index].connection.faults.lock().unwrap() = faults(&mut rng),
            8..12 => {
                *members[index].stopped_until.lock().unwrap() =
                    Instant::now() + Duration::from_secs(rng.random_range(1..40));
            }
            12..16 => members[index].clock.jump(rng.random_range(-4000..4000)),
            16..18 => members[index].stop.cancel(),
            18..19 => members[index].task.abort(),
            _ => {}
        }
        for member in &mut members {
            if member.task.is_finished() {
                let faults = faults(&mut rng);
                dead.push(std::mem::replace(member, spawn(&mut rng, faults)));
            }
        }
        let everybody = members.iter().chain(&dead).filter(|member| member.leadership.may_write()).count();
        assert!(everybody <= 1, "seed {seed}: the living and the dead may write at {:?}", started.elapsed());
    }
    members.push(spawn(&mut rng, Faults::default()));
    calm_down(&members, seed, started).await;
    looks.calls = members.iter().map(|member| member.connection.calls.lock().unwrap().clone()).collect();
    looks
}

/// The chaos ends: within what the slowest chain of waits can take, somebody leads, and somebody does so ever after.
async fn calm_down(members: &[Member], seed: u64, started: Instant) {
    for member in members {
        *member.connection.faults.lock().unwrap() = Faults::default();
    }
    // A stop of 40 s, a call that hangs, a write of the chaos that lands 40 s late, and a whole lease after it.
    let limit = Duration::from_secs(40 + 5 + 40 + 19);
    let settled = || assert_one_writer(members, seed, started) == 1;
    eventually(limit, &format!("seed {seed}: somebody leads"), settled).await;
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        settled();
    }
    assert!(settled(), "seed {seed}: nobody leads long after the chaos");
}

#[test]
fn never_two_writers_and_always_one_in_the_end() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("LEADER_SEED") {
        in_virtual_time(chaos(seed, Server::new()));
        return;
    }
    let (mut led, mut believed) = (0, 0);
    for seed in 0..number("LEADER_SEEDS").unwrap_or(300) {
        let looks = in_virtual_time(chaos(seed, Server::new()));
        (led, believed) = (led + looks.led, believed + looks.believed);
    }
    println!("somebody could write at {led} looks, and at {believed} more than one believed to lead");
    assert!(led > 0 && believed > 0, "the chaos is too tame");
}

/// A runtime for each seed: the same seed then starts from the same instant, alone or among others.
fn in_virtual_time<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(story)
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    let run = |seed| in_virtual_time(chaos(seed, Server::new()));
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(0), run(1));
}

/// A check of the check: on a server that does not compare versions, the chaos finds two writers.
#[test]
#[should_panic(expected = "may write at")]
fn a_server_that_takes_every_update_is_found_out() {
    for seed in 0..300 {
        in_virtual_time(chaos(seed, Server::careless()));
    }
}

/// Another: two fences opened by candidates that do not know of each other are found.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "may write at")]
async fn two_leases_for_one_cluster_are_found_out() {
    let members = [
        member(&Server::new(), "a", Faults::default(), 1),
        member(&Server::new(), "b", Faults::default(), 2),
    ];
    let started = Instant::now();
    sleep(Duration::from_secs(1)).await;
    assert_one_writer(&members, 0, started);
}
