//! Parts that must be processes of their own, because a test kills them. A part is this very test program, asked to run
//! one ignored test, which reads from the environment what it is to be.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "shared by several test targets, each of which uses its own part"
)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::Intent;
use provider_local::proxy::{Client, command};
use rustix::process::{Pid, Signal, kill_process};
use testkit::Awake;

use crate::servers::{PATIENCE, eventually};

/// The ignored test that plays a part. Each test program that uses parts has it.
const TEST: &str = "plays_a_part_that_another_test_starts";
const PART: &str = "NEPHOS_TEST_PART";
const PLACE: &str = "NEPHOS_TEST_PLACE";

/// What the ignored test does: nothing, unless another test started it.
pub fn play() {
    let Ok(part) = std::env::var(PART) else {
        eprintln!("NOTICE: this is a part that other tests start; alone it does nothing");
        return;
    };
    let place = Place(PathBuf::from(std::env::var(PLACE).unwrap()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match part.as_str() {
        "proxy" => runtime.block_on(command::run(place.arguments())).unwrap(),
        "feeder" => runtime.block_on(feed(&place)),
        other => panic!("nobody knows how to be {other}"),
    }
}

/// Changes the intent without end, as a busy manager: every second time, all balancers lose the backends of `flapping`.
async fn feed(place: &Place) {
    let client = place.client();
    let whole: Intent = serde_json::from_slice(&std::fs::read(place.wish()).unwrap()).unwrap();
    let mut without = whole.clone();
    for port in without.balancers.values_mut().flat_map(|balancer| Arc::make_mut(balancer).ports.values_mut())
    {
        port.backends.retain(|backend| backend.node != "flapping");
    }
    loop {
        for wish in [&without, &whole] {
            // A feeder before this one may have been killed after its change was taken.
            let revision = client.intent().await.unwrap().revision;
            client.apply(Intent { revision, ..wish.clone() }).await.unwrap();
        }
    }
}

/// A directory with the socket and the state of one proxy.
pub struct Place(pub PathBuf);

impl Place {
    pub fn socket(&self) -> PathBuf {
        self.0.join("proxy.sock")
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("intent.json")
    }

    /// What a feeder wants.
    pub fn wish(&self) -> PathBuf {
        self.0.join("wish.json")
    }

    pub fn client(&self) -> Client {
        Client::at(self.socket())
    }

    pub fn arguments(&self) -> Vec<String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec!["--socket".into(), text(&self.socket()), "--state".into(), text(&self.state())]
    }

    /// Waits until a proxy answers here.
    pub async fn answers(&self) {
        eventually("the proxy answers", || async { self.client().status().await.is_ok() }).await;
    }
}

/// A process that plays a part. Killed when it is dropped.
pub struct Process(Child);

impl Process {
    /// Starts a part at a place, in a network namespace if one is given.
    pub fn start(part: &str, place: &Place, namespace: Option<&str>) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
        };
        command.args(["--exact", TEST, "--ignored", "--nocapture"]);
        command.env(PART, part).env(PLACE, &place.0).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Asks it to end, as an init system does.
    pub fn terminate(&self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> io::Result<ExitStatus> {
        let told = Awake::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            assert!(told.elapsed() < PATIENCE, "the process goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
