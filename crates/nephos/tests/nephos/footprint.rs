//! How much room the binary that images carry takes: on disk, and in memory while nothing happens.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

use crate::process::Nephos;
use crate::scene::{Scene, free_port};
use crate::{LEADS, PATIENCE};

/// What is promised of both.
const BOUND: u64 = 15_000_000;

/// How long it leads before it counts as idle, and in how many steps it is then looked at.
const SETTLE: Duration = Duration::from_secs(20);
const LOOKS: u32 = 10;

/// Resident bytes of a process.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("reading its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kibibytes * 1024
}

#[tokio::test]
#[ignore = "make bench"]
async fn bench_the_binary_and_its_idle_memory_stay_small() {
    let binary = std::env::var_os("NEPHOS_DIST").map(PathBuf::from);
    let binary = binary.expect("NEPHOS_DIST names the binary of the profile dist: make bench sets it");
    let size = std::fs::metadata(&binary).expect("the binary").len();
    let scene = Scene::set().await;
    let port = format!("--secure-port={}", free_port());
    let arguments = scene.arguments(&[
        port.as_str(),
        "--bind-address=127.0.0.1",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
    ]);
    let mut nephos = Nephos::start_program(&binary, &arguments);
    nephos.wait_for(LEADS, PATIENCE).await;
    sleep(SETTLE).await;
    let mut most = 0;
    for _ in 0..LOOKS {
        most = most.max(resident(nephos.id()));
        sleep(Duration::from_secs(1)).await;
    }
    println!("the binary has {size} bytes; idle, {most} bytes of it and its data are resident");
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
    assert!(size <= BOUND, "{} has {size} bytes", binary.display());
    assert!(most <= BOUND, "{most} bytes are resident");
}
