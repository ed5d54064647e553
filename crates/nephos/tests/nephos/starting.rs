//! What happens before the manager leads.

use crate::PATIENCE;
use crate::scene::Scene;

/// Proves: APP-3, APP-13
#[tokio::test]
async fn flags_are_logged_before_anything_is_done_and_a_standby_has_its_cloud_too() {
    let scene = Scene::set().await;
    let mut leader = scene.nephos(&[]);
    leader.wait_for("became leader", PATIENCE).await;
    let mut standby = scene.nephos(&["-v=1", "--cluster-name=shown"]);
    standby.wait_for("new leader elected", PATIENCE).await;
    let log = standby.log();
    let at = |text: &str| {
        log.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}:\n{log}"))
    };
    assert!(at("FLAG: --cluster-name=") < at("Built the cloud provider"), "{log}");
    assert!(at("Built the cloud provider") < at("new leader elected"), "{log}");
    assert_eq!(leader.count("FLAG:"), 0, "only for those who ask");
    for mut each in [leader, standby] {
        each.terminate();
        assert_eq!(each.exit_code(PATIENCE).await, Some(0));
    }
    scene.end().await;
}

/// Proves: APP-12
#[tokio::test]
async fn a_cloud_that_cannot_be_built_ends_the_process_and_is_named() {
    let scene = Scene::set().await;
    scene.configure("no-such-key: 1\n");
    let mut nephos = scene.nephos(&[]);
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(1));
    let log = nephos.log();
    assert!(log.contains("could not init cloud provider \"fake\"") && log.contains("no-such-key"), "{log}");
    scene.end().await;
}
