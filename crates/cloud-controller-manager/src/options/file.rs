//! `--config`: a YAML file with the same keys as the flags. What it says becomes arguments, which count only for flags that
//! the command line does not give.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;
use cloud_provider::nearest::nearest;
use serde_json::{Map, Value};

/// The flag itself, which a file cannot set.
const CONFIG: &str = "config";

/// Puts what the file says behind the arguments, where these name one. What is wrong with it is told at once.
pub(crate) fn expand(command: &Command, mut arguments: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let Some(path) = named(&arguments) else { return (arguments, Vec::new()) };
    let given: BTreeSet<String> = arguments.iter().filter_map(|argument| flag(argument.to_str()?)).collect();
    let (more, errors) = match read(&path) {
        Ok(entries) => entries_as_arguments(command, &entries, &given),
        Err(error) => (Vec::new(), vec![error]),
    };
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, more.into_iter().map(OsString::from));
    let errors = errors.into_iter().map(|error| format!("--config={}: {error}", path.display()));
    (arguments, errors.collect())
}

/// The file that `--config` names; the last one counts, as for every flag.
fn named(arguments: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut next_is_value = false;
    for argument in arguments.iter().take_while(|argument| *argument != "--") {
        if next_is_value {
            found = Some(PathBuf::from(argument));
            next_is_value = false;
        } else if argument == "--config" {
            next_is_value = true;
        } else if let Some(path) = argument.to_str().and_then(|text| text.strip_prefix("--config=")) {
            found = Some(PathBuf::from(path));
        }
    }
    found.filter(|path| !path.as_os_str().is_empty())
}

/// The name of the flag that an argument gives.
fn flag(argument: &str) -> Option<String> {
    if argument.starts_with("-v") {
        return Some("v".to_owned());
    }
    let name = argument.strip_prefix("--")?;
    Some(name.split_once('=').map_or(name, |(name, _)| name).to_owned())
}

fn read(path: &Path) -> Result<Map<String, Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str(&text).map_err(|error| error.to_string())? {
        Value::Object(entries) => Ok(entries),
        Value::Null => Ok(Map::new()),
        _ => Err("expected a map from names of flags to their values".to_owned()),
    }
}

fn entries_as_arguments(
    command: &Command,
    entries: &Map<String, Value>,
    given: &BTreeSet<String>,
) -> (Vec<String>, Vec<String>) {
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let (mut arguments, mut errors) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        if key == CONFIG || !known.contains(&key.as_str()) {
            let near = nearest(key, known.iter().copied().filter(|name| *name != CONFIG));
            let hint = near.map_or(String::new(), |near| format!(": did you mean {near:?}?"));
            errors.push(format!("{key:?} is not the name of a flag{hint}"));
        } else if !given.contains(key) {
            match text(value) {
                Some(text) => arguments.push(format!("--{key}={text}")),
                None => errors.push(format!("{key}: expected a value, a list of values, or a map of values")),
            }
        }
    }
    (arguments, errors)
}

/// A value as the command line spells it: lists with commas, maps as pairs.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Array(values) => Some(values.iter().map(scalar).collect::<Option<Vec<_>>>()?.join(",")),
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| Some(format!("{key}={}", scalar(value)?)));
            Some(pairs.collect::<Option<Vec<_>>>()?.join(","))
        }
        other => scalar(other),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
