//! Every flag of the Go implementation (1.36, and what 1.37 adds) with its default, as its `--help` shows it.

/// Name and default.
pub const UPSTREAM: &[(&str, &str)] = &[
    ("profiling", "true"),
    ("contention-profiling", "false"),
    ("enable-leader-migration", "false"),
    ("leader-migration-config", ""),
    ("allocate-node-cidrs", "false"),
    ("allow-untagged-cloud", "false"),
    ("cidr-allocator-type", "RangeAllocator"),
    ("cloud-config", ""),
    ("cloud-provider", ""),
    ("cluster-cidr", ""),
    ("cluster-name", "kubernetes"),
    ("configure-cloud-routes", "true"),
    ("controller-start-interval", "0s"),
    ("controllers", "*"),
    ("external-cloud-volume-plugin", ""),
    ("feature-gates", ""),
    ("kube-api-burst", "30"),
    ("kube-api-content-type", "application/vnd.kubernetes.protobuf"),
    ("kube-api-qps", "20"),
    ("leader-elect", "true"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-retry-period", "2s"),
    ("leader-elect-resource-lock", "leases"),
    ("leader-elect-resource-name", "cloud-controller-manager"),
    ("leader-elect-resource-namespace", "kube-system"),
    ("min-resync-period", "12h0m0s"),
    ("node-monitor-period", "5s"),
    ("node-sync-period", "0s"),
    ("route-reconciliation-period", "10s"),
    ("use-service-account-credentials", "false"),
    ("concurrent-node-syncs", "1"),
    ("concurrent-node-status-updates", "0"),
    ("concurrent-node-lifecycle-syncs", "1"),
    ("concurrent-service-syncs", "1"),
    ("webhooks", ""),
    ("webhook-bind-address", "0.0.0.0"),
    ("webhook-secure-port", "10260"),
    ("webhook-cert-dir", ""),
    ("webhook-tls-cert-file", ""),
    ("webhook-tls-private-key-file", ""),
    ("webhook-tls-cipher-suites", ""),
    ("webhook-tls-curve-preferences", ""),
    ("webhook-tls-min-version", ""),
    ("webhook-tls-sni-cert-key", ""),
    ("webhook-disable-http2-serving", "false"),
    ("bind-address", "0.0.0.0"),
    ("secure-port", "10258"),
    ("cert-dir", ""),
    ("tls-cert-file", ""),
    ("tls-private-key-file", ""),
    ("tls-cipher-suites", ""),
    ("tls-curve-preferences", ""),
    ("tls-sni-cert-key", ""),
    ("tls-min-version", ""),
    ("http2-max-streams-per-connection", "0"),
    ("disable-http2-serving", "false"),
    ("permit-port-sharing", "false"),
    ("permit-address-sharing", "false"),
    ("authentication-kubeconfig", ""),
    ("authentication-skip-lookup", "false"),
    ("authentication-token-webhook-cache-ttl", "10s"),
    ("authentication-tolerate-lookup-failure", "false"),
    ("client-ca-file", ""),
    ("requestheader-client-ca-file", ""),
    ("requestheader-allowed-names", ""),
    ("requestheader-uid-headers", ""),
    ("requestheader-username-headers", "x-remote-user"),
    ("requestheader-group-headers", "x-remote-group"),
    ("requestheader-extra-headers-prefix", "x-remote-extra-"),
    ("authorization-kubeconfig", ""),
    ("authorization-always-allow-paths", "/healthz,/readyz,/livez"),
    ("authorization-webhook-cache-authorized-ttl", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "10s"),
    ("kubeconfig", ""),
    ("master", ""),
    ("node-status-update-frequency", "5m0s"),
    ("logging-format", "text"),
    ("v", "0"),
    ("vmodule", ""),
    ("log-flush-frequency", "5s"),
    ("log-text-split-stream", "false"),
    ("log-text-info-buffer-size", "0"),
    ("log-json-split-stream", "false"),
    ("log-json-info-buffer-size", "0"),
    ("version", "false"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::command::{UPSTREAM_NAME, manager};
    use crate::reference::default_of;

    /// The defaults that are not upstream's. INVARIANT: the list is short and documented.
    const OURS: &[(&str, &str)] = &[
        ("concurrent-node-syncs", "64"),
        ("concurrent-service-syncs", "32"),
        ("kube-api-content-type", "application/json"),
        ("kube-api-qps", "0"),
        ("route-reconciliation-period", "5m0s"),
    ];

    /// Proves: APP-4, APP-61
    #[test]
    fn every_flag_of_upstream_is_there_with_its_default_but_for_a_short_list() {
        let command = manager(UPSTREAM_NAME);
        let flags: BTreeMap<&str, String> = command
            .get_arguments()
            .filter_map(|argument| Some((argument.get_long()?, default_of(argument))))
            .collect();
        let ours: BTreeMap<&str, &str> = OURS.iter().copied().collect();
        for (name, theirs) in UPSTREAM {
            let default = flags.get(name).unwrap_or_else(|| panic!("--{name} is missing"));
            let wanted = ours.get(name).unwrap_or(theirs);
            assert_eq!(default, wanted, "--{name}");
        }
        for (name, ours) in OURS {
            let (_, theirs) = UPSTREAM.iter().find(|(known, _)| known == name).unwrap();
            assert_ne!(ours, theirs, "--{name} does not differ any more");
        }
    }

    #[test]
    fn every_flag_has_a_group_and_says_what_it_is_for() {
        for argument in
            manager(UPSTREAM_NAME).get_arguments().filter(|argument| argument.get_long().is_some())
        {
            let name = argument.get_long().unwrap();
            assert!(argument.get_help_heading().is_some(), "--{name} is in no group");
            assert!(argument.get_help().is_some(), "--{name} has no help");
        }
    }
}
