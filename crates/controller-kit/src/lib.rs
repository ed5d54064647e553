//! Machinery that knows Kubernetes and no cloud.
//!
//! Read in this order: [`clock`] and [`random`] (where time and chance come from), [`client`] (how we speak to the
//! API server), [`cache`] (what we know of it), [`queue`] and [`worker`] (how work reaches a controller), [`leader`]
//! (who may work), [`patch`] and [`events`] (how we write), [`metrics`] and [`log`] (what we tell), [`serve`] (whom we
//! tell it), [`flags`] and [`lifecycle`] (how a process is told, started and stopped).

pub mod cache;
pub mod client;
pub mod clock;
pub mod events;
pub mod flags;
pub mod leader;
pub mod lifecycle;
pub mod log;
pub mod metrics;
pub mod patch;
pub mod queue;
pub mod random;
pub mod serve;
pub mod worker;
