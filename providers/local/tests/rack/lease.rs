//! A lease that processes on one host share through a file, in place of the API server's.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cloud_provider::context::{BoxFuture, Leadership};
use rustix::time::{ClockId, clock_gettime};

/// How long a lease is good without a renewal, for those who want it.
pub(crate) const DURATION: Duration = Duration::from_secs(5);
/// How long whoever holds it believes in it: less than the others wait.
const BELIEF: Duration = Duration::from_millis(3500);
/// How often it is renewed, and asked for.
const PAUSE: Duration = Duration::from_millis(200);

/// One process's view of the lease.
pub(crate) struct Lease {
    file: std::sync::Mutex<File>,
    name: String,
    /// Until when this process leads.
    until: Arc<AtomicU64>,
}

impl Lease {
    /// Wants the lease under this name from now on.
    pub(crate) fn want(path: &Path, name: &str) -> Arc<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let lease = Arc::new(Self { file: file.into(), name: name.to_owned(), until: Arc::default() });
        let renewing = Arc::clone(&lease);
        tokio::spawn(async move {
            loop {
                renewing.renew();
                tokio::time::sleep(PAUSE).await;
            }
        });
        lease
    }

    /// Gives it to whoever wants it next.
    pub(crate) fn release(&self) {
        self.until.store(0, Ordering::SeqCst);
        self.exchange(|_, _| Some(("nobody".to_owned(), 0)));
    }

    fn renew(&self) {
        let now = now();
        let taken = self.exchange(|holder, expires| {
            let mine = holder == self.name || expires <= now;
            mine.then(|| (self.name.clone(), now + millis(DURATION)))
        });
        if taken {
            self.until.store(now + millis(BELIEF), Ordering::SeqCst);
        }
    }

    /// Replaces what is written, alone; whether it did.
    fn exchange(&self, change: impl FnOnce(&str, u64) -> Option<(String, u64)>) -> bool {
        let mut file = self.file.lock().unwrap();
        file.lock().unwrap();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let (holder, expires) = text.split_once(' ').unwrap_or(("nobody", "0"));
        let changed = change(holder, expires.trim().parse().unwrap());
        if let Some((holder, expires)) = &changed {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.set_len(0).unwrap();
            write!(file, "{holder} {expires}").unwrap();
        }
        file.unlock().unwrap();
        changed.is_some()
    }
}

impl Leadership for Lease {
    fn may_act(&self) -> bool {
        now() < self.until.load(Ordering::SeqCst)
    }

    fn leads(&self) -> BoxFuture<()> {
        let until = Arc::clone(&self.until);
        Box::pin(async move {
            while now() >= until.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }
}

/// Milliseconds of the clock that all processes of a host share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1000 + u64::try_from(time.tv_nsec).unwrap() / 1_000_000
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}
