//! What is said about flags that were given although they are deprecated or change nothing here.

/// A flag that is worth a remark.
struct Remark {
    flag: &'static str,
    text: &'static str,
}

const DEPRECATED: &[Remark] = &[
    Remark {
        flag: "allow-untagged-cloud",
        text: "This flag is deprecated and will be removed in a future release. A cluster-id will be required on cloud instances",
    },
    Remark { flag: "node-sync-period", text: "This flag is currently no-op and will be deleted" },
];

const WITHOUT_EFFECT: &[Remark] = &[
    Remark { flag: "contention-profiling", text: "block profiling is of Go's runtime" },
    Remark { flag: "external-cloud-volume-plugin", text: "volumes are not this process' business" },
    Remark { flag: "min-resync-period", text: "caches are kept true by watches" },
    Remark { flag: "kube-api-content-type", text: "JSON is spoken" },
    Remark { flag: "concurrent-node-lifecycle-syncs", text: "nodes are looked up in bulk" },
    Remark { flag: "permit-address-sharing", text: "SO_REUSEADDR is always set" },
    Remark { flag: "log-flush-frequency", text: "every line is written at once" },
    Remark { flag: "log-text-split-stream", text: "everything goes to standard error" },
    Remark { flag: "log-text-info-buffer-size", text: "every line is written at once" },
    Remark { flag: "log-json-split-stream", text: "everything goes to standard error" },
    Remark { flag: "log-json-info-buffer-size", text: "every line is written at once" },
];

/// The remark on a flag that was given, if there is one.
pub(crate) fn on(flag: &str) -> Option<String> {
    let find = |table: &'static [Remark]| table.iter().find(|remark| remark.flag == flag);
    let deprecated =
        find(DEPRECATED).map(|remark| format!("Flag --{flag} has been deprecated, {}", remark.text));
    deprecated.or_else(|| {
        find(WITHOUT_EFFECT).map(|remark| format!("Flag --{flag} has no effect: {}", remark.text))
    })
}

/// Whether a flag changes nothing.
pub fn is_without_effect(flag: &str) -> bool {
    WITHOUT_EFFECT
        .iter()
        .chain(DEPRECATED.iter().filter(|remark| remark.flag == "node-sync-period"))
        .any(|remark| remark.flag == flag)
}
