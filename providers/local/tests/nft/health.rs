//! Nodes that have no pod, and nodes that die.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use provider_local::intent::status::Health;
use provider_local::intent::{HealthCheck, Probe, Settings};
use testkit::Awake;

use crate::kernel::{NAMES, Scene, wish};
use crate::servers::{eventually, http};
use crate::wishes::brisk;
use crate::world::node_address;
use crate::{WEB, local};

#[tokio::test]
async fn a_local_service_uses_only_nodes_whose_health_check_port_says_so() {
    let Some(scene) = Scene::build().await else { return };
    let place = |index: usize| SocketAddr::new(node_address(index), 30_999);
    let mut answers = Vec::new();
    for (index, status) in
        ["200 OK", "503 Service Unavailable", "503 Service Unavailable"].into_iter().enumerate()
    {
        answers.push(scene.world.nodes[index].run(async move { http(place(index), status) }).await);
    }
    let check = brisk(Probe::Http { port: 30_999, path: "/healthz".into() });
    scene.put(vec![wish(Settings { health_check: check, ..local() })]).await;
    eventually("it answers", || async { scene.ask(WEB).await.is_ok() }).await;
    for _ in 0..9 {
        assert_eq!(scene.ask(WEB).await.unwrap().name, "node-0");
    }
    // The pod moves.
    for (index, status) in [(0, "503 Service Unavailable"), (2, "200 OK")] {
        std::mem::replace(
            &mut answers[index],
            scene.world.nodes[1].run(async { http("127.0.0.1:0".parse().unwrap(), "200 OK") }).await,
        )
        .end()
        .await;
        answers[index] = scene.world.nodes[index].run(async move { http(place(index), status) }).await;
    }
    eventually("the other node is used", || async {
        scene.ask(WEB).await.is_ok_and(|met| met.name == "node-2")
    })
    .await;
    for server in answers {
        server.end().await;
    }
    // Nobody says that it has a pod: a client is refused at once, and not left to wait.
    eventually("nobody is asked", || async {
        scene.ask(WEB).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_dies_is_left_within_three_seconds_and_comes_back() {
    let Some(scene) = Scene::build().await else { return };
    let settings = Settings { health_check: HealthCheck::of(Probe::Tcp), ..Settings::default() };
    scene.put(vec![wish(settings)]).await;
    for node in NAMES {
        eventually("all are healthy", || scene.is(node, |health| *health == Health::Healthy)).await;
    }
    scene.world.nodes[1].ip("link set eth0 down");
    let dead = Awake::now();
    eventually("the node is left", || {
        scene.is("node-1", |health| matches!(health, Health::Unhealthy { .. }))
    })
    .await;
    let found_out = dead.elapsed();
    println!("a dead node was left after {found_out:?}");
    assert!(found_out < Duration::from_secs(3), "{found_out:?}");
    eventually("the rules follow", || async { !scene.rules().contains("10.77.0.11") }).await;
    assert!(dead.elapsed() < Duration::from_secs(3), "{:?}", dead.elapsed());
    for _ in 0..30 {
        assert_ne!(scene.ask(WEB).await.unwrap().name, "node-1");
    }
    scene.world.nodes[1].ip("link set eth0 up");
    scene.world.nodes[1].ip("route replace default via 10.77.0.1");
    eventually("the node is back", || async { scene.rules().contains("10.77.0.11") }).await;
}
