//! How to reach the API server.

use std::path::PathBuf;

use clap::Args;

/// Flags about the API server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Misc flags")]
pub struct ClientOptions {
    /// Path to a kubeconfig file with authorization and API server location. Without it and without --master, the
    /// service account of the pod is used.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The address of the Kubernetes API server (overrides any value in the kubeconfig).
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// QPS to use while talking with the API server. 0 for no limit on this side: the server has priority and fairness.
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER", help_heading = "Generic flags")]
    pub kube_api_qps: f32,

    /// Burst to use while talking with the API server; only with --kube-api-qps.
    #[arg(long, default_value_t = 30, value_name = "NUMBER", help_heading = "Generic flags")]
    pub kube_api_burst: u32,

    /// Content type of requests sent to the API server. Accepted without effect: JSON is spoken, whatever this says.
    #[arg(long, default_value = "application/json", value_name = "TYPE", help_heading = "Generic flags")]
    pub kube_api_content_type: String,
}
