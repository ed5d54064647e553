//! The numbers of the node controller.

use std::time::Duration;

use super::addresses::Nets;
use super::labels::Policy;

/// How the node controller works.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many Nodes are written at once while they are initialised: `--concurrent-node-syncs`. Upstream's default of
    /// one makes 5,000 nodes take twenty minutes.
    pub workers: usize,
    /// How many Nodes wait at once for what the cloud says of them: they share the question.
    pub waiting: usize,
    /// How often all Nodes are compared with the cloud: `--node-status-update-frequency`.
    pub refresh_period: Duration,
    /// How many Nodes are written at once by that comparison.
    pub refresh_writers: usize,
    /// Which networks addresses are taken from.
    pub nets: Nets,
    /// What becomes of labels after initialisation.
    pub labels: Policy,
    /// What a Node waits after its first failure; doubles with each further one.
    pub retry_base: Duration,
    /// What a Node waits at most. Upstream's is 1000 s.
    pub retry_max: Duration,
    /// How long what is being written may take to finish when the controller is stopped.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 64,
            waiting: 5_000,
            refresh_period: Duration::from_secs(5 * 60),
            refresh_writers: 32,
            nets: Nets::default(),
            labels: Policy::default(),
            retry_base: Duration::from_millis(250),
            retry_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}
