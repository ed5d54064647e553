//! Turns an argument list written for a Go program into the one that clap expects: underscores in flag names become
//! hyphens, `-long-flag` becomes `--long-flag`. Values are never touched.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Command;

/// Sets what every command of ours shares with Go's flag parsing: a repeated scalar flag is no error, the last one
/// wins.
#[must_use]
pub fn go_style(command: Command) -> Command {
    command.args_override_self(true)
}

/// The same arguments in clap's spelling, up to a `--` argument.
///
/// A single dash before a long name is understood when `command` has that flag, because Go's own `flag` package
/// accepts it; every other argument with one dash is left to clap. Arguments that are not UTF-8 pass unchanged.
pub fn normalize(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let known = long_flags(command);
    let mut only_values = false;
    arguments
        .into_iter()
        .map(|argument| {
            only_values |= argument == "--";
            if only_values {
                return argument;
            }
            match argument.to_str().and_then(|text| spelled_for_clap(text, &known)) {
                Some(changed) => changed.into(),
                None => argument,
            }
        })
        .collect()
}

fn spelled_for_clap(argument: &str, known: &BTreeSet<String>) -> Option<String> {
    let double = argument.strip_prefix("--");
    let name_and_value = double.or_else(|| argument.strip_prefix('-'))?;
    let (name, value) = match name_and_value.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name_and_value, None),
    };
    let name = name.replace('_', "-");
    // With one dash, `-v` and `-v2` belong to the short flag `v`.
    if double.is_none() && (name.chars().count() < 2 || !known.contains(&name)) {
        return None;
    }
    Some(match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    })
}

/// Long names and their aliases, also of sub-commands: the normaliser runs before clap knows which one is meant.
fn long_flags(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().flat_map(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
    });
    own.chain(command.get_subcommands().flat_map(long_flags)).collect()
}
