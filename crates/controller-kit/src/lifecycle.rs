//! How a process starts, stays and stops. Groups of tasks start in order, each when the one before is ready, and stop
//! in reverse, each within its time. A task that panics, fails or ends early is named and ends the process: half a
//! controller manager is worse than a restart.

mod group;
mod readiness;
mod shutdown;

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use self::group::Running;
pub use self::group::{BoxError, Group, Task};
pub use self::readiness::{Readiness, ReadyHandle};
pub use self::shutdown::Shutdown;

/// How the life of a process ended before anybody asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task returned an error.
    #[error("task {task} failed")]
    Failed {
        /// `group/task`.
        task: String,
        /// What it returned.
        #[source]
        source: BoxError,
    },
    /// A task panicked.
    #[error("task {task} panicked: {message}")]
    Panicked {
        /// `group/task`.
        task: String,
        /// The panic's message.
        message: String,
    },
    /// A task returned without an error, though nobody had asked it to stop.
    #[error("task {task} ended although it should run until the process stops")]
    EndedEarly {
        /// `group/task`.
        task: String,
    },
}

/// What stopping found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks, as `group/task`, that were cut off because they did not stop within their group's time.
    pub late: Vec<String>,
}

/// The tasks of a process.
#[derive(Debug)]
pub struct Lifecycle {
    shutdown: Shutdown,
    readiness: Readiness,
    /// Started groups, the last one on top.
    running: Vec<Running>,
    failure: Failure,
}

impl Lifecycle {
    /// A process without tasks; `shutdown` is what ends it.
    pub fn new(shutdown: Shutdown) -> Self {
        Self { shutdown, readiness: Readiness::default(), running: Vec::new(), failure: Failure::default() }
    }

    /// Tells whether everything that was started is ready.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Starts the tasks of a group and waits until each of them is ready. Returns early when the process is asked to
    /// stop or a task ends meanwhile, and starts nothing after that; [`Lifecycle::run`] then tells what happened.
    pub async fn start(&mut self, group: Group) {
        if self.shutdown.is_triggered() || self.failure.happened() {
            return;
        }
        let name = group.name();
        tracing::debug!(group = name, "Starting");
        let running = group.start(&self.readiness, &self.failure);
        let tasks = running.names();
        self.running.push(running);
        tokio::select! {
            biased;
            () = self.shutdown.wait() => {}
            () = self.failure.wait() => {}
            () = self.readiness.wait_for(&tasks) => tracing::debug!(group = name, "Ready"),
        }
    }

    /// Runs until shutdown is triggered or a task ends by itself; then stops all groups in reverse order.
    pub async fn run(mut self) -> Result<Stopped, Error> {
        tokio::select! {
            biased;
            () = self.failure.wait() => {}
            () = self.shutdown.wait() => {}
        }
        let failure = self.failure.take();
        if let Some(failure) = &failure {
            tracing::error!(error = failure as &(dyn std::error::Error + 'static), "Stopping");
        }
        // Whoever else holds the token, a health check for example, learns of a failure too.
        self.shutdown.trigger();
        let mut stopped = Stopped::default();
        while let Some(group) = self.running.pop() {
            stopped.late.extend(group.stop().await);
        }
        if !stopped.late.is_empty() {
            tracing::warn!(tasks = ?stopped.late, "Cut off tasks that did not stop in time");
        }
        failure.map_or(Ok(stopped), Err)
    }
}

/// The first task that ended by itself; later ones are usually its consequences and only logged.
#[derive(Debug, Clone, Default)]
struct Failure {
    first: Arc<Mutex<Option<Error>>>,
    happened: CancellationToken,
}

impl Failure {
    fn report(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if self.happened.is_cancelled() {
            tracing::error!(error = &error as &(dyn std::error::Error + 'static), "A further task ended");
        } else {
            *first = Some(error);
            self.happened.cancel();
        }
    }

    fn happened(&self) -> bool {
        self.happened.is_cancelled()
    }

    async fn wait(&self) {
        self.happened.cancelled().await;
    }

    fn take(&self) -> Option<Error> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
