//! Starts a real etcd and kube-apiserver on loopback, for tests, demonstrations and benchmarks.
//!
//! ```no_run
//! # async fn story() -> Result<(), control_plane::Error> {
//! use control_plane::ControlPlane;
//!
//! let cluster = ControlPlane::builder().audit(true).start().await?;
//! let client = cluster.admin().await?;
//! cluster.api_server().pause().await?;
//! cluster.stop().await
//! # }
//! ```
//!
//! Nothing is fixed and nothing is left behind: ports are free ones, every file lives in one temporary directory,
//! and a watchdog process ends the daemons and removes that directory whichever way this process ends.
//!
//! In reading order:
//!
//! - [`cluster`]: the control plane itself, its builder, and how it starts and stops.
//! - [`daemon`]: one running program, which a test may stop, start, pause and resume.
//! - [`access`]: kubeconfigs and clients for the administrator, for any user, for a service account.
//! - [`audit`]: what the API server wrote to its audit log.
//! - [`kubelet`]: Nodes as a kubelet with `--cloud-provider=external` registers them.
//! - [`assets`] and [`version`]: where the programs come from, and which release they are.
//! - [`error`]: what can go wrong, and what to do about it.

pub mod access;
pub mod assets;
pub mod audit;
pub mod cluster;
pub mod daemon;
pub mod error;
pub mod kubelet;
pub mod version;

mod flags;
mod pki;
mod ports;
mod watchdog;

pub use assets::{Assets, Environment, Program};
pub use cluster::{Builder, ControlPlane};
pub use daemon::Daemon;
pub use error::Error;
pub use kubelet::Kubelet;
pub use version::Version;
