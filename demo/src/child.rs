//! A process of this same program under another name: the manager, or its proxy. It ends with the demonstration,
//! however that ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use crate::NEPHOS;

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(12);

/// The variable by which the control plane's watchdog knows what to end when this process is killed.
const MARK: &str = "NEPHOS_CONTROL_PLANE";

/// A running process.
pub(crate) struct Child {
    name: &'static str,
    process: tokio::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts `nephos` with these arguments. Its log goes to a file in `directory`, whose watchdog ends it if we cannot.
    pub(crate) fn start(name: &'static str, arguments: &[String], directory: &Path) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let attempt = || format!("starting the {name}");
        let file = File::create(&log).with_context(attempt)?;
        let program = std::env::current_exe().with_context(attempt)?;
        let process = Command::new(program)
            .arg0(NEPHOS)
            .args(arguments)
            .env(MARK, directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(attempt)?;
        Ok(Self { name, process, log })
    }

    /// Where its log is.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The end of its log, if it is no longer running or complained.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("the last lines of {}:\n  {}", self.name, last.join("\n  "))
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            // It may have ended by itself meanwhile.
            let _ = kill_process(id, Signal::TERM);
        }
        if tokio::time::timeout(PATIENCE, self.process.wait()).await.is_err() {
            self.process.kill().await.with_context(|| format!("killing the {}", self.name))?;
        }
        Ok(())
    }
}
