//! A small shell process that cleans up after us, however we end: it holds the read end of a pipe, and when the
//! write end closes (because we are done, panicked, or were killed with -9) it ends every process that carries
//! our mark in its environment and removes our directory. It knows nothing about what those processes are.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::error::Error;

/// The variable that marks a process as ours. The value is the watchdog's directory, whose name is unique: a process
/// is recognised by what it is, not by a number that the kernel may have given to another in the meantime.
const MARK: &str = "NEPHOS_CONTROL_PLANE";

/// How long the watchdog may take to come up.
const READY: Duration = Duration::from_secs(10);

/// `$1` is the directory, `$2` the mark. The directory is made here, so that there is no moment at which it exists
/// and nobody would remove it. A process may be between fork and exec and not yet carry the mark, so only several
/// quiet rounds in a row count; every loop is bounded.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
mkdir -m 700 -- "$1" || exit 1
echo ready
exec >/dev/null
while read -r _; do :; done
quiet=0 round=0
while [ "$quiet" -lt 3 ] && [ "$round" -lt 200 ]; do
    quiet=$((quiet + 1)) round=$((round + 1))
    for file in $(grep -lF -e "$2" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        kill -9 "${pid%/environ}" && quiet=0
    done
    sleep 0.03
done
round=0
while [ -e "$1" ] && [ "$round" -lt 100 ]; do
    round=$((round + 1))
    rm -rf -- "$1" || sleep 0.05
done
"#;

/// The process that outlives us by as long as it takes to clean up.
#[derive(Debug)]
pub(crate) struct Watchdog {
    directory: PathBuf,
    process: Child,
    /// The write end of the pipe. It closes by itself when this process ends: no child inherits it.
    lifeline: Option<ChildStdin>,
}

impl Watchdog {
    /// Makes `directory`, which must not exist, and watches over it from now on.
    pub(crate) async fn over(directory: PathBuf) -> Result<Self, Error> {
        let starting = "starting the watchdog (sh)";
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "nephos-watchdog"])
            .arg(&directory)
            .arg(mark(&directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::io(starting))?;
        let lifeline = process.stdin.take();
        let answer = process.stdout.take();
        let watchdog = Self { directory, process, lifeline };
        let first_line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            answer.map(|answer| BufReader::new(answer).read_line(&mut line)).transpose().map(|_| line)
        });
        match tokio::time::timeout(READY, first_line).await {
            Ok(Ok(Ok(line))) if line == "ready\n" => Ok(watchdog),
            Ok(Ok(Err(source))) => Err(Error::Io { attempt: starting.to_owned(), source }),
            Ok(_) => Err(Error::Io {
                attempt: format!("making the directory {}", watchdog.directory.display()),
                source: std::io::Error::other(
                    "the watchdog could not make it; is there space, and a writable TMPDIR?",
                ),
            }),
            Err(_) => Err(Error::Deadline { attempt: starting.to_owned(), after: READY }),
        }
    }

    /// The directory that will be removed.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the process that `command` will start one of those that the watchdog ends. It gets a process group of
    /// its own, so that Ctrl-C in a terminal reaches us and not it.
    pub(crate) fn adopt(&self, command: &mut Command) {
        command.env(MARK, &self.directory).process_group(0);
    }

    /// Cleans up now and waits until that is done. The script's loops are bounded, and so is this.
    pub(crate) fn finish(&mut self) {
        drop(self.lifeline.take());
        if self.process.wait().is_err() || self.directory.exists() {
            // Somebody ended the watchdog before its time: what remains is ours to do.
            _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.finish();
    }
}

fn mark(directory: &Path) -> std::ffi::OsString {
    let mut mark = std::ffi::OsString::from(MARK);
    mark.push("=");
    mark.push(directory);
    mark
}
