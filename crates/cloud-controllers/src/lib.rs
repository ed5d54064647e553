//! The controllers that act through a cloud.
//!
//! Each is a root file with the wiring (what it watches, its queue), a `plan` that decides and is pure, and a `sync` that has
//! the effects. [`around`] is what stands between them and any cloud: the bulk loader, the budget with priorities,
//! deadlines, call metrics, the gate and the decision log; no provider writes any of it.

pub mod around;
mod news;
pub mod node;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod pod_networks;
pub mod route;
pub mod service;
