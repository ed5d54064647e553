//! The embedded default: a cloud for machines without one.

pub mod allocation;
pub mod annotation;
pub mod config;
pub mod instances;
pub mod intent;
pub mod inventory;
pub mod load_balancers;
pub mod plane;
pub mod pool;
pub mod problem;
pub mod provider;
pub mod wanted;

/// The provider's name.
///
/// INVARIANT: the scheme of every provider ID that was ever written.
pub const NAME: &str = "local";
