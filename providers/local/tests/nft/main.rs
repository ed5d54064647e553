//! The data plane `nft` on a rack of network namespaces, as root: what the kernel does between real machines. Without root, or
//! without the programs `nft` and `conntrack`, each test is skipped with a notice.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

mod changes;
mod health;
#[path = "../rack/kernel.rs"]
mod kernel;
#[path = "../rack/load.rs"]
mod load;
mod reach;
#[path = "../rack/servers.rs"]
mod servers;
mod sharing;
mod traces;
#[path = "../rack/wishes.rs"]
mod wishes;
#[path = "../rack/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use provider_local::intent::{Settings, TrafficPolicy};

use kernel::NAMES;
use world::{VIP, VIP6};

const WEB: SocketAddr = SocketAddr::new(VIP, 80);
const WEB6: SocketAddr = SocketAddr::new(VIP6, 80);
const DNS: SocketAddr = SocketAddr::new(VIP, 53);

fn local() -> Settings {
    Settings { traffic_policy: TrafficPolicy::Local, ..Settings::default() }
}

fn thirds(count: usize) -> BTreeMap<String, usize> {
    NAMES.into_iter().map(|name| (name.to_owned(), count)).collect()
}
