//! Intents in few words.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by several test targets, each of which uses its own part"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::{Backend, Balancer, HealthCheck, Intent, Port, PortKey, Probe, Settings};
use provider_local::proxy::{FeedError, Keeper};

/// A balancer at this address, with nothing else yet.
pub fn balancer(address: IpAddr) -> Balancer {
    Balancer {
        cluster: None,
        namespace: "shop".into(),
        name: "web".into(),
        addresses: [address].into(),
        ports: [].into(),
        settings: Settings::default(),
    }
}

/// A backend of the node with this name.
pub fn backend(node: &str, socket: SocketAddr) -> Backend {
    Backend { node: node.into(), address: socket.ip(), port: socket.port(), weight: 1 }
}

/// A port with these backends.
pub fn port<'a>(backends: impl IntoIterator<Item = (&'a str, SocketAddr)>) -> Port {
    let backends = backends.into_iter().map(|(node, socket)| backend(node, socket)).collect();
    Port { backends, ..Port::default() }
}

/// A balancer of one port.
pub fn single<'a>(
    address: IpAddr,
    key: PortKey,
    backends: impl IntoIterator<Item = (&'a str, SocketAddr)>,
    settings: Settings,
) -> Balancer {
    Balancer { ports: [(key, port(backends))].into(), settings, ..balancer(address) }
}

/// A health check at a pace for tests.
pub fn brisk(probe: Probe) -> HealthCheck {
    HealthCheck {
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(100),
        ..HealthCheck::of(probe)
    }
}

/// Puts exactly these balancers in force.
pub async fn put(keeper: &Arc<Keeper>, balancers: &[(&str, Balancer)]) -> Result<u64, FeedError> {
    let balancers =
        balancers.iter().map(|(uid, balancer)| ((*uid).to_owned(), Arc::new(balancer.clone()))).collect();
    let revision = keeper.intent().await.revision;
    keeper.apply(Intent { revision, balancers, ..Intent::empty() }).await
}
