//! Builds the programs from the pinned Go modules in `hack/kube`, once, into the cache. A build that is interrupted
//! leaves nothing behind: it happens in a directory under a watchdog, and is renamed when it is whole.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::lock::Lock;
use super::{Environment, Program, Progress};
use crate::daemon::tail;
use crate::error::Error;
use crate::version::{Pins, Version};
use crate::watchdog::Watchdog;

/// The pinned modules, in the checkout that this crate was compiled from.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/kube");
/// The longest that a build may take, and so the longest wait for somebody else's.
const DEADLINE: Duration = Duration::from_secs(60 * 60);
/// How long a question to `go` itself may take.
const QUESTION: Duration = Duration::from_secs(30);
/// How often progress is told.
const NEWS: Duration = Duration::from_secs(15);
/// The file beside the programs that says what they were built from.
const STAMP: &str = "stamp";

/// One run of `go build`.
struct Step {
    what: String,
    module: PathBuf,
    ldflags: String,
    output: PathBuf,
    packages: Vec<String>,
}

/// Builds the programs into `directory` unless they are there and were built from the pins of this checkout.
pub(super) async fn ensure(
    environment: &Environment,
    directory: &Path,
    progress: &Progress,
) -> Result<(), Error> {
    let version = environment.version()?;
    let stamp = stamp(version)?;
    if is_built(directory, &stamp) {
        return Ok(());
    }
    let cache = environment.cache()?;
    std::fs::create_dir_all(&cache).map_err(Error::io(format!("making {}", cache.display())))?;
    let _lock = Lock::take(&cache.join(format!("{version}.lock")), DEADLINE, progress).await?;
    if is_built(directory, &stamp) {
        return Ok(());
    }
    check_go(environment, version).await?;
    let scratch = cache.join(format!(".{version}-{}", uuid::Uuid::new_v4().simple()));
    let watchdog = Watchdog::over(scratch).await?;
    let whole = watchdog.directory().join("whole");
    std::fs::create_dir(&whole).map_err(Error::io(format!("making {}", whole.display())))?;
    let began = Instant::now();
    for step in steps(version, &whole)? {
        step.run(environment, &watchdog, progress).await?;
    }
    std::fs::write(whole.join(STAMP), &stamp).map_err(Error::io("writing the stamp of the build"))?;
    put_in_place(&whole, directory, watchdog.directory())?;
    progress(&format!("built in {} s: {}", began.elapsed().as_secs(), directory.display()));
    tokio::task::spawn_blocking(move || drop(watchdog)).await.map_err(|source| Error::Io {
        attempt: "cleaning up after the build".to_owned(),
        source: source.into(),
    })
}

fn is_built(directory: &Path, stamp: &str) -> bool {
    std::fs::read_to_string(directory.join(STAMP)).is_ok_and(|found| found == stamp)
        && Program::ALL.iter().all(|program| directory.join(program.name()).is_file())
}

/// A new directory takes the place of an old one; who runs a program of the old one keeps it.
fn put_in_place(whole: &Path, directory: &Path, scratch: &Path) -> Result<(), Error> {
    let attempt = || format!("putting the programs into {}", directory.display());
    if directory.exists() {
        std::fs::rename(directory, scratch.join("old")).map_err(Error::io(attempt()))?;
    }
    std::fs::rename(whole, directory).map_err(Error::io(attempt()))
}

/// Tells what the programs are built from: another pin gives another stamp.
fn stamp(version: Version) -> Result<String, Error> {
    let mut pins = Vec::new();
    for step in steps(version, Path::new(""))? {
        pins.extend_from_slice(step.ldflags.as_bytes());
        for file in ["go.mod", "go.sum"] {
            let path = step.module.join(file);
            let text = std::fs::read(&path).map_err(Error::io(format!("reading {}", path.display())))?;
            pins.extend_from_slice(&text);
        }
    }
    Ok(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, &pins).to_string())
}

fn steps(version: Version, whole: &Path) -> Result<[Step; 2], Error> {
    let minor = version.minor();
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let ldflags = [
        "-s -w".to_owned(),
        set("gitVersion", &format!("v{version}")),
        set("gitMajor", minor.split('.').next().unwrap_or_default()),
        set("gitMinor", minor.split('.').nth(1).unwrap_or_default()),
    ];
    let kubernetes = [Program::ApiServer, Program::ControllerManager, Program::Kubectl];
    let etcd = Pins::load()?.etcd;
    Ok([
        Step {
            what: format!("etcd {etcd}"),
            module: Path::new(MODULES).join("etcd"),
            ldflags: "-s -w".to_owned(),
            output: whole.join(Program::Etcd.name()),
            packages: vec!["go.etcd.io/etcd/server/v3".to_owned()],
        },
        Step {
            what: format!("Kubernetes {version}"),
            module: Path::new(MODULES).join(&minor),
            ldflags: ldflags.join(" "),
            // With a slash at its end, Go takes it for a directory.
            output: whole.join(""),
            packages: kubernetes.map(|program| format!("k8s.io/kubernetes/cmd/{}", program.name())).into(),
        },
    ])
}

impl Step {
    async fn run(&self, environment: &Environment, dog: &Watchdog, progress: &Progress) -> Result<(), Error> {
        let log = dog.directory().join("build.log");
        let out = std::fs::File::create(&log).map_err(Error::io(format!("writing {}", log.display())))?;
        let mut command = go(environment);
        command.args(["build", "-v", "-mod=readonly", "-ldflags", &self.ldflags, "-o"]);
        command.arg(&self.output).args(&self.packages).current_dir(&self.module);
        command.stdout(Stdio::null()).stderr(out);
        dog.adopt(&mut command);
        progress(&format!("building {} from source, this once; it takes some minutes", self.what));
        let mut build = tokio::process::Command::from(command);
        let mut build = build.kill_on_drop(true).spawn().map_err(Error::io("running go build"))?;
        let began = Instant::now();
        let status = loop {
            if let Ok(status) = tokio::time::timeout(NEWS, build.wait()).await {
                break status.map_err(Error::io("waiting for go build"))?;
            }
            if began.elapsed() > DEADLINE {
                return Err(Error::Deadline { attempt: format!("building {}", self.what), after: DEADLINE });
            }
            let packages = std::fs::read_to_string(&log).unwrap_or_default().lines().count();
            progress(&format!("{}: {packages} packages after {} s", self.what, began.elapsed().as_secs()));
        };
        if status.success() {
            return Ok(());
        }
        Err(Error::Build { what: self.what.clone(), status: status.to_string(), output: tail(&log) })
    }
}

/// `go` as it is on this machine: it may not fetch another toolchain, look at other workspaces, or build for others.
fn go(environment: &Environment) -> Command {
    let path = environment.path.clone().unwrap_or_default();
    // Looked up here: the standard library would search our own PATH instead of the one that is meant.
    let program = std::env::split_paths(&path).map(|entry| entry.join("go")).find(|file| file.is_file());
    let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from("/nonexistent/go")));
    command.stdin(Stdio::null()).env("PATH", path);
    command.env("GOTOOLCHAIN", "local").env("GOWORK", "off").env("CGO_ENABLED", "0");
    command.env_remove("GOOS").env_remove("GOARCH").env("GOFLAGS", "-buildvcs=false");
    command
}

async fn check_go(environment: &Environment, version: Version) -> Result<(), Error> {
    let needed = needed_go(version)?;
    let mut command = go(environment);
    command.args(["env", "GOVERSION"]).stderr(Stdio::null());
    let mut command = tokio::process::Command::from(command);
    let answer = match tokio::time::timeout(QUESTION, command.kill_on_drop(true).output()).await {
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::MissingGo { version, needed: dotted(&needed) });
        }
        Ok(answer) => answer.map_err(Error::io("running go env GOVERSION"))?,
        Err(_) => {
            return Err(Error::Deadline { attempt: "asking go for its version".to_owned(), after: QUESTION });
        }
    };
    let found = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if numbers(found.trim_start_matches("go")) < needed {
        return Err(Error::OldGo { version, needed: dotted(&needed), found });
    }
    Ok(())
}

/// The newest `go` directive among the modules that are built.
fn needed_go(version: Version) -> Result<Vec<u32>, Error> {
    let mut needed = Vec::new();
    for step in steps(version, Path::new(""))? {
        let path = step.module.join("go.mod");
        let text =
            std::fs::read_to_string(&path).map_err(Error::io(format!("reading {}", path.display())))?;
        needed = needed
            .max(text.lines().find_map(|line| line.strip_prefix("go ")).map(numbers).unwrap_or_default());
    }
    Ok(needed)
}

/// `1.26.8` as numbers; a suffix such as `rc1` ends the list.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn dotted(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}
