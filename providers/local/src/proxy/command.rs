//! `nephos local proxy`: the data plane as a process of its own, so that the manager's restarts, upgrades and lost leases
//! drop no connection.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Keeper, Server};
use crate::intent::{Store, StoreError};

/// Where the socket is, unless somebody says otherwise.
pub const SOCKET: &str = "/run/nephos/local-proxy.sock";
/// Where the intent is kept, unless somebody says otherwise.
pub const STATE: &str = "/var/lib/nephos/local-proxy.json";
/// How the arguments are written, for `--help`.
pub const USAGE: &str = "[--socket PATH] [--state PATH] [--metrics-address ADDRESS] [--grace SECONDS]";

/// The arguments.
#[derive(Debug, Clone, Parser)]
#[command(name = "proxy", no_binary_name = true, about = "Forward what comes in at the virtual addresses")]
pub struct Arguments {
    /// The unix socket where the manager feeds it
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub socket: PathBuf,
    /// The file that keeps the last intent
    #[arg(long, value_name = "PATH", default_value = STATE)]
    pub state: PathBuf,
    /// Where /metrics and /healthz are served; nowhere if it is not given
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Seconds that connections may go on after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub grace: u64,
}

/// Why the proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are wrong, or help was asked for.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// The kept intent cannot be read.
    #[error("taking up the kept intent")]
    State(#[source] StoreError),
    /// The socket cannot be opened.
    #[error("opening the socket {}", .0.display())]
    Socket(PathBuf, #[source] io::Error),
    /// The metrics address cannot be opened.
    #[error("opening {0} for metrics")]
    Metrics(SocketAddr, #[source] io::Error),
    /// The system refuses what any process may ask.
    #[error("preparing to be stopped by a signal")]
    Signals(#[source] io::Error),
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(arguments: Vec<String>) -> Result<(), Error> {
    let arguments = Arguments::try_parse_from(arguments)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let asked = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(arguments, asked).await
}

/// Runs until it is asked to stop.
pub async fn serve(arguments: Arguments, asked_to_stop: impl Future<Output = ()>) -> Result<(), Error> {
    allow_many_connections();
    // The socket first: it shows whether another process has this place, before its addresses are touched.
    let server =
        Server::bind(&arguments.socket).map_err(|error| Error::Socket(arguments.socket.clone(), error))?;
    let metrics = match arguments.metrics_address {
        Some(address) => {
            Some(TcpListener::bind(address).await.map_err(|error| Error::Metrics(address, error))?)
        }
        None => None,
    };
    let keeper = Arc::new(Keeper::take_up(Store::at(&arguments.state)).await.map_err(Error::State)?);
    let stop = CancellationToken::new();
    let _ends_with_this = stop.clone().drop_guard();
    let feeding = tokio::spawn(server.serve(Arc::clone(&keeper), stop.clone()));
    if let Some(listener) = metrics {
        tokio::spawn(show(listener, Arc::clone(&keeper), stop.clone()));
    }
    let revision = keeper.intent().await.revision;
    info!(socket = %arguments.socket.display(), state = %arguments.state.display(), revision, "forwarding");
    asked_to_stop.await;
    info!(grace = arguments.grace, "stopping: no new connections, and time for those that are here");
    stop.cancel();
    // The socket file is gone when this has ended; a panic in it has no part in stopping.
    let _ = feeding.await;
    keeper.stop(Duration::from_secs(arguments.grace)).await;
    Ok(())
}

/// Each forwarded connection takes two descriptors; the usual soft limit of 1,024 is for programs that use `select`.
fn allow_many_connections() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        warn!(%error, ?current, ?maximum, "cannot raise the limit of open files");
    }
}

/// Serves `/metrics` and `/healthz`: two fixed answers, so a line of HTTP is all that is read.
async fn show(listener: TcpListener, keeper: Arc<Keeper>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let keeper = Arc::clone(&keeper);
        tokio::spawn(async move {
            // Whoever looks has ten seconds, and if it goes away nothing is lost.
            let _ = tokio::time::timeout(Duration::from_secs(10), look(stream, &keeper)).await;
        });
    }
}

async fn look(mut stream: TcpStream, keeper: &Keeper) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < 16 * 1024 {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", keeper.metrics().await)
    } else if request.starts_with(b"GET /healthz ") {
        ("200 OK", "ok".to_owned())
    } else {
        ("404 Not Found", "only /metrics and /healthz are here".to_owned())
    };
    let kind = if body.starts_with("# ") {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
