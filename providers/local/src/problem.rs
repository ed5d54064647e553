//! What is wrong in a file that a person wrote, each with its line. Reading never stops at the first problem that it
//! can see past.

use std::fmt;

use cloud_provider::Error;
use serde::de::DeserializeOwned;
use serde_saphyr::Spanned;

/// Everything that is wrong in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    file: String,
    all: Vec<(u64, String)>,
}

impl Problems {
    /// No problem so far in this file.
    pub fn none(file: &str) -> Self {
        Self { file: file.to_owned(), all: Vec::new() }
    }

    /// Notes a problem at this line; lines count from one.
    pub fn note(&mut self, line: u64, what: impl Into<String>) {
        self.all.push((line, what.into()));
    }

    /// What was made of the file, if nothing is wrong in it.
    pub fn or<T>(mut self, made: T) -> Result<T, Self> {
        if self.all.is_empty() {
            return Ok(made);
        }
        self.all.sort();
        Err(self)
    }

    /// As an error of the contract: a person must change the file.
    pub fn refuse(self, attempt: impl Into<String>) -> Error {
        Error::invalid_config(attempt).because(self)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> =
            self.all.iter().map(|(line, what)| format!("{}:{line}: {what}", self.file)).collect();
        f.write_str(&lines.join("; "))
    }
}

impl std::error::Error for Problems {}

/// Reads YAML. A file without any value is the default of its type.
pub(crate) fn read<T: DeserializeOwned + Default>(file: &str, text: &str) -> Result<T, Problems> {
    serde_saphyr::from_str::<Option<T>>(text).map(Option::unwrap_or_default).map_err(|error| {
        let mut problems = Problems::none(file);
        let line = error.location().map_or(1, |location| location.line());
        problems.note(line, first_line(&error));
        problems
    })
}

/// The line on which a value stands.
pub(crate) fn line<T>(value: &Spanned<T>) -> u64 {
    value.referenced.line()
}

/// The reason alone: what the file looks like around it is for terminals.
fn first_line(error: &serde_saphyr::Error) -> String {
    let whole = error.without_snippet().to_string();
    whole.lines().next().unwrap_or_default().to_owned()
}
