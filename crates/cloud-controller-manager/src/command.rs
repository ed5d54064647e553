//! What the command line asks for: to run, to print something, or a sub-command that a provider brings.
//!
//! `nephos run --flag` and, where the binary is called as `cloud-controller-manager`, `--flag` without a sub-command: the
//! second is what existing manifests say.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgMatches, Args, Command};
use cloud_provider::Registry;
use controller_kit::flags::{go_style, normalize};

use crate::options::{Options, file};

pub mod page;
mod reading;

pub use self::page::{Page, RbacOptions};

/// The name under which no sub-command is needed.
pub const UPSTREAM_NAME: &str = "cloud-controller-manager";

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Run the manager.
    Run(Box<Options>),
    /// Print something.
    Print(Page),
    /// Run a provider's own command.
    Provider {
        /// Which one.
        command: cloud_provider::Command,
        /// What followed its name.
        arguments: Vec<String>,
    },
}

/// Reads an argument list whose first element is the name the binary was called by.
pub fn parse(
    binary: &'static str,
    registry: &Registry,
    arguments: Vec<OsString>,
) -> Result<Action, clap::Error> {
    if called_as_upstream(&arguments) {
        let command = manager(UPSTREAM_NAME);
        return read_run(&command, normalize(&command, arguments));
    }
    let command = all_in_one(binary, registry);
    let mut arguments = normalize(&command, arguments);
    match arguments.get(1).and_then(|argument| argument.to_str()) {
        Some("run") => {
            arguments.remove(1);
            read_run(&manager("run").bin_name(format!("{binary} run")), arguments)
        }
        Some("rbac") => {
            arguments.remove(1);
            read_rbac(&page::rbac().bin_name(format!("{binary} rbac")), arguments)
        }
        _ => read_other(registry, command, arguments),
    }
}

/// Reads the flags of `run`: those of the command line, then those of the file that it names.
fn read_run(command: &Command, arguments: Vec<OsString>) -> Result<Action, clap::Error> {
    let (arguments, mistakes) = file::expand(command, arguments);
    let (mut options, more) = reading::read::<Options>(command, arguments)?;
    options.mistakes = mistakes;
    options.mistakes.extend(more.mistakes);
    (options.flags, options.remarks) = (more.flags, more.remarks);
    match options.generic.version.as_str() {
        "true" => Ok(Action::Print(Page::Version { raw: false })),
        "raw" => Ok(Action::Print(Page::Version { raw: true })),
        _ => Ok(Action::Run(Box::new(options))),
    }
}

/// Reads the flags of `rbac`, which are those of `run` and more, and the same file.
fn read_rbac(command: &Command, arguments: Vec<OsString>) -> Result<Action, clap::Error> {
    let (arguments, mistakes) = file::expand(command, arguments);
    let (mut options, more) = reading::read::<RbacOptions>(command, arguments)?;
    options.run.mistakes = mistakes;
    options.run.mistakes.extend(more.mistakes);
    Ok(Action::Print(Page::Rbac(Box::new(options))))
}

fn read_other(
    registry: &Registry,
    command: Command,
    arguments: Vec<OsString>,
) -> Result<Action, clap::Error> {
    let matches = command.try_get_matches_from(arguments)?;
    let Some((name, matches)) = matches.subcommand() else { return unreachable_subcommand("none") };
    if let Some(page) = Page::read(name, matches)? {
        return Ok(Action::Print(page));
    }
    Ok(provider_action(registry, name, matches).unwrap_or_else(|| unreachable_subcommand(name)))
}

/// The whole command: `run`, what can be printed, and one sub-command for each provider that brings commands.
pub fn all_in_one(binary: &'static str, registry: &Registry) -> Command {
    let mut command = go_style(Command::new(binary))
        .version(concat!("v", env!("CARGO_PKG_VERSION")))
        .about("The Kubernetes cloud-controller-manager, in Rust")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(manager("run"))
        .subcommands(page::commands());
    for provider in registry.providers().iter().filter(|provider| !provider.commands.is_empty()) {
        let mut own = Command::new(provider.name).about(provider.about).subcommand_required(true);
        for brought in provider.commands {
            own = own.subcommand(
                Command::new(brought.name)
                    .about(brought.about)
                    .override_usage(format!("{binary} {} {} {}", provider.name, brought.name, brought.usage))
                    .disable_help_flag(true)
                    .arg(
                        clap::Arg::new("arguments")
                            .num_args(0..)
                            .allow_hyphen_values(true)
                            .trailing_var_arg(true),
                    ),
            );
        }
        command = command.subcommand(own);
    }
    command
}

/// The manager's own command, under this name.
pub fn manager(name: &'static str) -> Command {
    // After the flags, whose own description would take its place.
    let about = "Run the controllers that speak to a cloud on a cluster's behalf";
    go_style(Options::augment_args(Command::new(name))).about(about).long_about(None)
}

fn called_as_upstream(arguments: &[OsString]) -> bool {
    arguments.first().map(Path::new).and_then(Path::file_stem).is_some_and(|name| name == UPSTREAM_NAME)
}

fn provider_action(registry: &Registry, provider: &str, matches: &ArgMatches) -> Option<Action> {
    let provider = registry.providers().iter().find(|known| known.name == provider)?;
    let (name, matches) = matches.subcommand()?;
    let command = *provider.commands.iter().find(|known| known.name == name)?;
    let arguments = matches.get_many::<String>("arguments").unwrap_or_default().cloned().collect();
    Some(Action::Provider { command, arguments })
}

#[expect(clippy::unreachable, reason = "clap hands out only sub-commands that were declared just above")]
fn unreachable_subcommand<T>(name: &str) -> T {
    unreachable!("clap accepted the undeclared sub-command {name}")
}

#[cfg(test)]
mod tests;
