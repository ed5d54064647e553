//! A thousand balancers of fifty nodes on the data plane `nft`, as the provider changes them: read, alter one, apply, look.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Change;
use provider_local::config::AddressChoice;
use provider_local::intent::{Balancer, HealthCheck, Intent, PortKey, Probe, Settings};
use provider_local::nft::Options;
use provider_local::plane::DataPlane as _;
use testkit::conformance::context::{Mode, RecordingGate};
use tokio::time::Instant;

use crate::kernel::Scene;
use crate::servers::{Server, http};
use crate::wishes::single;

const BALANCERS: u16 = 1000;
const NODES: u8 = 50;
/// Where each node says that it serves, as kube-proxy does.
const HEALTH: u16 = 10_256;

/// A change of one balancer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    LoseBackend,
    GainBackend,
    AddBalancer,
    DeleteBalancer,
}

impl Kind {
    /// Each undoes the one before, so that the site is whole afterwards.
    pub(crate) const ALL: [Self; 4] =
        [Self::LoseBackend, Self::GainBackend, Self::AddBalancer, Self::DeleteBalancer];
}

/// The site.
pub(crate) struct Site {
    scene: Scene,
    _health: Server,
}

impl Site {
    /// Builds it, with nothing in force; `None`, with a notice, where that is not possible.
    pub(crate) async fn build() -> Option<Self> {
        let scene =
            Scene::build_with(AddressChoice::Interface("br0".into()), Options::default().scan).await?;
        // One namespace is all the nodes.
        let all = &scene.world.nodes[0];
        for index in 0..NODES {
            all.ip(&format!("addr add {}/32 dev lo", node(index)));
        }
        scene.world.balancer.ip("route add 10.77.1.0/24 via 10.77.0.10");
        let health = all.run(async { http(SocketAddr::from(([0, 0, 0, 0], HEALTH)), "200 OK") }).await;
        Some(Self { scene, _health: health })
    }

    /// Puts all in force at once. How long that takes.
    pub(crate) async fn program(&self) -> Duration {
        let took = self
            .change(0, |intent| {
                intent.balancers = (0..BALANCERS).map(|index| (uid(index), balancer(index, 0))).collect();
            })
            .await;
        self.is_whole();
        took
    }

    /// Makes changes of one kind, each of another balancer. The time that the one in the middle took.
    pub(crate) async fn median(&self, kind: Kind, count: u16) -> Duration {
        let mut times = Vec::new();
        for turn in 0..count {
            let index = match kind {
                Kind::LoseBackend | Kind::GainBackend => turn * (BALANCERS / count),
                Kind::AddBalancer | Kind::DeleteBalancer => BALANCERS + turn,
            };
            let change = move |intent: &mut Intent| match kind {
                Kind::LoseBackend => drop(intent.balancers.insert(uid(index), balancer(index, 1))),
                Kind::GainBackend | Kind::AddBalancer => {
                    intent.balancers.insert(uid(index), balancer(index, 0));
                }
                Kind::DeleteBalancer => drop(intent.balancers.remove(&uid(index))),
            };
            times.push(self.change(index, change).await);
        }
        times.sort();
        times[times.len() / 2]
    }

    async fn change(&self, index: u16, change: impl FnOnce(&mut Intent) + Send + 'static) -> Duration {
        let plane = self.scene.plane();
        let changed = async move {
            let start = Instant::now();
            let mut intent = plane.intent().await.unwrap();
            change(&mut intent);
            let gate = RecordingGate::new(Mode::Open).changes();
            let applied = Arc::clone(&plane);
            let made = gate.make(Change::create("load balancer", "one"), |permit| async move {
                applied.apply(intent, &permit).await.map_err(|error| error.during("applying"))
            });
            made.await.unwrap();
            let status = plane.status_of(&uid(index)).await.unwrap();
            let took = start.elapsed();
            let listeners = status.balancers.values().flat_map(|balancer| &balancer.listeners);
            let failures: Vec<_> = listeners.filter_map(|listener| listener.failure.as_ref()).collect();
            assert!(failures.is_empty(), "{failures:?}");
            took
        };
        self.scene.world.balancer.run(changed).await
    }

    /// Whether the kernel has all balancers with all nodes, and their addresses.
    pub(crate) fn is_whole(&self) {
        assert_eq!(self.scene.rules().matches("numgen inc mod 50").count(), usize::from(BALANCERS));
        let addresses = self.scene.world.balancer.ip("-4 addr show dev br0");
        assert_eq!(addresses.matches(" 198.18.").count(), usize::from(BALANCERS));
    }
}

fn node(index: u8) -> IpAddr {
    IpAddr::from([10, 77, 1, index + 1])
}

fn uid(index: u16) -> String {
    format!("0f1e2d3c-0000-4000-8000-{index:012}")
}

/// A balancer of all nodes but the first few.
fn balancer(index: u16, without: u8) -> Arc<Balancer> {
    let [high, low] = index.to_be_bytes();
    let nodes: Vec<String> = (0..NODES).map(|index| format!("node-{index}")).collect();
    let backends = (without..NODES).map(|node_index| {
        (&*nodes[usize::from(node_index)], SocketAddr::new(node(node_index), 30_000 + index))
    });
    let check = HealthCheck::of(Probe::Http { port: HEALTH, path: "/healthz".into() });
    let settings = Settings { health_check: check, ..Settings::default() };
    let wish = single(IpAddr::from([198, 18, high, low]), PortKey::tcp(80), backends, settings);
    Arc::new(Balancer { name: format!("web-{index}"), ..wish })
}
