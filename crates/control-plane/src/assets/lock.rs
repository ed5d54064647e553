//! A file lock between processes, released by the kernel when its holder ends, however it ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::time::Instant;

use super::Progress;
use crate::error::Error;

/// How often somebody else's lock is looked at again.
const PACE: Duration = Duration::from_millis(200);

/// A lock that is held as long as this lives.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until nobody else holds the lock, but not longer than `within`.
    pub(super) async fn take(path: &Path, within: Duration, progress: &Progress) -> Result<Self, Error> {
        let taking = format!("taking the lock {}", path.display());
        let file = File::options().create(true).append(true).open(path).map_err(Error::io(taking.clone()))?;
        let deadline = Instant::now() + within;
        let mut told = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(errno) => return Err(Error::Io { attempt: taking, source: errno.into() }),
            }
            if Instant::now() >= deadline {
                return Err(Error::Deadline { attempt: taking, after: within });
            }
            if !std::mem::replace(&mut told, true) {
                progress("another process is building the programs; waiting for it");
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
