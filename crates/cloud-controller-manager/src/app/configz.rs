//! `/configz`: the configuration in force, in the shape of upstream's component config, and below it every flag.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::Config;

/// INVARIANT: the group under which tools look.
const GROUP: &str = "cloudcontrollermanager.config.k8s.io";

/// By group name, what is in force.
pub(super) fn configz(config: &Config) -> BTreeMap<String, Value> {
    let flags = Flags(&config.flags);
    let upstream = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "CloudControllerManagerConfiguration",
        "Generic": generic(&flags),
        "KubeCloudShared": shared(&flags),
        "NodeController": {
            "ConcurrentNodeSyncs": flags.number("concurrent-node-syncs"),
            "ConcurrentNodeStatusUpdates": config.node.refresh_writers,
        },
        "NodeLifecycleController": {
            "NodeMonitorPeriod": flags.text("node-monitor-period"),
            "ConcurrentNodeLifecycleSyncs": flags.number("concurrent-node-lifecycle-syncs"),
        },
        "ServiceController": {"ConcurrentServiceSyncs": flags.number("concurrent-service-syncs")},
        "NodeStatusUpdateFrequency": flags.text("node-status-update-frequency"),
        "Webhook": {"Webhooks": flags.list("webhooks")},
    });
    [(GROUP.to_owned(), upstream), ("nephos".to_owned(), json!({"flags": config.flags}))].into()
}

fn generic(flags: &Flags<'_>) -> Value {
    json!({
        "Port": 0,
        "Address": "0.0.0.0",
        "MinResyncPeriod": flags.text("min-resync-period"),
        "ClientConnection": {
            "Kubeconfig": flags.text("kubeconfig"),
            "AcceptContentTypes": "",
            "ContentType": flags.text("kube-api-content-type"),
            "QPS": flags.number("kube-api-qps"),
            "Burst": flags.number("kube-api-burst"),
        },
        "ControllerStartInterval": flags.text("controller-start-interval"),
        "LeaderElection": {
            "LeaderElect": flags.truth("leader-elect"),
            "LeaseDuration": flags.text("leader-elect-lease-duration"),
            "RenewDeadline": flags.text("leader-elect-renew-deadline"),
            "RetryPeriod": flags.text("leader-elect-retry-period"),
            "ResourceLock": flags.text("leader-elect-resource-lock"),
            "ResourceName": flags.text("leader-elect-resource-name"),
            "ResourceNamespace": flags.text("leader-elect-resource-namespace"),
        },
        "Controllers": flags.list("controllers"),
        "Debugging": {
            "EnableProfiling": flags.truth("profiling"),
            "EnableContentionProfiling": flags.truth("contention-profiling"),
        },
        "LeaderMigrationEnabled": flags.truth("enable-leader-migration"),
    })
}

fn shared(flags: &Flags<'_>) -> Value {
    json!({
        "CloudProvider": {
            "Name": flags.text("cloud-provider"),
            "CloudConfigFile": flags.text("cloud-config"),
        },
        "ExternalCloudVolumePlugin": flags.text("external-cloud-volume-plugin"),
        "UseServiceAccountCredentials": flags.truth("use-service-account-credentials"),
        "AllowUntaggedCloud": flags.truth("allow-untagged-cloud"),
        "RouteReconciliationPeriod": flags.text("route-reconciliation-period"),
        "ClusterName": flags.text("cluster-name"),
        "ClusterCIDR": flags.text("cluster-cidr"),
        "AllocateNodeCIDRs": flags.truth("allocate-node-cidrs"),
        "CIDRAllocatorType": flags.text("cidr-allocator-type"),
        "ConfigureCloudRoutes": flags.truth("configure-cloud-routes"),
        "NodeSyncPeriod": flags.text("node-sync-period"),
    })
}

/// The flags in force, as JSON wants them.
struct Flags<'a>(&'a BTreeMap<String, String>);

impl Flags<'_> {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn truth(&self, name: &str) -> bool {
        controller_kit::flags::boolean(self.text(name)).unwrap_or(false)
    }

    fn number(&self, name: &str) -> Value {
        self.text(name).parse::<serde_json::Number>().map_or(Value::Null, Value::Number)
    }

    fn list(&self, name: &str) -> Vec<&str> {
        self.text(name).split(',').filter(|part| !part.is_empty()).collect()
    }
}
