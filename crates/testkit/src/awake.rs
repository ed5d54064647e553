//! Time in which this machine ran.
//!
//! Machines are shared: for a second at a time a hypervisor or a quota may give this one nothing at all, and no code of ours is to
//! blame for that. A test that bounds real time reads this clock. It goes with the real one, and stands still while the machine
//! does. Slow code finds no excuse in it: whatever keeps the processors busy does not stop it, because a thread that sleeps most
//! of the time gets one as soon as it wakes.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is seen that the machine runs.
const TICK: Duration = Duration::from_millis(5);

/// For how many microseconds it ran, as far as anybody looked.
static RAN: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

/// A moment on this clock, to which a tick more or less does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Awake(Duration);

impl Awake {
    /// This moment.
    pub fn now() -> Self {
        WATCHED.call_once(|| drop(thread::spawn(watch)));
        Self(Duration::from_micros(RAN.load(Ordering::Relaxed)))
    }

    /// For how long the machine ran since then.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the machine itself, also where a test's time is virtual"
)]
fn watch() {
    let mut last = Instant::now();
    loop {
        thread::park_timeout(TICK);
        let now = Instant::now();
        // Who comes this late was not let run, and does not know for how long the rest was.
        let ran = now.duration_since(last).min(2 * TICK);
        RAN.fetch_add(u64::try_from(ran.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        last = now;
    }
}
