//! Backends that do not answer.

use std::net::SocketAddr;

use provider_local::intent::status::Health;
use provider_local::intent::{Probe, Settings, TrafficPolicy};

use crate::scene::{Scene, WEB, shares};
use crate::servers::{ask, eventually, http};
use crate::wishes::brisk;

#[tokio::test]
async fn a_dead_backend_fails_no_client_and_is_found_out() {
    let settings = Settings { health_check: brisk(Probe::Tcp), ..Settings::default() };
    let mut scene = Scene::new(WEB, 3, settings).await;
    assert_eq!(scene.shares(3).await.len(), 3);
    scene.servers.remove(0).1.end().await;
    assert_eq!(scene.shares(60).await.get("node-0"), None, "sixty connections, and none failed");
    eventually("the status says it", || async {
        matches!(scene.health("node-0").await, Some(Health::Unhealthy { .. }))
    })
    .await;
    assert_eq!(scene.health("node-1").await, Some(Health::Healthy));
}

#[tokio::test]
async fn with_local_policy_only_nodes_that_have_a_pod_are_asked() {
    let probe = Probe::Http { port: 32_000, path: "/healthz".into() };
    let traffic_policy = TrafficPolicy::Local;
    let settings = Settings { health_check: brisk(probe), traffic_policy, ..Settings::default() };
    let scene = Scene::new(WEB, 3, settings.clone()).await;
    let checks = |index: usize| SocketAddr::new(scene.servers[index].1.address.ip(), 32_000);
    let with_pod = http(checks(0), "200 OK");
    let _without = http(checks(1), "503 Service Unavailable");
    eventually("all were asked", || async {
        let health =
            [scene.health("node-0").await, scene.health("node-1").await, scene.health("node-2").await];
        matches!(
            health,
            [Some(Health::Healthy), Some(Health::Unhealthy { .. }), Some(Health::Unhealthy { .. })]
        )
    })
    .await;
    assert_eq!(scene.shares(9).await, shares(&[("node-0", 9)]));
    with_pod.end().await;
    eventually("nobody has a pod", || async {
        matches!(scene.health("node-0").await, Some(Health::Unhealthy { .. }))
    })
    .await;
    assert!(ask(scene.entrance()).await.is_err(), "a node without a pod was asked");
    scene.put(&scene.wish(Settings { traffic_policy: TrafficPolicy::Cluster, ..settings })).await;
    assert!(ask(scene.entrance()).await.is_ok(), "with Cluster policy a wrong check takes nothing down");
}
