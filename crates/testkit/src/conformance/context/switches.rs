//! Leadership and the end of the process, as switches.

use cloud_provider::context::{BoxFuture, Leadership, Shutdown};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Whether this process leads.
#[derive(Debug)]
pub struct Leader(watch::Sender<bool>);

impl Leader {
    /// A process that leads, or stands by.
    pub fn new(leads: bool) -> Self {
        Self(watch::Sender::new(leads))
    }

    /// From now on it leads, or no longer does.
    pub fn set(&self, leads: bool) {
        self.0.send_replace(leads);
    }
}

impl Leadership for Leader {
    fn may_act(&self) -> bool {
        *self.0.borrow()
    }

    fn leads(&self) -> BoxFuture<()> {
        let mut leads = self.0.subscribe();
        Box::pin(async move {
            if leads.wait_for(|leads| *leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// The end of the process.
#[derive(Debug, Clone, Default)]
pub struct Ending(CancellationToken);

impl Ending {
    /// Announces the end.
    pub fn announce(&self) {
        self.0.cancel();
    }
}

impl Shutdown for Ending {
    fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    fn requested(&self) -> BoxFuture<()> {
        Box::pin(self.0.clone().cancelled_owned())
    }
}
