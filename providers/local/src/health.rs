//! Asks a backend whether it serves, for as long as it is in the intent.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::intent::status::Health;
use crate::intent::{HealthCheck, Probe, Protocol, ProxyProtocol, Settings};
use crate::proxy::{header, socket};

/// One who is asked.
pub(crate) trait Patient: Send + Sync + 'static {
    /// Its address and port.
    fn socket(&self) -> SocketAddr;

    /// What is believed of it.
    fn health(&self) -> Health;

    /// Takes the word of the check.
    fn judge(&self, health: Health);

    /// Completes when there is a reason to ask before the time.
    fn doubted(&self) -> impl Future<Output = ()> + Send;
}

/// How it is asked, until when, and together with whom.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// The settings in force, and those that follow.
    pub(crate) settings: watch::Receiver<Arc<Settings>>,
    /// Ends it.
    pub(crate) end: CancellationToken,
    /// Limits the questions in flight over all who are asked.
    pub(crate) questions: Arc<Semaphore>,
}

/// Questions in flight at once.
pub(crate) const AT_ONCE: usize = 256;

/// The pause between a failure and the question that confirms it, and the shortest one between any two.
const CONFIRM: Duration = Duration::from_millis(100);

/// What is known of a backend before it was asked.
pub(crate) fn before_the_first_answer(protocol: Protocol, check: &HealthCheck) -> Health {
    if is_asked(protocol, check) { Health::Unknown } else { Health::Unchecked }
}

/// Whether a port is asked at all: one of UDP cannot be asked whether it takes connections.
pub(crate) fn is_asked(protocol: Protocol, check: &HealthCheck) -> bool {
    match check.probe {
        Probe::None => false,
        Probe::Tcp => protocol == Protocol::Tcp,
        Probe::Http { .. } => true,
    }
}

/// Asks until the backend leaves the intent, which aborts this, or everything ends.
pub(crate) async fn watch<P: Patient>(patient: Arc<P>, protocol: Protocol, mut round: Round) {
    loop {
        let settings = Arc::clone(&round.settings.borrow_and_update());
        let asking = ask_for_ever(&*patient, protocol, &round.questions, &settings);
        tokio::select! {
            () = round.end.cancelled() => return,
            () = asking => {}
            new = round.settings.wait_for(|new| asks_differently(new, &settings)) => if new.is_err() { return },
        }
    }
}

fn asks_differently(new: &Settings, old: &Settings) -> bool {
    (&new.health_check, new.proxy_protocol) != (&old.health_check, old.proxy_protocol)
}

async fn ask_for_ever(
    patient: &impl Patient,
    protocol: Protocol,
    questions: &Semaphore,
    settings: &Settings,
) {
    let check = &settings.health_check;
    if !is_asked(protocol, check) {
        patient.judge(Health::Unchecked);
        return std::future::pending().await;
    }
    if patient.health() == Health::Unchecked {
        patient.judge(Health::Unknown);
    }
    let mut run = Run::default();
    loop {
        let answer = ask(patient.socket(), settings, questions).await;
        if let Some(health) = run.verdict(&patient.health(), check, answer.as_ref().err()) {
            patient.judge(health);
        }
        let pause = if run.is_undecided(&patient.health()) { CONFIRM } else { check.interval.max(CONFIRM) };
        tokio::select! {
            () = sleep(pause) => {}
            // A connection failed. A flood of them is still one question per moment.
            () = patient.doubted() => sleep(CONFIRM).await,
        }
    }
}

/// Equal answers in a row.
#[derive(Debug, Default)]
struct Run {
    good: u32,
    bad: u32,
}

impl Run {
    /// What a further answer makes of a backend of this health; `None` if nothing yet.
    fn verdict(&mut self, now: &Health, check: &HealthCheck, failure: Option<&io::Error>) -> Option<Health> {
        match failure {
            None => {
                *self = Self { good: self.good.saturating_add(1), bad: 0 };
                let enough = *now == Health::Unknown || self.good >= check.healthy_after;
                enough.then_some(Health::Healthy)
            }
            Some(error) => {
                *self = Self { good: 0, bad: self.bad.saturating_add(1) };
                let enough = *now == Health::Unknown || self.bad >= check.unhealthy_after;
                enough.then(|| Health::Unhealthy { why: error.to_string() })
            }
        }
    }

    /// Whether the last answer speaks against what is believed: ask again at once.
    fn is_undecided(&self, now: &Health) -> bool {
        match now {
            Health::Healthy => self.bad > 0,
            Health::Unhealthy { .. } => self.good > 0,
            Health::Unknown | Health::Unchecked => false,
        }
    }
}

/// Asks once.
async fn ask(backend: SocketAddr, settings: &Settings, questions: &Semaphore) -> io::Result<()> {
    // Thousands of backends must not be asked in the same moment; whoever waits here has not been asked yet.
    let Ok(_permit) = questions.acquire().await else {
        return std::future::pending().await;
    };
    let question = async {
        match &settings.health_check.probe {
            Probe::None => Ok(()),
            Probe::Tcp => connects(backend, settings.proxy_protocol).await,
            Probe::Http { port, path } => answers(SocketAddr::new(backend.ip(), *port), path).await,
        }
    };
    match timeout(settings.health_check.timeout.max(CONFIRM), question).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
    }
}

async fn connects(backend: SocketAddr, proxy_protocol: Option<ProxyProtocol>) -> io::Result<()> {
    let mut stream = socket::connect(backend, None).await?;
    if let Some(version) = proxy_protocol {
        stream.write_all(&header::of_probe(version)).await?;
    } else {
        // Leaves nothing behind, here or there.
        socket::reset_on_close(&stream);
    }
    Ok(())
}

async fn answers(server: SocketAddr, path: &str) -> io::Result<()> {
    let mut stream = socket::connect(server, None).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: nephos\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let status = status_code(&mut stream).await?;
    if (200..300).contains(&status) { Ok(()) } else { Err(io::Error::other(format!("HTTP status {status}"))) }
}

/// The number in `HTTP/1.1 200 OK`.
async fn status_code(stream: &mut TcpStream) -> io::Result<u16> {
    // `HTTP/1.x` and the number are the first twelve bytes.
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    let text = std::str::from_utf8(&head).unwrap_or_default();
    let number = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..)?.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

#[cfg(test)]
mod tests;
