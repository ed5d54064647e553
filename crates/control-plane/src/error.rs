//! What can go wrong while programs are obtained, started and spoken to; each message says what to do where there
//! is something to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::version::Version;

/// Why a control plane could not be had, or could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a process could not be handled as needed.
    #[error("{attempt}")]
    Io {
        /// What was being done.
        attempt: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// `hack/kube/versions.env` is not what it should be.
    #[error("reading hack/kube/versions.env: {0}")]
    Versions(String),
    /// Somebody asked for a release whose Go modules are not pinned.
    #[error(
        "Kubernetes {asked} is not pinned: hack/kube has {pinned}; set NEPHOS_KUBE to one of these, \
         or add the release to hack/kube/versions.env and run hack/kube/pin"
    )]
    NotPinned {
        /// What was asked for.
        asked: String,
        /// What there is.
        pinned: String,
    },
    /// The directory that should hold the programs lacks one.
    #[error("looking for {program} in {}: no such program; {remedy}", directory.display())]
    MissingProgram {
        /// The program's name.
        program: &'static str,
        /// Where it should be.
        directory: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// `KUBEBUILDER_ASSETS` holds another release than `NEPHOS_KUBE` asks for.
    #[error(
        "Kubernetes {asked} was asked for, but KUBEBUILDER_ASSETS ({}) holds {found}; unset one of the two",
        directory.display()
    )]
    WrongAssets {
        /// What was asked for.
        asked: Version,
        /// What `kube-apiserver --version` says.
        found: String,
        /// The directory named by `KUBEBUILDER_ASSETS`.
        directory: PathBuf,
    },
    /// There is no Go toolchain, and nothing that would make one unnecessary.
    #[error(
        "building Kubernetes {version} needs Go, and there is no `go` on the PATH: install Go {needed} or newer \
         (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver and kubectl"
    )]
    MissingGo {
        /// The release to build.
        version: Version,
        /// The oldest Go that can build it.
        needed: String,
    },
    /// The Go toolchain is older than the sources want.
    #[error(
        "building Kubernetes {version} needs Go {needed} or newer, and `go` on the PATH is {found}: install a newer \
         one (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver and kubectl"
    )]
    OldGo {
        /// The release to build.
        version: Version,
        /// The oldest Go that can build it.
        needed: String,
        /// What `go env GOVERSION` says.
        found: String,
    },
    /// `go build` failed.
    #[error(
        "building {what} with Go failed ({status}); the build needs the Go module proxy (or a module cache that \
         holds the pinned modules) and about 5 GB of disk. The end of its output:\n{output}"
    )]
    Build {
        /// What was being built.
        what: String,
        /// How `go` ended.
        status: String,
        /// The last lines it wrote.
        output: String,
    },
    /// A daemon ended by itself.
    #[error("starting {daemon}: it ended by itself ({status}). The end of its log:\n{log}")]
    Exited {
        /// Which daemon.
        daemon: &'static str,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A daemon runs, but did not become ready in time.
    #[error(
        "waiting for {daemon}: not ready after {after:?}; the machine may be overloaded (a longer deadline can be set \
         on the builder). The end of its log:\n{log}"
    )]
    NotReady {
        /// Which daemon.
        daemon: &'static str,
        /// The deadline that passed.
        after: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// A daemon was to be signalled while it was stopped.
    #[error("signalling {daemon}: it is not running; start it first")]
    NotRunning {
        /// Which daemon.
        daemon: &'static str,
    },
    /// Something took longer than it may.
    #[error("{attempt}: not done after {after:?}")]
    Deadline {
        /// What was being done.
        attempt: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// A certificate or a key could not be made.
    #[error("making a certificate")]
    Certificate(#[from] rcgen::Error),
    /// A kubeconfig could not be used.
    #[error("reading the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The API server answered with an error, or not at all.
    #[error("{attempt}")]
    Api {
        /// What was being done.
        attempt: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// The audit log was asked for, but not asked to be written.
    #[error("reading the audit log: this control plane keeps none; ask for it with `.audit(true)`")]
    NoAudit,
    /// The audit log holds something that is not an event.
    #[error("reading the audit log, line {line}")]
    AuditLine {
        /// Which line.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Error {
    /// An [`Error::Io`], as a closure for `map_err`.
    pub(crate) fn io(attempt: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { attempt: attempt.into(), source }
    }

    /// An [`Error::Api`], as a closure for `map_err`.
    pub(crate) fn api(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { attempt: attempt.into(), source: Box::new(source) }
    }

    /// Whether a daemon ended because somebody else had taken its port in the meantime: worth another try elsewhere.
    pub(crate) fn is_port_clash(&self) -> bool {
        matches!(self, Self::Exited { log, .. } if log.contains("address already in use"))
    }
}
