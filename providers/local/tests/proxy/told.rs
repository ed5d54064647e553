//! What the status and the counters say.

use provider_local::intent::{ClientAddress, Delivery, Settings};

use crate::scene::{Scene, WEB};
use crate::servers::{Held, ask, eventually, namer};
use crate::wishes::single;

#[tokio::test]
async fn what_a_proxy_cannot_do_is_told_in_the_status() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    let mut wish = scene.wish(Settings::default());
    wish.ports.get_mut(&WEB).unwrap().delivery = Delivery::Unmodified;
    scene.put(&wish).await;
    let problems = scene.keeper.status().await.balancers["uid"].problems.clone();
    assert!(problems[0].starts_with("port TCP/8080 has no node port"), "{problems:?}");
    assert!(ask(scene.entrance()).await.is_err());
    // Backends of the other family cannot see the client's address, privilege or not.
    let v6 = namer("six", "[::1]:0".parse().unwrap());
    let kept = Settings { client_address: ClientAddress::Kept, ..Settings::default() };
    scene.put(&single(scene.address, WEB, [("six", v6.address)], kept)).await;
    assert_eq!(ask(scene.entrance()).await.unwrap().name, "six");
    let problems = scene.keeper.status().await.balancers["uid"].problems.clone();
    assert!(problems[0].contains("different address families"), "{problems:?}");
}

#[tokio::test]
async fn the_counters_say_what_happened() {
    let scene = Scene::new(WEB, 1, Settings::default()).await;
    scene.shares(3).await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    held.echo().await.unwrap();
    eventually("the short ones are over", || async {
        scene.keeper.status().await.balancers["uid"].backends[0].connections == Some(1)
    })
    .await;
    let metrics = scene.keeper.metrics().await;
    let address = scene.servers[0].1.address;
    let service = r#"namespace="shop",service="web""#;
    let target = format!(r#"{service},port="TCP/8080",node="node-0",address="{address}""#);
    // Each says `node-0` and its client's address, 17 bytes, before the echo.
    for line in [
        format!("nephos_local_connections{{{service}}} 1"),
        format!("nephos_local_connections_accepted_total{{{service}}} 4"),
        format!("nephos_local_received_bytes_total{{{service}}} {}", 3 * 5 + 4),
        format!("nephos_local_sent_bytes_total{{{service}}} {}", 4 * 17 + 3 * 5 + 4),
        format!("nephos_local_backend_up{{{target}}} 1"),
        format!("nephos_local_backend_connections{{{target}}} 1"),
        format!("nephos_local_backend_connections_chosen_total{{{target}}} 4"),
        format!("nephos_local_backend_failures_total{{{target}}} 0"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}
