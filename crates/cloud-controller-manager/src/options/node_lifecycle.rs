//! The flags of the node lifecycle controller: how often it looks, and what it takes to lose a Node.

use clap::{Args, ValueEnum};
use cloud_controllers::node_lifecycle::{Breaker, Budget, Policy, Settings};
use controller_kit::flags::{GoDuration, boolean};

/// Flags of the node lifecycle controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller flags")]
pub struct NodeLifecycleOptions {
    /// The period for looking up nodes that are not ready.
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    pub node_monitor_period: GoDuration,

    /// A node that stays not ready is looked up less and less often, but at least this often.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub node_monitor_slowest_period: GoDuration,

    /// Number of nodes that are looked up at once. Accepted and checked, without effect: all nodes that are not ready
    /// are looked up in one question.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub concurrent_node_lifecycle_syncs: i32,

    /// What is done about a node whose instance is proven to be gone: delete it, taint it with nephos/instance-gone, or
    /// only report it in an event.
    #[arg(long, value_enum, default_value_t = DeletionPolicy::Delete, value_name = "POLICY")]
    pub node_deletion_policy: DeletionPolicy,

    /// No node is deleted that is younger than this, or that this process has known for less.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub node_deletion_grace_period: GoDuration,

    /// How long after the first answer that an instance is gone the cloud is asked again; only the second answer counts.
    #[arg(long, default_value = "3s", value_name = "DURATION")]
    pub node_deletion_confirm_after: GoDuration,

    /// Not more than this many nodes are deleted within --node-deletion-budget-window.
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub node_deletion_budget: usize,

    /// Not more than this share of a cloud's nodes is deleted within --node-deletion-budget-window, but
    /// --node-deletion-budget-minimum always may.
    #[arg(long, default_value_t = 0.2, value_name = "SHARE")]
    pub node_deletion_budget_share: f64,

    /// The least that --node-deletion-budget-share comes to: a tenth of three nodes is none.
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    pub node_deletion_budget_minimum: usize,

    /// The time over which deletions are counted.
    #[arg(long, default_value = "5m0s", value_name = "DURATION")]
    pub node_deletion_budget_window: GoDuration,

    /// When more than this share of a cloud's nodes vanishes at once, the answer is not believed and nothing is deleted until the
    /// picture is plausible again, or a person says otherwise.
    #[arg(long, default_value_t = 0.33, value_name = "SHARE")]
    pub node_deletion_breaker_share: f64,

    /// The least that --node-deletion-breaker-share comes to.
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    pub node_deletion_breaker_minimum: usize,

    /// How many nodes that should exist are asked for along with those that seem to be gone; if the cloud does not know
    /// them either, nothing is deleted.
    #[arg(long, default_value_t = 10, value_name = "NUMBER")]
    pub node_deletion_breaker_witnesses: usize,

    /// How long the picture must be plausible again before anything is deleted.
    #[arg(long, default_value = "1m0s", value_name = "DURATION")]
    pub node_deletion_breaker_cool_down: GoDuration,

    /// Whether nodes may be deleted that never had a provider ID, so that nobody knows whether they were this cloud's.
    #[arg(long, default_value = "false", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub node_deletion_without_provider_id: bool,

    /// After how long of being off, by the cloud's word at every look-up, a node gets the taint
    /// node.kubernetes.io/out-of-service, so that Kubernetes moves its pods and detaches its volumes. The taint goes when
    /// the node is ready again. 0 for never.
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub node_out_of_service_after: GoDuration,

    /// Who overrides budget and breaker, and why, in words that stand in the log with each deletion. For a single node, set
    /// its annotation nephos/allow-deletion=true instead.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "WHO AND WHY")]
    pub node_deletion_override_by: String,
}

/// What is done about a node whose instance is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeletionPolicy {
    /// It is deleted.
    Delete,
    /// It is tainted.
    Taint,
    /// It is reported.
    Report,
}

impl NodeLifecycleOptions {
    /// The controller's settings, or all that is wrong.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<String>> {
        let errors = self.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        let period = self.node_monitor_period.get();
        Ok(Settings {
            period,
            slowest: self.node_monitor_slowest_period.get().max(period),
            confirm_after: self.node_deletion_confirm_after.get(),
            grace: self.node_deletion_grace_period.get(),
            policy: match self.node_deletion_policy {
                DeletionPolicy::Delete => Policy::Delete,
                DeletionPolicy::Taint => Policy::Taint,
                DeletionPolicy::Report => Policy::Report,
            },
            out_of_service_after: Some(self.node_out_of_service_after.get()).filter(|after| !after.is_zero()),
            budget: Budget {
                window: self.node_deletion_budget_window.get(),
                count: self.node_deletion_budget,
                share: self.node_deletion_budget_share,
                at_least: self.node_deletion_budget_minimum,
            },
            breaker: Breaker {
                share: self.node_deletion_breaker_share,
                at_least: self.node_deletion_breaker_minimum,
                witnesses: self.node_deletion_breaker_witnesses,
                cool_down: self.node_deletion_breaker_cool_down.get(),
            },
            without_provider_id: self.node_deletion_without_provider_id,
            override_by: Some(self.node_deletion_override_by.trim().to_owned()).filter(|by| !by.is_empty()),
        })
    }

    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.node_monitor_period.get().is_zero() {
            errors.push("--node-monitor-period must be greater than zero".to_owned());
        }
        if self.concurrent_node_lifecycle_syncs < 1 {
            let given = self.concurrent_node_lifecycle_syncs;
            errors.push(format!("--concurrent-node-lifecycle-syncs={given}: at least one worker is needed"));
        }
        for (flag, share) in [
            ("--node-deletion-budget-share", self.node_deletion_budget_share),
            ("--node-deletion-breaker-share", self.node_deletion_breaker_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                errors.push(format!("{flag}={share} must be a share from 0 to 1"));
            }
        }
        errors
    }
}
