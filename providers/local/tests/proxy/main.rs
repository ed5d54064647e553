//! The data plane `proxy` on the loopback network, without any privilege: what clients and backends see of it.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

mod addresses;
mod bounds;
mod changes;
mod datagrams;
mod health;
mod scene;
#[path = "../rack/servers.rs"]
mod servers;
mod sharing;
mod told;
#[path = "../rack/wishes.rs"]
mod wishes;
