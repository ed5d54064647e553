//! The Kubernetes client and its layers.
