//! `control-plane`: a real etcd and kube-apiserver for a person at a terminal, or for a script.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use control_plane::assets::on_stderr;
use control_plane::{Assets, ControlPlane, Environment};
use tokio::signal::unix::{SignalKind, signal};

/// Starts a real etcd and kube-apiserver on loopback.
#[derive(Parser)]
#[command(name = "control-plane")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane, print how to reach it, and run until Ctrl-C or SIGTERM
    Up(Up),
    /// Build the programs if they are not there yet, and do nothing else
    Fetch(Release),
    /// Print the directory of the programs
    Path(Release),
}

#[derive(Args)]
struct Up {
    #[command(flatten)]
    release: Release,
    /// Keep an audit log
    #[arg(long)]
    audit: bool,
    /// Run kube-controller-manager too
    #[arg(long)]
    controller_manager: bool,
}

#[derive(Args)]
struct Release {
    /// The release of Kubernetes, such as 1.36.4 or 1.36, instead of what `NEPHOS_KUBE` says
    #[arg(long, value_name = "VERSION")]
    kube: Option<String>,
}

impl Release {
    fn environment(self) -> Environment {
        let environment = Environment::of_process();
        Environment { kube: self.kube.or(environment.kube), ..environment }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        // What to do about it stands in the message; a backtrace would bury it.
        _ = writeln!(std::io::stderr(), "control-plane: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run() -> anyhow::Result<ExitCode> {
    // From here on a signal does not end the process by itself, not even during a build.
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    match Cli::parse().command {
        Command::Up(options) => up(options, stop).await,
        Command::Fetch(release) => fetch(release, stop).await,
        Command::Path(release) => {
            say(&release.environment().directory()?.display().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn fetch(release: Release, stop: impl Future<Output = ()>) -> anyhow::Result<ExitCode> {
    let environment = release.environment();
    let progress = on_stderr();
    tokio::select! {
        assets = Assets::obtain(&environment, &progress) => {
            say(&assets?.directory().display().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        () = stop => Ok(ExitCode::FAILURE),
    }
}

async fn up(options: Up, stop: impl Future<Output = ()>) -> anyhow::Result<ExitCode> {
    let mut stop = std::pin::pin!(stop);
    let tell = on_stderr();
    let environment = options.release.environment();
    tell(&match &environment.assets {
        Some(directory) => format!("starting the programs in {}", directory.display()),
        None => format!("starting Kubernetes {}", environment.version()?),
    });
    let start = ControlPlane::builder()
        .environment(environment)
        .audit(options.audit)
        .controller_manager(options.controller_manager)
        .start();
    let cluster = tokio::select! {
        cluster = start => cluster?,
        () = &mut stop => return Ok(ExitCode::FAILURE),
    };
    tell(&format!("running at {} in {}; Ctrl-C ends it", cluster.server(), cluster.directory().display()));
    // In one piece: a script may read the first line only and close the pipe.
    let (kubeconfig, programs) = (cluster.admin_kubeconfig(), cluster.assets().directory());
    say(&format!("export KUBECONFIG={}\nexport PATH={}:$PATH", kubeconfig.display(), programs.display()))?;
    stop.await;
    tell("stopping");
    cluster.stop().await?;
    Ok(ExitCode::SUCCESS)
}

/// Whole lines on standard output, for scripts, in one write.
fn say(lines: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{lines}\n").as_bytes())?;
    out.flush()
}
