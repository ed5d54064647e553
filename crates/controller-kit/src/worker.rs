//! Workers: tasks that take keys from a [`Queue`] and run a controller's handler on them.
//!
//! A failure or a panic of one key costs only that key: it comes back after its back-off. A key that runs past its
//! deadline is not interrupted, because half a change is worse than a slow one; it is shown to whoever asks for
//! [`Health`], so that liveness can name it.

mod health;
mod metrics;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{Instrument, debug, error, info, info_span};

pub use self::health::{Health, Stalled};
pub use self::metrics::Metrics;
use self::metrics::WorkerMetrics;
use crate::lifecycle::Shutdown;
use crate::queue::{Item, Key, Leftover, Queue};

/// What a handler decided about a key it worked on without error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Finished; the back-off starts over.
    Done,
    /// Not finished yet: again after the back-off, which grows.
    Requeue,
    /// Again after this time; the back-off neither grows nor starts over.
    RequeueAfter(Duration),
}

/// What any handler may fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// How a controller's keys are worked on.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How many keys are worked on at once.
    pub workers: usize,
    /// After what time a key counts as stalled, if ever.
    pub deadline: Option<Duration>,
}

/// The running workers of one queue. Dropping this aborts them; the keys in their hands are ready again.
///
/// A worker exists while it has a key: room for thousands costs nothing while there is nothing to do.
#[derive(Debug)]
pub struct Workers<K: Key> {
    queue: Queue<K>,
    /// The one task that hands keys out; its result are the workers that still run.
    dispatcher: JoinSet<JoinSet<()>>,
    stop: Shutdown,
    settings: Settings,
}

impl<K: Key> Workers<K> {
    /// Starts to run `handle` on the keys of `queue`. Must be called inside a tokio runtime.
    pub fn spawn<H, F, E>(queue: Queue<K>, settings: Settings, metrics: &Metrics, handle: H) -> Self
    where
        H: Fn(K) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let metrics = Arc::new(metrics.of(queue.name()));
        let (stop, mut dispatcher) = (Shutdown::new(), JoinSet::new());
        let hand_out = hand_out(queue.clone(), settings.workers, metrics, Arc::new(handle), stop.clone());
        dispatcher.spawn(hand_out);
        Self { queue, dispatcher, stop, settings }
    }

    /// What a health endpoint asks.
    pub fn health(&self) -> Health {
        Health::new(self.queue.clone(), self.settings.deadline)
    }

    /// Stops intake, lets the running keys finish for at most `within`, aborts what is then still running and hands
    /// back everything that was not finished.
    pub async fn drain(mut self, within: Duration) -> Leftover<K> {
        self.queue.drain(within).await;
        self.stop.trigger();
        while let Some(ended) = self.dispatcher.join_next().await {
            if let Ok(mut workers) = ended {
                workers.shutdown().await;
            }
        }
        let leftover = self.queue.drain(Duration::ZERO).await;
        info!(queue = self.queue.name(), left = leftover.queued.len(), "workers stopped");
        leftover
    }
}

/// Gives each key a worker of its own, so many at once, until the queue is closed. Returns the workers that still run.
async fn hand_out<K, H, F, E>(
    queue: Queue<K>,
    at_once: usize,
    metrics: Arc<WorkerMetrics>,
    handle: Arc<H>,
    stop: Shutdown,
) -> JoinSet<()>
where
    K: Key,
    H: Fn(K) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    let (slots, mut workers) = (Arc::new(Semaphore::new(at_once)), JoinSet::new());
    let feed = async {
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let Some(item) = queue.next().await else { return };
            while workers.try_join_next().is_some() {}
            let (queue, metrics, handle) = (queue.clone(), Arc::clone(&metrics), Arc::clone(&handle));
            workers.spawn(async move {
                work(item, queue.name(), &metrics, handle.as_ref()).await;
                drop(slot);
            });
        }
    };
    stop.or_stop(feed).await;
    workers
}

async fn work<K, H, F, E>(item: Item<K>, queue: &str, metrics: &WorkerMetrics, handle: &H)
where
    K: Key,
    H: Fn(K) -> F,
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    let key = item.key().clone();
    // Every line that the handler logs names the queue and the key.
    let span = info_span!("sync", queue, key = ?key);
    // Inside the block, so that a panic before the handler's first await is caught too.
    let verdict = AssertUnwindSafe(async { handle(key).await }.instrument(span)).catch_unwind().await;
    match verdict {
        Ok(Ok(Outcome::Done)) => item.done(),
        Ok(Ok(Outcome::Requeue)) => item.retry(),
        Ok(Ok(Outcome::RequeueAfter(delay))) => {
            debug!(queue, key = ?item.key(), ?delay, "key asks to come back");
            item.retry_after(delay);
        }
        Ok(Err(failure)) => {
            error!(queue, key = ?item.key(), error = chain(failure.into().as_ref()), "key failed");
            item.retry();
        }
        Err(panic) => {
            metrics.panics.inc();
            error!(queue, key = ?item.key(), panic = message(panic.as_ref()), "handler panicked");
            item.retry();
        }
    }
}

/// An error and its sources on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let sources = std::iter::successors(error.source(), |&source| source.source());
    sources.fold(error.to_string(), |line, source| format!("{line}: {source}"))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
