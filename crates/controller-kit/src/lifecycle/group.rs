//! Tasks that start together and stop together.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::readiness::{Readiness, ReadyHandle};
use super::shutdown::Shutdown;
use super::{Error, Failure};

/// Any error of a task.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a task is given.
#[derive(Debug)]
pub struct Task {
    /// Triggered when this task should stop; not before, even if the process is already stopping.
    pub stop: Shutdown,
    /// To be completed when this task is ready to serve; the next group waits for it.
    pub ready: ReadyHandle,
}

type Start = Box<dyn FnOnce(Task) -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// Tasks to be started together.
pub struct Group {
    name: &'static str,
    stop_within: Duration,
    tasks: Vec<(String, Start)>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks: Vec<_> = self.tasks.iter().map(|(name, _)| name).collect();
        f.debug_struct("Group").field("name", &self.name).field("tasks", &tasks).finish_non_exhaustive()
    }
}

impl Group {
    /// An empty group, whose tasks have `stop_within` to end once they are asked to.
    pub fn new(name: &'static str, stop_within: Duration) -> Self {
        Self { name, stop_within, tasks: Vec::new() }
    }

    /// Adds a task. It runs until [`Task::stop`] is triggered; returning earlier ends the process.
    #[must_use]
    pub fn task<F, Fut, E>(mut self, name: impl Into<String>, start: F) -> Self
    where
        F: FnOnce(Task) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let start: Start = Box::new(move |task| start(task).map(|result| result.map_err(Into::into)).boxed());
        self.tasks.push((name.into(), start));
        self
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Starts all tasks.
    pub(super) fn start(self, readiness: &Readiness, failure: &Failure) -> Running {
        let stop = Shutdown::new();
        let mut tasks = Vec::new();
        for (name, start) in self.tasks {
            let name = format!("{}/{name}", self.name);
            let future = start(Task { stop: stop.clone(), ready: readiness.handle(&name) });
            let task = tokio::spawn(supervise(name.clone(), future, stop.clone(), failure.clone()));
            tasks.push((name, task));
        }
        Running { stop, stop_within: self.stop_within, tasks }
    }
}

/// Runs one task and reports when it ends by itself.
async fn supervise(
    name: String,
    future: BoxFuture<'static, Result<(), BoxError>>,
    stop: Shutdown,
    failure: Failure,
) {
    // Nothing of the task is used after a panic: the process is about to end.
    let result = AssertUnwindSafe(future).catch_unwind().await;
    let asked = stop.is_triggered();
    let error = match result {
        Ok(Ok(())) if asked => return,
        Ok(Ok(())) => Error::EndedEarly { task: name },
        Ok(Err(source)) => Error::Failed { task: name, source },
        Err(payload) => Error::Panicked { task: name, message: message_of(&payload) },
    };
    if asked {
        tracing::error!(error = &error as &(dyn std::error::Error + 'static), "Failed while stopping");
    } else {
        failure.report(error);
    }
}

fn message_of(payload: &Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// A started group.
#[derive(Debug)]
pub(super) struct Running {
    stop: Shutdown,
    stop_within: Duration,
    tasks: Vec<(String, JoinHandle<()>)>,
}

impl Running {
    /// The names of the tasks, as the readiness knows them.
    pub(super) fn names(&self) -> Vec<String> {
        self.tasks.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Asks all tasks to stop and waits for them; names those that were cut off.
    pub(super) async fn stop(self) -> Vec<String> {
        self.stop.trigger();
        let deadline = Instant::now() + self.stop_within;
        let mut late = Vec::new();
        for (name, mut task) in self.tasks {
            if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                late.push(name);
            }
        }
        late
    }
}
