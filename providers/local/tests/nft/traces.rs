//! What is in the kernel: nothing after the end, and only ours in between.

use std::time::Duration;

use provider_local::intent::{Affinity, PortKey, Settings};

use crate::kernel::{Scene, both};
use crate::servers::{Held, eventually};
use crate::{DNS, WEB, WEB6};

#[tokio::test]
async fn nothing_is_left_after_a_delete() {
    let Some(scene) = Scene::build().await else { return };
    let mut all = both(Settings::default());
    all.ports.insert(PortKey::udp(53), all.ports[&PortKey::tcp(80)].clone());
    scene.put(vec![all]).await;
    assert!(scene.ask(WEB).await.is_ok() && scene.ask(WEB6).await.is_ok());
    assert!(scene.ask_by_udp(DNS).await.is_ok());
    let _held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    assert!(scene.rules().contains("nephos") && scene.conntrack("").contains("203.0.113.10"));
    scene.put(vec![]).await;
    assert_eq!(scene.rules(), "", "no table is left");
    assert!(!scene.conntrack("").contains("203.0.113.10"), "{}", scene.conntrack(""));
    assert!(!scene.conntrack("-f ipv6").contains("2001:db8::10"), "{}", scene.conntrack("-f ipv6"));
}

#[tokio::test]
async fn cleanup_removes_what_is_ours_and_nothing_else() {
    let Some(scene) = Scene::build().await else { return };
    scene.world.balancer.program("nft add table inet theirs").unwrap();
    scene.put(vec![both(Settings::default())]).await;
    let _held = scene.world.client.run(async { Held::open(WEB).await.unwrap() }).await;
    // Whoever cleans up has ended the manager, which would put it all back.
    scene.leader.set(false);
    let removed = scene.world.balancer.run(async { provider_local::nft::cleanup().await.unwrap() }).await;
    assert_eq!(removed, ["inet nephos"]);
    assert_eq!(scene.rules(), "table inet theirs {\n}");
    assert!(!scene.conntrack("").contains("203.0.113.10"), "{}", scene.conntrack(""));
}

#[tokio::test]
async fn what_somebody_else_changes_is_put_right_and_told() {
    let Some(scene) = Scene::build().await else { return };
    let affinity = Affinity::ClientIp { timeout: Duration::from_secs(60) };
    scene.put(vec![both(Settings { affinity, ..Settings::default() })]).await;
    assert!(scene.ask(WEB).await.is_ok());
    // Several scans pass: what nobody changed is not put right.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(scene.events.all().is_empty(), "{:?}", scene.events.all());
    let whole = scene.shape();
    let damages = [
        "nft flush ruleset",
        "nft delete table inet nephos",
        "nft flush map inet nephos listeners4",
        "nft add rule inet nephos b-uid-tcp-80-4 drop",
        "nft insert rule inet nephos prerouting drop",
        "nft add element inet nephos listeners4 { 203.0.113.10 . tcp . 99 : drop }",
        "nft flush chain inet nephos postrouting",
        "nft add chain inet nephos stranger",
    ];
    for damage in damages {
        let told = scene.events.all().len();
        scene.world.balancer.program(damage).unwrap();
        eventually(damage, || async { scene.shape() == whole }).await;
        eventually("it is told", || async { scene.events.all().len() > told }).await;
        assert!(scene.ask(WEB).await.is_ok(), "after {damage}");
    }
    let event = scene.events.all().pop().unwrap();
    assert_eq!(event.reason, "LoadBalancerDrifted");
    assert!(event.message.ends_with("it was put right"), "{}", event.message);
}
