//! The wish that something stops: a token that is triggered once and never taken back.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Told to stop, or not yet. Clones are the same token; children follow their parent and can stop earlier.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A token that nobody has triggered.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is triggered with this one, or alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Asks everybody who holds this token to stop.
    pub fn trigger(&self) {
        self.0.cancel();
    }

    /// Whether somebody asked.
    pub fn is_triggered(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until somebody asks. Cancel safe.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }

    /// Runs a future until it is done or this token is triggered.
    pub async fn or_stop<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.wait() => None,
            output = future => Some(output),
        }
    }

    /// The token itself, for libraries that speak tokio-util's type.
    pub fn token(&self) -> &CancellationToken {
        &self.0
    }

    /// Triggers on SIGTERM and SIGINT. A second signal means that somebody is done with waiting: the process exits at
    /// once, with code 1. The handlers are installed when this returns.
    pub fn trigger_on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    biased;
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                }
            };
            let signal = next().await;
            tracing::info!(signal, "Shutting down");
            shutdown.trigger();
            let signal = next().await;
            tracing::error!(signal, "Exiting at once after a second signal");
            std::process::exit(1);
        });
        Ok(())
    }
}

impl From<CancellationToken> for Shutdown {
    fn from(token: CancellationToken) -> Self {
        Self(token)
    }
}
