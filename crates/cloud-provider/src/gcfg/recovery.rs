//! Serde stops at its first error; a person mending a file wants them all. So a file is read in passes: each pass
//! steps around what earlier ones found wrong, until nothing new is found.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use super::{
    Loaded,
    de::{Cause, Fault, Pass, Root},
    document::Document,
    error::{Error, Errors, MOST_ERRORS, Place},
    name,
};

/// A section and subsection, in squashed spelling.
type SectionId = (String, Option<String>);

/// What is already known to be wrong.
#[derive(Default)]
pub(super) struct Recovery {
    /// Lines whose value was refused; a pass acts as if they were not there.
    lines: BTreeSet<usize>,
    /// Keys that an error already names.
    named: BTreeSet<(SectionId, String)>,
    /// Required keys that are missing; a pass invents a value.
    stand_ins: BTreeSet<(SectionId, String)>,
    /// Required sections that are missing; a pass acts as if they were there, and empty.
    empty: BTreeSet<String>,
    /// Sections that no pass could read.
    dropped: BTreeSet<SectionId>,
}

/// What is to be done about a fault.
struct Verdict {
    /// Nobody has said so yet.
    report: bool,
    /// The next pass will be different.
    again: bool,
}

impl Recovery {
    pub(super) fn skips(&self, line: usize) -> bool {
        self.lines.contains(&line)
    }

    pub(super) fn stands_in_for_key(&self, section: &Place, key: &str) -> bool {
        self.stand_ins.contains(&(id(section), name::squash(key)))
    }

    pub(super) fn stands_in_for_section(&self, section: &str) -> bool {
        self.empty.contains(&name::squash(section))
    }

    pub(super) fn drops(&self, section: &Place) -> bool {
        self.dropped.contains(&id(section))
    }

    fn absorb(&mut self, fault: &Fault) -> Verdict {
        let Some(place) = &fault.place else { return Verdict { report: true, again: false } };
        let section = id(place);
        let key = place.key.as_deref().map(|key| (section.clone(), name::squash(key)));
        match (&fault.cause, key) {
            (Cause::Missing(_), Some(key)) => Verdict {
                report: self.named.insert(key.clone()) && !self.empty.contains(&section.0),
                again: self.stand_ins.insert(key) || self.dropped.insert(section),
            },
            (Cause::Missing(_), None) => {
                Verdict { report: !self.dropped.contains(&section), again: self.empty.insert(section.0) }
            }
            (_, Some(key)) => {
                self.named.insert(key);
                // Without a line it is a stand-in that failed.
                let new = place.line.is_some_and(|line| self.lines.insert(line));
                Verdict { report: new, again: new || self.dropped.insert(section) }
            }
            (_, None) => {
                let new = self.dropped.insert(section);
                Verdict { report: new, again: new }
            }
        }
    }
}

fn id(place: &Place) -> SectionId {
    (place.section.as_deref().map(name::squash).unwrap_or_default(), place.subsection.clone())
}

/// Reads a document into a struct, given what parsing it already found wrong.
pub(super) fn read<T: DeserializeOwned>(
    document: &Document,
    mut errors: Vec<Error>,
) -> Result<Loaded<T>, Errors> {
    let mut recovery = Recovery::default();
    loop {
        let pass = Pass::new(document, &recovery);
        let result = T::deserialize(Root(&pass));
        let notes = pass.into_notes();
        let fault = match result {
            Ok(config) if errors.is_empty() => return Ok(Loaded { config, warnings: notes.into_warnings() }),
            Ok(_) => return Err(Errors::new(errors, notes.into_warnings())),
            Err(fault) => fault,
        };
        let verdict = recovery.absorb(&fault);
        if verdict.report {
            errors.push(fault.into_error());
        }
        if !verdict.again || errors.len() > MOST_ERRORS {
            return Err(Errors::new(errors, notes.into_warnings()));
        }
    }
}
