//! How fast the proxy forwards, beside a bare relay of tokio and `haproxy` in the same run, and how much memory idle
//! connections take. Each of the three is a process of its own; the servers behind them and the clients are the same.
//! Exits with 1 when a bound is passed. Without `haproxy` (a package of Debian) that comparison is left out, with a notice.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and stops where it stands"
)]

#[path = "proxy/clients.rs"]
mod clients;
#[path = "proxy/contestants.rs"]
mod contestants;

use std::time::Duration;

use contestants::{Contestant, Kind};

/// Of the throughput of a bare relay.
const SHARE_OF_BARE: f64 = 0.6;
/// Of the throughput of `haproxy`.
const SHARE_OF_HAPROXY: f64 = 0.5;
/// Idle connections, and the memory that they may take.
const IDLE: usize = 8_000;
const IDLE_BOUND: u64 = 160_000_000;

/// Each contestant has its turn so often, one after another; the best turn counts, because other work on the machine can
/// only slow one down.
const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(500);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Flags of the test runner may be passed along; a role is a child of this very program.
    if arguments.next().as_deref() == Some("role") {
        let rest: Vec<String> = arguments.collect();
        return runtime.block_on(contestants::play(&rest));
    }
    let within = runtime.block_on(async {
        let bulk = measure("bulk, 8 connections", "MB", |entrance| clients::bulk(entrance, 8, TURN)).await;
        measure("questions of 64 bytes, 32 connections", "answers", |entrance| {
            clients::questions(entrance, 32, TURN)
        })
        .await;
        measure("short connections, 16 at once", "connections", |entrance| {
            clients::short(entrance, 16, TURN)
        })
        .await;
        judge(&bulk) & idle().await
    });
    if !within {
        std::process::exit(1);
    }
}

/// The best turn of each contestant. What it did per second of its own CPU time is shown for people.
async fn measure<F: Future<Output = f64>>(
    what: &str,
    unit: &str,
    turn: impl Fn(std::net::SocketAddr) -> F,
) -> Vec<(Kind, f64)> {
    let backend = Contestant::start(Kind::Backend, None).await;
    let mut running = Vec::new();
    for kind in Kind::all() {
        running.push((Contestant::start(kind, Some(backend.entrance)).await, 0.0_f64, 0.0, 0.0));
    }
    for _ in 0..ROUNDS {
        for (contestant, best, done, cpu) in &mut running {
            let before = contestant.cpu();
            let rate = turn(contestant.entrance).await;
            *cpu += contestant.cpu() - before;
            *done += rate * TURN.as_secs_f64();
            *best = best.max(rate);
        }
    }
    println!("{what}: the best of {ROUNDS} turns of {TURN:?}");
    let mut results = Vec::new();
    for (contestant, best, done, cpu) in running {
        let name = contestant.kind.name();
        println!("  {name:<12} {best:>7.0} {unit}/s, {:>7.0} {unit} per CPU second of its own", done / cpu);
        results.push((contestant.kind, best));
    }
    results
}

/// Whether throughput is within the bounds.
fn judge(results: &[(Kind, f64)]) -> bool {
    let of = |kind| results.iter().find(|(other, _)| *other == kind).map(|(_, best)| *best);
    let ours = of(Kind::Ours).unwrap();
    let mut within = true;
    for (kind, bound) in [(Kind::Bare, SHARE_OF_BARE), (Kind::Haproxy, SHARE_OF_HAPROXY)] {
        let Some(other) = of(kind) else { continue };
        let share = ours / other;
        println!("throughput is {:.0} % of {} (bound {:.0} %)", share * 100.0, kind.name(), bound * 100.0);
        within &= share >= bound;
    }
    within
}

/// Whether the memory of idle connections is within its bound.
async fn idle() -> bool {
    let backend = Contestant::start(Kind::Backend, None).await;
    let proxy = Contestant::start(Kind::Ours, Some(backend.entrance)).await;
    let before = proxy.memory();
    // Each has said and heard something before it falls silent.
    let held = clients::idle(proxy.entrance, IDLE).await;
    let after = proxy.memory();
    println!(
        "{} idle connections: {:.1} MB resident, {:.1} MB without any (bound {} MB)",
        held.len(),
        mega(after),
        mega(before),
        IDLE_BOUND / 1_000_000
    );
    after < IDLE_BOUND
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
