//! The fake cloud as a process of its own: prints its address, serves until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cloud_provider::{CloudConfig, Error};
use provider_fake::clock::TokioClock;
use provider_fake::{Config, World, server};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A cloud that misbehaves on demand, for tests.
#[derive(Parser)]
#[command(name = "fake-cloud")]
struct Options {
    /// Where to listen; port 0 takes a free one. The address is printed as the first line.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How the cloud behaves, in YAML; see the table in README.md.
    #[arg(long)]
    config: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "fake-cloud: {}", error.report());
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Error> {
    let file = options.config.as_deref().map(CloudConfig::read).transpose()?;
    let config = Config::of(file.as_ref())?;
    if config.endpoint.is_some() {
        return Err(Error::invalid_config("reading endpoint: this process is the cloud and asks no other"));
    }
    let attempt = format!("listening on {}", options.listen);
    let listener =
        TcpListener::bind(options.listen).await.map_err(|error| Error::from_source(&*attempt, error))?;
    let address = listener.local_addr().map_err(|error| Error::from_source(&*attempt, error))?;
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| Error::from_source("waiting for SIGTERM", error))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|error| Error::from_source("waiting for SIGINT", error))?;
    let mut stdout = std::io::stdout();
    // Whoever started this process waits for the line; who does not care may have closed the pipe.
    let _ = writeln!(stdout, "http://{address}").and_then(|()| stdout.flush());
    let end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let world = World::new(config, Arc::new(TokioClock::start()));
    server::serve(listener, world, end).await.map_err(|error| Error::from_source("serving", error))
}
