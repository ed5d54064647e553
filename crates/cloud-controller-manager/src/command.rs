//! What the command line asks for: to run, or a sub-command that a provider brings.
//!
//! `nephos run --flag` and, where the binary is called as `cloud-controller-manager`, `--flag` without a sub-command: the
//! second is what existing manifests say.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use cloud_provider::Registry;
use controller_kit::flags::{go_style, normalize};

use crate::options::Options;

/// The name under which no sub-command is needed.
pub const UPSTREAM_NAME: &str = "cloud-controller-manager";

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Run the manager.
    Run(Box<Options>),
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
        let matches = command.clone().try_get_matches_from(normalize(&command, arguments))?;
        return read_options(&command, &matches);
    }
    let command = all_in_one(binary, registry);
    let matches = command.clone().try_get_matches_from(normalize(&command, arguments))?;
    match matches.subcommand() {
        Some(("run", run)) => read_options(&manager("run"), run),
        Some((provider, matches)) => {
            Ok(provider_action(registry, provider, matches)
                .unwrap_or_else(|| unreachable_subcommand(provider)))
        }
        None => unreachable_subcommand("none"),
    }
}

fn read_options(command: &Command, matches: &ArgMatches) -> Result<Action, clap::Error> {
    let mut options = Options::from_arg_matches(matches)?;
    options.flags = in_force(command, matches);
    Ok(Action::Run(Box::new(options)))
}

/// Every flag, with what was given or its default.
fn in_force(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    for argument in command.get_arguments() {
        let Some(name) = argument.get_long() else { continue };
        let values = matches.try_get_raw(argument.get_id().as_str()).ok().flatten().into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        flags.insert(name.to_owned(), values.join(","));
    }
    flags
}

/// The whole command: `run`, and one sub-command for each provider that brings commands.
pub fn all_in_one(binary: &'static str, registry: &Registry) -> Command {
    let mut command = go_style(Command::new(binary))
        .version(env!("CARGO_PKG_VERSION"))
        .about("The Kubernetes cloud-controller-manager, in Rust")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(manager("run"));
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
    let command = Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Run the controllers that speak to a cloud on a cluster's behalf");
    go_style(Options::augment_args(command))
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
mod tests {
    use cloud_provider::{Cloud, Provider};
    use rstest::rstest;

    use super::*;

    const PROXY: cloud_provider::Command = cloud_provider::Command {
        name: "proxy",
        about: "Forward",
        usage: "[--listen ADDRESS]",
        run: |_| Box::pin(async { Ok(()) }),
    };
    const LOCAL: Provider = Provider::new("local", "here", |_| Box::pin(async { Ok(Cloud::new("local")) }))
        .with_commands(&[PROXY]);

    fn read(line: &str) -> Result<Action, clap::Error> {
        let registry = Registry::new([LOCAL]).unwrap();
        parse("nephos", &registry, line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn the_command_is_well_formed() {
        all_in_one("nephos", &Registry::new([LOCAL]).unwrap()).debug_assert();
        manager(UPSTREAM_NAME).debug_assert();
    }

    /// Proves: APP-1
    #[rstest]
    #[case("nephos run --cloud-provider=local --leader_elect=false")]
    #[case("/usr/local/bin/cloud-controller-manager --cloud-provider=local --leader-elect=0")]
    #[case("cloud-controller-manager -cloud-provider=local --leader-elect=true --leader-elect=f")]
    fn both_names_read_the_same_flags(#[case] line: &str) {
        let Action::Run(options) = read(line).unwrap() else { panic!("not a run") };
        assert_eq!(options.cloud.cloud_provider, "local");
        assert!(!options.leader.leader_elect);
    }

    /// Proves: APP-1
    #[rstest]
    #[case("cloud-controller-manager now")]
    #[case("nephos run --cloud-providr=local")]
    #[case("nephos run --leader-elect=maybe")]
    #[case("nephos walk")]
    fn what_upstream_refuses_is_refused(#[case] line: &str) {
        assert!(read(line).unwrap_err().use_stderr());
    }

    #[test]
    fn a_providers_command_gets_its_own_arguments_untouched() {
        let Action::Provider { command, arguments } =
            read("nephos local proxy --listen_on 127.0.0.1:0 x").unwrap()
        else {
            panic!("not a provider's command")
        };
        assert_eq!(command.name, "proxy");
        assert_eq!(arguments[1..], ["127.0.0.1:0", "x"]);
    }
}
