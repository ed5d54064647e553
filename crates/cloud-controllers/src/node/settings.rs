//! The numbers of the node controller.

use std::time::Duration;

use super::labels::Policy;

/// How the node controller works.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many Nodes are initialised at once. Upstream's default of one makes 5,000 nodes take twenty minutes; ours
    /// share their questions to the cloud.
    pub workers: usize,
    /// How often all Nodes are compared with the cloud: `--node-status-update-frequency`.
    pub refresh_period: Duration,
    /// How many Nodes are written at once by that comparison.
    pub refresh_writers: usize,
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
            workers: 32,
            refresh_period: Duration::from_secs(5 * 60),
            refresh_writers: 32,
            labels: Policy::default(),
            retry_base: Duration::from_millis(250),
            retry_max: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}
