//! The demonstration: a real control plane, three machines that are not there, and the manager that makes a cluster of
//! them. It needs no root, uses loopback addresses only, and leaves nothing behind.
//!
//! In reading order: [`story`] is what happens; [`stage`] is where; [`machine`] and [`child`] are who; [`picture`] is what
//! can be seen of it in the cluster, and [`view`] shows that.

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

mod child;
mod machine;
mod picture;
mod stage;
mod story;
mod view;

use self::stage::Stage;
use self::view::View;

/// The name under which this program is the manager and its proxy: a demonstration is one file.
const NEPHOS: &str = "nephos";

/// Show the manager at work on a live cluster.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Arguments {
    /// Run the story once as a check, and end: 0 if all went well
    #[arg(long)]
    once: bool,
    /// Print plain lines even on a terminal
    #[arg(long)]
    plain: bool,
}

fn main() -> ExitCode {
    let called_as = std::env::args_os().next().unwrap_or_default();
    if Path::new(&called_as).file_name() == Some(OsStr::new(NEPHOS)) {
        return cloud_controller_manager::main_with(NEPHOS, [provider_local::PROVIDER]);
    }
    let arguments = Arguments::parse();
    let played = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(play(&arguments)));
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nThe demonstration failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays until the end of the story or until somebody ends it; cleans up either way.
async fn play(arguments: &Arguments) -> anyhow::Result<()> {
    let view = View::new(std::io::stdout().is_terminal() && !arguments.plain && !arguments.once);
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = terminate.recv() => {}
            ended = tokio::signal::ctrl_c() => drop(ended),
        }
    };
    let mut stage = tokio::select! {
        stage = Stage::set(&view) => stage?,
        () = interrupted => return Ok(()),
    };
    let interrupted = async {
        tokio::select! {
            _ = terminate.recv() => {}
            ended = tokio::signal::ctrl_c() => drop(ended),
        }
    };
    let told = tokio::select! {
        told = story::tell(&mut stage, &view, arguments.once) => told,
        () = interrupted => Ok(()),
    };
    let told = told.map_err(|error| stage.with_last_words(error));
    view.close();
    view.say("Cleaning up.");
    stage.strike().await?;
    told
}
