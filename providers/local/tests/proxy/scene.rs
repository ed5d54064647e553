//! A proxy with one balancer and its servers, on addresses of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use provider_local::intent::status::Health;
use provider_local::intent::{Balancer, PortKey, Protocol, Settings};
use provider_local::proxy::Keeper;

use crate::servers::{Server, ask, fresh_address, namer, udp_namer};
use crate::wishes::{put, single};

pub(crate) const WEB: PortKey = PortKey { protocol: Protocol::Tcp, port: 8080 };
pub(crate) const DNS: PortKey = PortKey { protocol: Protocol::Udp, port: 8053 };

/// A proxy with one balancer in front of `count` servers.
pub(crate) struct Scene {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) address: IpAddr,
    pub(crate) servers: Vec<(String, Server)>,
    key: PortKey,
}

impl Scene {
    pub(crate) async fn new(key: PortKey, count: usize, settings: Settings) -> Self {
        let start = if key == DNS { udp_namer } else { namer };
        let servers = (0..count)
            .map(|index| {
                let name = format!("node-{index}");
                let server = start(&name, SocketAddr::new(fresh_address(), 30_080));
                (name, server)
            })
            .collect();
        let scene = Self { keeper: Arc::new(Keeper::in_memory()), address: fresh_address(), servers, key };
        scene.put(&scene.wish(settings)).await;
        scene
    }

    pub(crate) fn wish(&self, settings: Settings) -> Balancer {
        let backends = self.servers.iter().map(|(name, server)| (name.as_str(), server.address));
        single(self.address, self.key, backends, settings)
    }

    pub(crate) fn wish_without(&self, names: &[&str], settings: Settings) -> Balancer {
        let backends = self.servers.iter().map(|(name, server)| (name.as_str(), server.address));
        single(self.address, self.key, backends.filter(|(name, _)| !names.contains(name)), settings)
    }

    pub(crate) async fn put(&self, balancer: &Balancer) {
        put(&self.keeper, &[("uid", balancer.clone())]).await.unwrap();
    }

    pub(crate) fn entrance(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.key.port)
    }

    /// Who answers `count` connections, one after another.
    pub(crate) async fn shares(&self, count: usize) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for _ in 0..count {
            *shares.entry(ask(self.entrance()).await.unwrap().name).or_default() += 1;
        }
        shares
    }

    pub(crate) async fn health(&self, node: &str) -> Option<Health> {
        let status = self.keeper.status().await;
        let backends = &status.balancers.get("uid")?.backends;
        backends.iter().find(|found| found.backend.node == node).map(|found| found.health.clone())
    }
}

pub(crate) fn shares(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}
