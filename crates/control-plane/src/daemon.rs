//! One running program of the control plane, which a test may stop, start again, pause and resume. It does not know
//! what the program is: its arguments and the question that tells whether it is ready come from outside.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::watchdog::Watchdog;

mod probe;

pub(crate) use probe::Probe;

/// How often a condition is looked at again.
const PACE: Duration = Duration::from_millis(20);
/// How long a daemon that was asked to stop has before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How long the kernel may take to act on a signal that cannot be refused.
const SIGNAL: Duration = Duration::from_secs(10);
/// How much of a log is shown when something fails.
const TAIL: usize = 20;

/// What a daemon is made of.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) probe: Probe,
    /// How long it may take to become ready.
    pub(crate) deadline: Duration,
}

/// A program of the control plane. It ends when the control plane does.
pub struct Daemon {
    spec: Spec,
    log: PathBuf,
    watchdog: Arc<Watchdog>,
    /// The process while it runs. A child that was not waited for keeps its process number, so that a signal sent
    /// under this lock reaches it and nobody else.
    process: Mutex<Option<Child>>,
}

impl Daemon {
    pub(crate) fn new(spec: Spec, watchdog: &Arc<Watchdog>) -> Self {
        let log = watchdog.directory().join(format!("{}.log", spec.name));
        Self { spec, log, watchdog: Arc::clone(watchdog), process: Mutex::default() }
    }

    /// The file that everything it writes goes to. It is removed with the control plane.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process number while it runs.
    pub async fn pid(&self) -> Option<u32> {
        self.process.lock().await.as_ref().map(Child::id)
    }

    /// Starts it with the same data on the same port as before, and returns when it is ready. Does nothing to a
    /// daemon that runs.
    pub async fn start(&self) -> Result<(), Error> {
        let mut process = self.process.lock().await;
        if let Some(child) = process.as_mut()
            && self.status(child)?.is_none()
        {
            return Ok(());
        }
        let child = process.insert(self.spawn()?);
        let ready = self.ready(child).await;
        if ready.is_err() && self.end(child, Signal::KILL).await.is_ok() {
            *process = None;
        }
        ready
    }

    /// Asks it to stop (SIGTERM), and kills it when it does not in five seconds. Its data stay.
    pub async fn stop(&self) -> Result<(), Error> {
        self.take_down(Signal::TERM).await
    }

    /// Ends it at once (SIGKILL), as a crash would. Its data stay.
    pub async fn kill(&self) -> Result<(), Error> {
        self.take_down(Signal::KILL).await
    }

    /// Freezes it (SIGSTOP): connections stay open and are accepted, nothing is answered. Returns when it stands still.
    pub async fn pause(&self) -> Result<(), Error> {
        let process = self.process.lock().await;
        let child = process.as_ref().ok_or(Error::NotRunning { daemon: self.spec.name })?;
        self.signal(child, Signal::STOP)?;
        let stat = format!("/proc/{}/stat", child.id());
        self.eventually("pausing", SIGNAL, || {
            let stat = std::fs::read_to_string(&stat).map_err(Error::io(format!("reading {stat}")))?;
            // The state is the first field after the name, which stands in brackets and may hold anything.
            Ok(stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')).then_some(()))
        })
        .await
    }

    /// Lets a paused daemon go on (SIGCONT).
    pub async fn resume(&self) -> Result<(), Error> {
        let process = self.process.lock().await;
        let child = process.as_ref().ok_or(Error::NotRunning { daemon: self.spec.name })?;
        self.signal(child, Signal::CONT)
    }

    /// Kills it and does not return before it is gone.
    pub(crate) fn destroy(&mut self) {
        if let Some(mut child) = self.process.get_mut().take()
            && child.kill().is_ok()
        {
            _ = child.wait();
        }
    }

    fn spawn(&self) -> Result<Child, Error> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(Error::io(format!("opening {}", self.log.display())))?;
        let errors = log.try_clone().map_err(Error::io(format!("opening {}", self.log.display())))?;
        let mut command = Command::new(&self.spec.program);
        command.args(&self.spec.args).current_dir(self.watchdog.directory());
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        self.watchdog.adopt(&mut command);
        command.spawn().map_err(Error::io(format!("running {}", self.spec.program.display())))
    }

    async fn ready(&self, child: &mut Child) -> Result<(), Error> {
        let deadline = Instant::now() + self.spec.deadline;
        let asking = self.spec.probe.connect().await?;
        while Instant::now() < deadline {
            if let Some(status) = self.status(child)? {
                return Err(Error::Exited { daemon: self.spec.name, status, log: tail(&self.log) });
            }
            if asking.is_ready().await {
                return Ok(());
            }
            tokio::time::sleep(PACE).await;
        }
        Err(Error::NotReady { daemon: self.spec.name, after: self.spec.deadline, log: tail(&self.log) })
    }

    async fn take_down(&self, signal: Signal) -> Result<(), Error> {
        let mut process = self.process.lock().await;
        if let Some(child) = process.as_mut() {
            self.end(child, signal).await?;
            *process = None;
        }
        Ok(())
    }

    async fn end(&self, child: &mut Child, signal: Signal) -> Result<(), Error> {
        self.signal(child, signal)?;
        if signal == Signal::TERM {
            // A paused daemon cannot act on SIGTERM before it goes on.
            self.signal(child, Signal::CONT)?;
            match self.eventually("stopping", GRACE, || self.status(child)).await {
                Err(Error::Deadline { .. }) => self.signal(child, Signal::KILL)?,
                done => return done.map(drop),
            }
        }
        self.eventually("killing", SIGNAL, || self.status(child)).await.map(drop)
    }

    /// How it ended, if it did.
    fn status(&self, child: &mut Child) -> Result<Option<String>, Error> {
        let status = child.try_wait().map_err(Error::io(format!("waiting for {}", self.spec.name)))?;
        Ok(status.map(|status| status.to_string()))
    }

    fn signal(&self, child: &Child, signal: Signal) -> Result<(), Error> {
        let pid = Pid::from_child(child);
        match kill_process(pid, signal) {
            // It is a zombie that we have not waited for yet: gone is what stopping wants.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => {
                Err(Error::Io { attempt: format!("signalling {}", self.spec.name), source: errno.into() })
            }
        }
    }

    async fn eventually<T>(
        &self,
        doing: &str,
        within: Duration,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(Error::Deadline {
                    attempt: format!("{doing} {}", self.spec.name),
                    after: within,
                });
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// The last lines of a log, shortened: enough to see why a daemon gave up.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shorten = |line: &&str| line.chars().take(400).collect::<String>();
    let last: Vec<String> = lines[lines.len().saturating_sub(TAIL)..].iter().map(shorten).collect();
    if last.is_empty() { "(it wrote nothing)".to_owned() } else { last.join("\n") }
}
