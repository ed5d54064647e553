//! The program `control-plane`, and above all what remains of it when it is killed: nothing.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where it fails, in its fixtures too"
)]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn control_plane() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_control-plane"));
    command.stdin(Stdio::null());
    command
}

/// The processes that carry `text` in their environment.
fn marked(text: &Path) -> Vec<u32> {
    let text = text.to_str().unwrap().as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(text.len()).any(|window| window == text) {
            found.push(pid);
        }
    }
    found
}

async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !look() {
        assert!(tokio::time::Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A control plane that a person has started, and where it is.
struct Running {
    process: Child,
    directory: PathBuf,
    port: u16,
}

async fn up() -> Running {
    let mut process = control_plane().arg("up").stdout(Stdio::piped()).spawn().unwrap();
    let output = process.stdout.take().unwrap();
    let first = tokio::task::spawn_blocking(move || BufReader::new(output).lines().next());
    let line = tokio::time::timeout(Duration::from_secs(90), first).await.unwrap().unwrap().unwrap().unwrap();
    let kubeconfig = PathBuf::from(line.strip_prefix("export KUBECONFIG=").expect("the first line"));
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let server = parsed["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let port = server.rsplit(':').next().unwrap().parse().unwrap();
    Running { process, directory: kubeconfig.parent().unwrap().to_owned(), port }
}

impl Running {
    async fn leaves_nothing(&self) {
        eventually("its processes end", || marked(&self.directory).is_empty()).await;
        eventually("its directory goes", || !self.directory.exists()).await;
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        assert!(refused.is_err(), "somebody still listens on {}", self.port);
    }
}

fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

#[tokio::test]
async fn killed_without_warning_it_leaves_no_process_no_port_and_no_directory() {
    let mut running = up().await;
    assert_eq!(marked(&running.directory).len(), 2, "etcd and kube-apiserver");
    TcpStream::connect((Ipv4Addr::LOCALHOST, running.port)).unwrap();
    signal(&running.process, Signal::KILL);
    running.process.wait().unwrap();
    running.leaves_nothing().await;
}

#[tokio::test]
async fn asked_to_stop_it_cleans_up_and_says_success() {
    let mut running = up().await;
    signal(&running.process, Signal::TERM);
    assert!(running.process.wait().unwrap().success());
    assert!(!running.directory.exists());
    running.leaves_nothing().await;
}

#[tokio::test]
async fn killed_during_a_build_it_leaves_nothing_half_done() {
    let bench = tempfile::tempdir().unwrap();
    let started = bench.path().join("started");
    let go = bench.path().join("go");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != env ] || {{ echo go1.99.0; exit; }}\ntouch {}\nexec sleep 600\n",
        started.display()
    );
    std::fs::write(&go, script).unwrap();
    std::fs::set_permissions(&go, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut process = control_plane()
        .arg("fetch")
        .env_remove("KUBEBUILDER_ASSETS")
        .env_remove("NEPHOS_KUBE")
        .env("XDG_CACHE_HOME", bench.path())
        .env("PATH", format!("{}:/usr/bin:/bin", bench.path().display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the build begins", || started.exists()).await;
    let cache = bench.path().join("nephos/kube");
    let contents =
        || std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let scratch = contents().into_iter().find(|path| path.is_dir()).expect("a directory to build in");
    eventually("the build carries the mark", || !marked(&scratch).is_empty()).await;
    signal(&process, Signal::KILL);
    process.wait().unwrap();
    eventually("the build ends", || marked(&scratch).is_empty()).await;
    eventually("the directory goes", || !contents().iter().any(|path| path.is_dir())).await;
}

#[test]
fn without_go_and_without_programs_fetch_fails_and_says_what_to_install() {
    let bench = tempfile::tempdir().unwrap();
    let answer = control_plane()
        .arg("fetch")
        .env_remove("KUBEBUILDER_ASSETS")
        .env_remove("NEPHOS_KUBE")
        .env("XDG_CACHE_HOME", bench.path())
        .env("PATH", bench.path())
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    assert!(!answer.status.success());
    let message = String::from_utf8(answer.stderr).unwrap();
    assert!(message.contains("install Go 1.26") && message.contains("KUBEBUILDER_ASSETS"), "{message}");
    assert_eq!(message.lines().count(), 1, "nothing buries what to do: {message}");
}

#[test]
fn path_tells_where_the_programs_of_a_release_are() {
    let ask = |arguments: &[&str]| {
        let mut command = control_plane();
        command.args(arguments).env_remove("KUBEBUILDER_ASSETS").env_remove("NEPHOS_KUBE");
        let answer = command.env("XDG_CACHE_HOME", "/somewhere").output().unwrap();
        (answer.status.success(), String::from_utf8(answer.stdout).unwrap())
    };
    let newest = control_plane::version::Pins::load().unwrap().newest;
    let expected = format!("/somewhere/nephos/kube/{newest}\n");
    assert_eq!(ask(&["path", "--kube", &newest.minor()]), (true, expected));
    assert_eq!(ask(&["path", "--kube", "1.2.3"]), (false, String::new()));
}
