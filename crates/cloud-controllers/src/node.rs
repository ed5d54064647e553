//! The node controller: Nodes are initialised, and kept true.

pub mod addresses;
pub mod labels;
pub mod node_ip;
pub mod plan;
#[cfg(test)]
mod tests;
