//! The demonstration as a check: what `make demo ARGS=--once` runs.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

#[tokio::test]
async fn the_story_is_told_to_its_end_and_leaves_nothing_behind() {
    let demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .arg("--once")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended =
        tokio::time::timeout(Duration::from_secs(900), demo.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{complained}");
    for promise in ["has the address 127.", "its Node is deleted", "All promises were kept"] {
        assert!(said.contains(promise), "{promise:?} is missing:\n{said}");
    }
}
