//! A running binary whose log a test can wait for. Killed when dropped; where a test fails, its log is part of what the test says.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) struct Nephos {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    grown: watch::Receiver<usize>,
}

impl Nephos {
    pub(crate) fn start(arguments: &[String]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_nephos")), arguments)
    }

    pub(crate) fn start_program(program: &Path, arguments: &[String]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (grow, grown) = watch::channel(0);
        let read = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut source = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = source.next_line().await {
                let length = {
                    let mut lines = read.lock().expect("no panic under this lock");
                    lines.push(line);
                    lines.len()
                };
                // Outside the lock, which whoever waits takes while it looks at this.
                grow.send_replace(length);
            }
        });
        Self { child, lines, grown }
    }

    /// Waits until a line contains `text`, looking at the whole log.
    pub(crate) async fn wait_for(&mut self, text: &str, patience: Duration) {
        let mut grown = self.grown.clone();
        let found = timeout(patience, grown.wait_for(|_| self.count(text) > 0)).await;
        let seen = matches!(found, Ok(Ok(_))) || self.count(text) > 0;
        assert!(seen, "{text:?} is not in the log:\n{}", self.log());
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.lines.lock().expect("no panic under this lock").iter().filter(|line| line.contains(text)).count()
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.lock().expect("no panic under this lock").len()
    }

    pub(crate) fn log(&self) -> String {
        self.lines.lock().expect("no panic under this lock").join("\n")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("asking for the exit code").is_none()
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// What kills it from elsewhere. Not to be used once its exit code was asked for: its number is free then.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let id = self.pid();
        move || kill_process(id, Signal::KILL).expect("killing it")
    }

    pub(crate) async fn exit_code(&mut self, patience: Duration) -> Option<i32> {
        let ended = timeout(patience, self.child.wait()).await;
        let status =
            ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).expect("waiting for it");
        // The last lines arrive with the end of the pipe.
        let mut grown = self.grown.clone();
        let _ = timeout(patience, async { while grown.changed().await.is_ok() {} }).await;
        status.code()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalling it");
    }

    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it still runs")
    }

    fn pid(&self) -> Pid {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process number")
    }
}

impl Drop for Nephos {
    #[expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = self.child.try_wait();
            println!("The log of process {:?}, {state:?}:\n{}", self.child.id(), self.log());
        }
    }
}
