//! Where clients may be, and Services that have no node ports.

use std::collections::BTreeMap;

use provider_local::intent::{Backend, Delivery, Port, PortKey, Settings, TrafficPolicy};

use crate::kernel::{NAMES, Scene, both, wish_udp};
use crate::servers::{Datagrams, ask_from, namer, udp_namer};
use crate::world::{VIP, VIP6};
use crate::{DNS, WEB, WEB6, local, thirds};

#[tokio::test]
async fn clients_on_the_nodes_own_network_and_pods_behind_them_are_served() {
    let Some(scene) = Scene::build().await else { return };
    // A pod on node-0, which the balancer's machine has a route to.
    scene.world.nodes[0].ip("addr add 10.244.0.5/32 dev lo");
    scene.world.balancer.ip("route add 10.244.0.0/24 via 10.77.0.10");
    for settings in [Settings::default(), local()] {
        let policy = settings.traffic_policy;
        scene.put(vec![both(settings)]).await;
        for entrance in [WEB, WEB6] {
            let mut met = BTreeMap::new();
            for _ in 0..6 {
                let introduction = scene.world.nodes[0].run(ask_from(entrance, None)).await.unwrap();
                *met.entry(introduction.name).or_insert(0) += 1;
            }
            assert_eq!(met, thirds(2), "a node as client, itself included, at {entrance} under {policy:?}");
        }
        if policy == TrafficPolicy::Cluster {
            let pod = Some("10.244.0.5".parse().unwrap());
            for _ in 0..6 {
                let introduction = scene.world.nodes[0].run(ask_from(WEB, pod)).await.unwrap();
                assert_eq!(introduction.peer, "10.77.0.1");
            }
        }
    }
}

#[tokio::test]
async fn a_service_without_node_ports_is_passed_on_with_the_address_unmodified() {
    let Some(scene) = Scene::build().await else { return };
    // Each node knows the virtual address, as its proxy makes it.
    let mut servers = Vec::new();
    for (index, node) in scene.world.nodes.iter().enumerate() {
        node.ip(&format!("addr add {VIP}/32 dev lo"));
        node.ip(&format!("-6 addr add {VIP6}/128 dev lo nodad"));
        for entrance in [WEB, WEB6] {
            servers.push(node.run(async move { namer(NAMES[index], entrance) }).await);
        }
        servers.push(node.run(async move { udp_namer(NAMES[index], DNS) }).await);
    }
    let mut wish = both(Settings::default());
    let unmodified = |port: u16| Port {
        delivery: Delivery::Unmodified,
        backends: wish.ports[&PortKey::tcp(80)]
            .backends
            .iter()
            .map(|backend| Backend { port, ..backend.clone() })
            .collect(),
    };
    wish.ports = [(PortKey::tcp(80), unmodified(80)), (PortKey::udp(53), unmodified(53))].into();
    scene.put(vec![wish.clone()]).await;
    for (entrance, seen) in [(WEB, "10.88.0.2"), (WEB6, "fd00:88::2")] {
        let mut met = BTreeMap::new();
        for _ in 0..60 {
            let introduction = scene.ask(entrance).await.unwrap();
            assert_eq!(introduction.peer, seen);
            *met.entry(introduction.name).or_insert(0) += 1;
        }
        assert_eq!(met.len(), 3, "{met:?} at {entrance}");
    }
    assert!(scene.ask_by_udp(DNS).await.is_ok());
    assert!(!scene.conntrack("").contains("203.0.113.10"), "nothing of it is remembered");
    // And back to node ports, with a client that goes on.
    let ask = async {
        let client = Datagrams::to(DNS).await;
        client.ask("hello").await.unwrap();
        client
    };
    let client = scene.world.client.run(ask).await;
    scene.put(vec![wish_udp(Settings::default())]).await;
    assert_eq!(
        scene.world.client.run(async move { client.ask("again").await.unwrap() }).await.peer,
        "10.77.0.1"
    );
    scene.put(vec![]).await;
    assert_eq!(scene.rules(), "");
}
