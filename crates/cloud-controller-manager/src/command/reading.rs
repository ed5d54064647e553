//! Reads flags and goes on after a mistake, so that all mistakes of a command line are told at once.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::options::remarks;

/// What was seen beside the options themselves.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Every flag in force, by name.
    pub(super) flags: BTreeMap<String, String>,
    /// What could not be read.
    pub(super) mistakes: Vec<String>,
    /// What is to be said about flags that were given.
    pub(super) remarks: Vec<String>,
}

/// Reads the flags. What cannot be read is left out and becomes a mistake; only a question for help, or something that
/// cannot be left out, is an error.
pub(super) fn read<T: FromArgMatches>(
    command: &Command,
    mut arguments: Vec<OsString>,
) -> Result<(T, Seen), clap::Error> {
    let mut seen = Seen::default();
    let matches = loop {
        let error = match command.clone().try_get_matches_from(&arguments) {
            Ok(matches) => break matches,
            Err(error) => error,
        };
        let left = culprit(&error).map(|culprit| without(&arguments, &culprit, error.kind()));
        match left.filter(|left| left.len() < arguments.len()) {
            Some(left) if error.use_stderr() => {
                seen.mistakes.push(in_words(&error));
                arguments = left;
            }
            _ => return Err(error),
        }
    };
    seen.flags = in_force(command, &matches);
    seen.remarks = given(command, &matches).filter_map(remarks::on).collect();
    Ok((T::from_arg_matches(&matches)?, seen))
}

/// The flag or word that an error is about.
fn culprit(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(text) => {
            Some(text.split([' ', '=', '[']).next().unwrap_or_default().trim_matches('\'').to_owned())
        }
        _ => None,
    }
}

/// The arguments without those that give this flag, or without this word.
fn without(arguments: &[OsString], culprit: &str, kind: ErrorKind) -> Vec<OsString> {
    let takes_next = kind == ErrorKind::ValueValidation || kind == ErrorKind::InvalidValue;
    let (mut left, mut skip) = (Vec::new(), false);
    for (at, argument) in arguments.iter().enumerate() {
        let text = argument.to_string_lossy();
        let is_culprit = at > 0 && (text == culprit || text.starts_with(&format!("{culprit}=")));
        if std::mem::take(&mut skip) && !text.starts_with('-') {
            continue;
        }
        if is_culprit {
            skip = takes_next && text == culprit;
        } else {
            left.push(argument.clone());
        }
    }
    left
}

/// An error in one line: without its usage, with its tips.
fn in_words(error: &clap::Error) -> String {
    let text = error.to_string();
    let told = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let told: Vec<&str> = told.map(str::trim).filter(|line| !line.is_empty()).collect();
    told.join("; ").trim_start_matches("error: ").to_owned()
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

/// The flags that were given.
fn given<'a>(command: &'a Command, matches: &'a ArgMatches) -> impl Iterator<Item = &'a str> {
    command
        .get_arguments()
        .filter(|argument| {
            matches.try_contains_id(argument.get_id().as_str()).unwrap_or(false)
                && matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        })
        .filter_map(clap::Arg::get_long)
}
