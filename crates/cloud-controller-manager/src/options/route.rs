//! The flags of the route controller; those about networks are in `networks.rs`.

use clap::Args;
use cloud_controllers::route::Settings;
use controller_kit::flags::GoDuration;

use super::networks::NetworkOptions;

/// Flags of the route controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node-route-controller flags")]
pub struct RouteOptions {
    /// Number of nodes whose routes are made at once, inside the budget of calls that all controllers share
    /// (--cloud-calls-in-flight).
    #[arg(long, default_value_t = 32, value_name = "NUMBER")]
    pub concurrent_route_syncs: usize,

    /// How long after a list of all routes the next one comes at the earliest, however many nodes are deleted or change
    /// their addresses. New nodes do not wait for it.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub route_list_interval: GoDuration,
}

impl RouteOptions {
    /// The controller's settings, or all that is wrong.
    pub(crate) fn settings(&self, networks: &NetworkOptions) -> Result<Settings, Vec<String>> {
        let mut errors = Vec::new();
        if networks.route_reconciliation_period.get().is_zero() {
            errors.push("--route-reconciliation-period must be greater than zero".to_owned());
        }
        if self.concurrent_route_syncs == 0 {
            errors.push("--concurrent-route-syncs=0: at least one worker is needed".to_owned());
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Settings {
            workers: self.concurrent_route_syncs,
            audit_period: networks.route_reconciliation_period.get(),
            spacing: self.route_list_interval.get(),
            ..Settings::default()
        })
    }
}
