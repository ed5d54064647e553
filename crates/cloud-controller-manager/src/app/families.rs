//! The metric families that do not belong to one controller, registered once, before anything is served.

use cloud_controllers::around;
use controller_kit::metrics::{self, Build, Registrar};
use controller_kit::serve::auth;
use controller_kit::{cache, client, events, leader, queue, worker};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::cloud::reload;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standing {
    name: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Missing {
    verb: &'static str,
    resource: String,
}

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct Families {
    pub(super) process: metrics::Metrics,
    pub(super) client: client::Metrics,
    pub(super) events: events::Metrics,
    pub(super) cache: cache::Metrics,
    pub(super) queue: queue::Metrics,
    pub(super) worker: worker::Metrics,
    pub(super) leader: leader::Metrics,
    pub(super) auth: auth::Metrics,
    pub(super) around: around::Metrics,
    pub(super) cloud_config: reload::Metrics,
    not_running: Family<Standing, Gauge>,
    missing_rights: Family<Missing, Gauge>,
}

impl Families {
    pub(super) fn register(registry: &mut impl Registrar, version: &str) -> Self {
        let families = Self {
            process: metrics::Metrics::register(registry),
            client: client::Metrics::register(registry),
            events: events::Metrics::register(registry),
            cache: cache::Metrics::register(registry),
            queue: queue::Metrics::register(registry),
            worker: worker::Metrics::register(registry),
            leader: leader::Metrics::register(registry),
            auth: auth::Metrics::register(registry),
            around: around::Metrics::register(registry),
            cloud_config: reload::Metrics::register(registry),
            not_running: Family::default(),
            missing_rights: Family::default(),
        };
        registry.family(
            "nephos_controllers_not_running",
            "Controllers that do not run in this process, by why: disabled, unsupported, skipped, failed",
            &["name", "reason"],
            families.not_running.clone(),
        );
        registry.family(
            "nephos_missing_rights",
            "Rights on the cluster that this process asked for at its start and does not have",
            &["verb", "resource"],
            families.missing_rights.clone(),
        );
        families.process.built_from(&build(version));
        families
    }

    /// Says that a controller does not run here, and why.
    pub(super) fn does_not_run(&self, name: &'static str, reason: &'static str) {
        self.not_running.get_or_create(&Standing { name, reason }).set(1);
    }

    /// Says that a right is missing.
    pub(super) fn lacks(&self, verb: &'static str, resource: String) {
        self.missing_rights.get_or_create(&Missing { verb, resource }).set(1);
    }
}

/// What this binary was built from.
fn build(version: &str) -> Build {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Build {
        major: env!("CARGO_PKG_VERSION_MAJOR").to_owned(),
        minor: env!("CARGO_PKG_VERSION_MINOR").to_owned(),
        git_version: version.to_owned(),
        git_commit: String::new(),
        git_tree_state: String::new(),
        build_date: String::new(),
        go_version: String::new(),
        compiler: "rustc".to_owned(),
        platform: format!("{}/{arch}", std::env::consts::OS),
    }
}
