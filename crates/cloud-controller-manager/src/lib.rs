//! The manager behind every binary.
//!
//! The data goes one way: the command line becomes [`options::Options`] (what was typed), those become a
//! [`config::Config`] (checked, all errors at once, immutable), and [`app::run`] runs it: client, serving, caches, election,
//! controllers from one table ([`app::controllers`]). [`rbac`] says which rights that needs, [`print`](mod@print) what the other
//! sub-commands show, [`reference`](mod@reference) what the documentation is made from. A binary is a list of providers and a call of
//! [`main_with`]:
//!
//! ```no_run
//! # const PROVIDER: cloud_provider::Provider = cloud_provider::Provider::new("mine", "a cloud", |_| {
//! #     Box::pin(async { Ok(cloud_provider::Cloud::new("mine")) })
//! # });
//! fn main() -> std::process::ExitCode {
//!     cloud_controller_manager::main_with("mine-cloud-controller-manager", [PROVIDER])
//! }
//! ```

pub mod app;
pub mod command;
pub mod config;
pub mod options;
pub mod print;
pub mod rbac;
pub mod reference;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;

use cloud_provider::{Command, Provider, Registry};
use controller_kit::clock::SystemClock;
use controller_kit::log;
use tokio::runtime::Builder;

use crate::command::Action;

/// How many threads the manager works on at most: it waits for others most of the time, and each thread costs memory. On
/// a machine with many cores there would be as many without this.
const THREADS: usize = 4;

/// Reads the command line of a binary that knows these providers, and does what it says.
pub fn main_with(binary: &'static str, providers: impl IntoIterator<Item = Provider>) -> ExitCode {
    let registry = match Registry::new(providers) {
        Ok(registry) => registry,
        Err(error) => return fail(&error),
    };
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match command::parse(binary, &registry, arguments) {
        Ok(Action::Run(options)) => run(&registry, *options),
        Ok(Action::Print(page)) => {
            match with_runtime(|| print::print(page, binary, &registry, std::io::stdout().lock())) {
                Ok(Ok(())) => ExitCode::SUCCESS,
                Ok(Err(error)) => fail(error.as_ref()),
                Err(error) => fail(&error),
            }
        }
        Ok(Action::Provider { command, arguments }) => run_command(&command, arguments),
        Err(error) => {
            // clap knows which of its "errors" are help and version: those are no failures and go to stdout.
            let failed = error.use_stderr();
            let shown = error.print();
            ExitCode::from(u8::from(failed || shown.is_err()))
        }
    }
}

fn run(registry: &Registry, options: options::Options) -> ExitCode {
    let config = match config::Config::check(options, registry) {
        Ok(config) => config,
        Err(errors) => return fail(&errors),
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS);
    match runtime(|builder| builder.worker_threads(threads), || app::run(config)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(error.as_ref()),
        Err(error) => fail(&error),
    }
}

/// Runs a provider's own command, which logs as the manager does without any flag.
fn run_command(command: &Command, arguments: Vec<String>) -> ExitCode {
    if let Err(error) = log::init(&log::Options::default(), Arc::new(SystemClock)) {
        return fail(&error);
    }
    match with_runtime(|| (command.run)(arguments)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}

fn with_runtime<F: Future>(start: impl FnOnce() -> F) -> Result<F::Output, std::io::Error> {
    runtime(|builder| builder, start)
}

fn runtime<F: Future>(
    settle: impl FnOnce(&mut Builder) -> &mut Builder,
    start: impl FnOnce() -> F,
) -> Result<F::Output, std::io::Error> {
    let runtime = settle(Builder::new_multi_thread().enable_all()).build()?;
    Ok(runtime.block_on(async { start().await }))
}

#[expect(
    clippy::print_stderr,
    reason = "the last words of a process, whether or not its log was ever set up"
)]
fn fail(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("Error: {}", log::report(error));
    ExitCode::FAILURE
}
