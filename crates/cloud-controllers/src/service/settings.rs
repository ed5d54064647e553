//! The numbers and policies of the service controller.

use std::time::Duration;

/// What becomes of a Service that asks for what the provider does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unsupported {
    /// Nothing is made or changed for it, and it is told.
    #[default]
    Refuse,
    /// It is told, and the rest is made.
    Warn,
}

/// What becomes of a load balancer that somebody changed behind our back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drift {
    /// It is told and put right.
    #[default]
    Repair,
    /// It is told.
    Report,
    /// Nobody looks.
    Off,
}

/// What becomes of cloud objects whose Service is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sweep {
    /// They are told and, after their quarantine, removed.
    #[default]
    Remove,
    /// They are told.
    Report,
    /// Nobody looks.
    Off,
}

/// How the service controller works.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many new and edited Services are worked on at once: `--concurrent-service-syncs`. The cloud's budget is what
    /// limits the calls; upstream's default of one lets each Service wait for all before it.
    pub workers: usize,
    /// How many others are worked on at once: node changes, deletions, comparisons.
    pub upkeep_workers: usize,
    /// Values of `spec.loadBalancerClass` that are ours besides those that the provider owns.
    pub classes: Vec<String>,
    /// What becomes of a Service that asks for what the provider does not have.
    pub unsupported: Unsupported,
    /// What becomes of a load balancer that somebody changed behind our back.
    pub drift: Drift,
    /// In what time all load balancers are compared with the cloud.
    pub drift_period: Duration,
    /// The least time between two such comparisons: the budget of the scan.
    pub drift_pace: Duration,
    /// What becomes of cloud objects whose Service is gone.
    pub sweep: Sweep,
    /// How often they are looked for.
    pub sweep_period: Duration,
    /// For how long they must have been without a Service before they are removed.
    pub quarantine: Duration,
    /// How many of them are removed in one round.
    pub sweep_at_most: usize,
    /// Node changes are followed once nothing changed for this long.
    pub quiet: Duration,
    /// They are followed after this long at the latest.
    pub quiet_at_most: Duration,
    /// What a Service waits after its first failure; doubles with each further one. Upstream's is 5 s.
    pub retry_base: Duration,
    /// What a Service waits at most.
    pub retry_max: Duration,
    /// How long what is under way may take to finish when the controller is stopped.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            workers: 32,
            upkeep_workers: 32,
            classes: Vec::new(),
            unsupported: Unsupported::default(),
            drift: Drift::default(),
            drift_period: minutes(30),
            drift_pace: Duration::from_secs(1),
            sweep: Sweep::default(),
            sweep_period: minutes(10),
            quarantine: minutes(60),
            sweep_at_most: 10,
            quiet: Duration::from_secs(1),
            quiet_at_most: Duration::from_secs(5),
            retry_base: Duration::from_secs(1),
            retry_max: minutes(5),
            drain: Duration::from_secs(5),
        }
    }
}
