//! What a health endpoint answers, in upstream's words.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::StatusCode;

use super::{BoxError, Endpoint};
use crate::serve::answer::{self, Answer};

/// The checks of one endpoint, asked.
#[derive(Debug)]
pub(in crate::serve) struct Report {
    endpoint: Endpoint,
    /// Names to be excluded that no check had so far.
    exclude: BTreeSet<String>,
    lines: String,
    failed: bool,
}

impl Report {
    pub(super) fn new(endpoint: Endpoint, exclude: BTreeSet<String>) -> Self {
        Self { endpoint, exclude, lines: String::new(), failed: false }
    }

    /// Whether a check is not to be asked.
    pub(super) fn excludes(&mut self, name: &str) -> bool {
        let excluded = self.exclude.remove(name);
        if excluded {
            let _ = writeln!(self.lines, "[+]{name} excluded: ok");
        }
        excluded
    }

    /// INVARIANT: upstream's lines; people grep for them. The reason stays inside: this text is public.
    pub(super) fn add(&mut self, name: &str, result: &Result<(), BoxError>) {
        let _ = match result {
            Ok(()) => writeln!(self.lines, "[+]{name} ok"),
            Err(_) => writeln!(self.lines, "[-]{name} failed: reason withheld"),
        };
        self.failed |= result.is_err();
    }

    /// The answer; the lines are shown when asked for, and always on failure.
    pub(in crate::serve) fn answer(mut self, verbose: bool) -> Answer {
        if !self.exclude.is_empty() {
            let names = self.exclude.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let _ =
                writeln!(self.lines, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        let name = self.endpoint.name();
        if self.failed {
            let text = format!("{}{name} check failed\n", self.lines);
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        let text = if verbose { format!("{}{name} check passed\n", self.lines) } else { "ok".to_owned() };
        answer::text(StatusCode::OK, text)
    }
}
