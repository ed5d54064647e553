//! The registry as it leaves the process, and the metric families that belong to no single module. Each other module
//! registers its own.

mod catalogue;
mod process;

pub use self::catalogue::{Catalogue, Declared, Registrar};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What an HTTP answer that carries [`encode`]'s text must say it is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The exposition text of everything in the registry.
pub fn encode(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

/// What `kubernetes_build_info` says of this binary; the labels are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Build {
    /// The major version.
    pub major: String,
    /// The minor version.
    pub minor: String,
    /// The whole version, with a leading `v`.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// When it was built, RFC 3339.
    pub build_date: String,
    /// Upstream names its Go version here; we name the compiler that was used.
    pub go_version: String,
    /// `rustc`, where upstream says `gc`.
    pub compiler: String,
    /// `os/arch`.
    pub platform: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    name: String,
    manager: String,
}

/// The families that describe the process as a whole.
#[derive(Debug, Clone)]
pub struct Metrics {
    running_controllers: Family<ControllerLabels, Gauge>,
    build: Family<Build, Gauge>,
}

impl Metrics {
    /// Registers `running_managed_controllers`, `kubernetes_build_info` and the `process_*` families.
    pub fn register(registry: &mut impl Registrar) -> Self {
        let metrics = Self { running_controllers: Family::default(), build: Family::default() };
        registry.family(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            &["name", "manager"],
            metrics.running_controllers.clone(),
        );
        registry.family(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by what this binary was built from",
            &[
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ],
            metrics.build.clone(),
        );
        registry.collector(process::families(), process::Process);
        metrics
    }

    /// Says what this binary was built from.
    pub fn built_from(&self, build: &Build) {
        self.build.get_or_create(build).set(1);
    }

    /// Says that a controller runs, until the answer is dropped.
    #[must_use = "the controller counts as running until this is dropped"]
    pub fn running(&self, controller: &str, manager: &str) -> RunningController {
        let labels = ControllerLabels { name: controller.to_owned(), manager: manager.to_owned() };
        let gauge = self.running_controllers.get_or_create_owned(&labels);
        gauge.set(1);
        RunningController(gauge)
    }
}

/// A controller that counts as running while this lives.
#[derive(Debug)]
pub struct RunningController(Gauge);

impl Drop for RunningController {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_with(registry: &Registry, prefix: &str) -> Vec<String> {
        let text = encode(registry).unwrap();
        text.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
    }

    #[test]
    fn a_controller_counts_as_running_while_its_handle_lives() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let running = metrics.running("cloud-node", "cloud-controller-manager");
        let line = r#"running_managed_controllers{name="cloud-node",manager="cloud-controller-manager"}"#;
        assert_eq!(lines_with(&registry, "running_managed_controllers"), [format!("{line} 1")]);
        drop(running);
        assert_eq!(lines_with(&registry, "running_managed_controllers"), [format!("{line} 0")]);
    }

    #[test]
    fn the_process_tells_its_memory_files_and_cpu() {
        let mut registry = Registry::default();
        let _metrics = Metrics::register(&mut registry);
        let value = |name: &str| -> f64 {
            let line =
                lines_with(&registry, &format!("{name} ")).pop().unwrap_or_else(|| panic!("no {name}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_start_time_seconds") > 1.6e9);
        assert!(value("process_cpu_seconds_total") >= 0.0);
    }

    #[test]
    fn the_text_ends_as_openmetrics_asks() {
        assert!(encode(&Registry::default()).unwrap().ends_with("# EOF\n"));
    }
}
