//! The numbers of the node lifecycle controller. The defaults delete the Node of one vanished instance within ten
//! seconds, and do not delete half a cluster on the word of one answer.

use std::time::Duration;

/// What is done about a Node whose instance is proven to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The Node is deleted, as upstream does.
    #[default]
    Delete,
    /// The Node gets the taint [`super::INSTANCE_GONE`].
    Taint,
    /// Only an Event says so.
    Report,
}

/// How many Nodes may be deleted in a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// The while.
    pub window: Duration,
    /// Not more than this many.
    pub count: usize,
    /// Not more than this share of a cloud's Nodes.
    pub share: f64,
    /// The share never comes to less than this many: a tenth of three nodes is none.
    pub at_least: usize,
}

/// When absences are not believed.
#[derive(Debug, Clone, PartialEq)]
pub struct Breaker {
    /// When more than this share of a cloud's Nodes has vanished at once.
    pub share: f64,
    /// The share never comes to less than this many.
    pub at_least: usize,
    /// So many Nodes that should exist are asked for along with those that seem to be gone. If the cloud does not know
    /// one of them, or there is none to ask for, it is not this cluster's inventory that we see.
    pub witnesses: usize,
    /// How long the picture must be plausible again.
    pub cool_down: Duration,
}

/// How the node lifecycle controller works.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How often Nodes that are not ready are looked up: `--node-monitor-period`.
    pub period: Duration,
    /// A Node that stays not ready is looked up less and less often, at least this often.
    pub slowest: Duration,
    /// How long after the first answer "absent" the second is asked for.
    pub confirm_after: Duration,
    /// No Node is deleted that is younger than this, by its own timestamp, or that we have known for less, by our own
    /// clock.
    pub grace: Duration,
    /// What is done about a Node whose instance is gone.
    pub policy: Policy,
    /// After how long of being off, by the cloud's word at every look-up, a Node is declared out of service, so that
    /// its pods and volumes move; `None` never does.
    pub out_of_service_after: Option<Duration>,
    /// How many at a time.
    pub budget: Budget,
    /// When not at all.
    pub breaker: Breaker,
    /// Whether Nodes may be deleted that never had a provider ID, so that nobody knows whether they were this cloud's.
    pub without_provider_id: bool,
    /// Who overrides breaker and budget, and why. It is logged at the start and with each deletion.
    pub override_by: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(5),
            slowest: Duration::from_secs(60),
            confirm_after: Duration::from_secs(3),
            grace: Duration::from_secs(60),
            policy: Policy::default(),
            out_of_service_after: None,
            budget: Budget { window: Duration::from_secs(300), count: 50, share: 0.2, at_least: 2 },
            breaker: Breaker { share: 0.33, at_least: 2, witnesses: 10, cool_down: Duration::from_secs(60) },
            without_provider_id: false,
            override_by: None,
        }
    }
}

impl Budget {
    /// How many of so many Nodes may be deleted in a window.
    pub fn of(&self, nodes: usize) -> usize {
        self.count.min(share(nodes, self.share).max(self.at_least))
    }
}

impl Breaker {
    /// How many of so many Nodes may vanish at once and be believed.
    pub fn of(&self, nodes: usize) -> usize {
        share(nodes, self.share).max(self.at_least)
    }
}

/// A share of a number, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no cluster has 2^52 nodes, and a share is taken as one from 0 to 1"
)]
fn share(of: usize, share: f64) -> usize {
    (of as f64 * share.clamp(0.0, 1.0)).ceil() as usize
}
