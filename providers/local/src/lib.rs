//! The embedded default: a cloud for machines without one.
//!
//! A site is a room full of machines, a network between them, and nobody to ask for a load balancer. This provider is
//! the missing cloud: a person lists the machines and the addresses that may be given out, and this crate answers at
//! those addresses and forwards to the nodes.
//!
//! # In reading order
//!
//! * [`config`] is the file that a person writes; [`problem`] is how it is told what is wrong in it, line by line.
//! * [`inventory`] lists the machines and alone decides which exist; [`instances`] answers for the Nodes from it, or adopts
//!   each Node as its own machine.
//! * [`pool`] says which addresses there are and for whom; [`allocation`] chooses, from nothing but what is true now, so
//!   that a restart changes no address.
//! * [`annotation`] is what a Service may ask for besides; [`wanted`] turns all of it into a balancer.
//! * [`intent`] is the whole wanted state of the data plane; [`load_balancers`] keeps it, one change a pass; [`plane`] is
//!   the seam behind which it is made true.
//! * [`proxy`] makes it true in user space, without any privilege: in a process of its own, or in the manager's; [`nft`] in
//!   the kernel, which forwards whether or not anybody lives. Both ask the same `health` checks who serves.
//! * `program` runs `nft` and `conntrack`; [`netlink`] is the kernel's addresses and routes; [`vip`] puts virtual addresses on the machine and tells the
//!   neighbours; [`routes`] is the slot for routes to the pods of each node.
//! * [`provider`] puts the parts together; [`command`] is what people type; [`cleanup`] leaves nothing of ours behind.

pub mod allocation;
pub mod annotation;
pub mod cleanup;
pub mod command;
pub mod config;
mod health;
pub mod instances;
pub mod intent;
pub mod inventory;
pub mod load_balancers;
pub mod netlink;
pub mod nft;
pub mod plane;
pub mod pool;
pub mod problem;
mod program;
pub mod provider;
pub mod proxy;
pub mod routes;
pub mod vip;
pub mod wanted;

pub use provider::PROVIDER;

/// The provider's name.
///
/// INVARIANT: the scheme of every provider ID that was ever written.
pub const NAME: &str = "local";
