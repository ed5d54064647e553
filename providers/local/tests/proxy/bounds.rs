//! Who is not let in, and what is not kept open.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

use provider_local::intent::Settings;
use tokio::time::Instant;

use crate::scene::{Scene, WEB};
use crate::servers::{Held, ask, ask_from, eventually};

#[tokio::test]
async fn only_the_source_ranges_come_in_and_a_change_of_them_holds_at_once() {
    let only =
        |range: &str| Settings { source_ranges: [range.parse().unwrap()].into(), ..Settings::default() };
    let scene = Scene::new(WEB, 1, only("127.9.1.0/24")).await;
    let (one, other) = (IpAddr::from([127, 9, 1, 1]), IpAddr::from([127, 9, 2, 1]));
    assert_eq!(ask_from(scene.entrance(), Some(one)).await.unwrap().name, "node-0");
    let refused = ask_from(scene.entrance(), Some(other)).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{refused}");
    scene.put(&scene.wish(only("127.9.2.0/24"))).await;
    assert!(ask_from(scene.entrance(), Some(one)).await.is_err());
    assert_eq!(ask_from(scene.entrance(), Some(other)).await.unwrap().name, "node-0");
    let metrics = scene.keeper.metrics().await;
    let line =
        r#"nephos_local_connections_refused_total{namespace="shop",service="web",reason="source_range"} 2"#;
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

#[tokio::test]
async fn the_connection_limit_refuses_what_comes_above_and_frees_what_ends() {
    let scene = Scene::new(WEB, 1, Settings { connection_limit: 2, ..Settings::default() }).await;
    let first = Held::open(scene.entrance()).await.unwrap();
    let _second = Held::open(scene.entrance()).await.unwrap();
    assert!(ask(scene.entrance()).await.is_err());
    drop(first);
    eventually("there is room again", || async { ask(scene.entrance()).await.is_ok() }).await;
    let metrics = scene.keeper.metrics().await;
    assert!(metrics.contains(r#"reason="limit""#) && !metrics.contains(r#"reason="limit"} 0"#), "{metrics}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let scene =
        Scene::new(WEB, 1, Settings { idle_timeout: Duration::from_millis(300), ..Settings::default() })
            .await;
    let mut held = Held::open(scene.entrance()).await.unwrap();
    let mut last = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        last = Instant::now();
        held.echo().await.unwrap();
    }
    held.end().await.unwrap();
    assert!(last.elapsed() >= Duration::from_millis(300), "{:?}", last.elapsed());
}
