//! What a pass finds odd, before anybody wants to read it: most passes only look for the next error, so looking for
//! what a misspelt name meant waits until the last one.

use crate::gcfg::{
    error::Place,
    name,
    warning::{Oddity, Warning},
};

/// What is odd, in the order of reading.
#[derive(Default)]
pub(in crate::gcfg) struct Notes(Vec<(Place, Note)>);

enum Note {
    Known(Oddity),
    /// A name that is none of these.
    Unknown(&'static [&'static str]),
}

impl Notes {
    pub(super) fn add(&mut self, place: Place, oddity: Oddity) {
        self.0.push((place, Note::Known(oddity)));
    }

    pub(super) fn add_unknown(&mut self, place: Place, known: &'static [&'static str]) {
        self.0.push((place, Note::Unknown(known)));
    }

    /// The notes for people, in the order of the lines.
    pub(in crate::gcfg) fn into_warnings(self) -> Vec<Warning> {
        let mut notes = self.0;
        notes.sort_by_key(|(place, _)| place.line);
        let warning = |(place, note): (Place, Note)| {
            let oddity = match (note, &place.key, &place.section) {
                (Note::Known(oddity), _, _) => oddity,
                (Note::Unknown(known), Some(key), _) => {
                    Oddity::UnknownKey { suggestion: name::suggestion(known, key) }
                }
                (Note::Unknown(known), None, section) => {
                    let section = section.as_deref().unwrap_or_default();
                    Oddity::UnknownSection { suggestion: name::suggestion(known, section) }
                }
            };
            Warning { place, oddity }
        };
        notes.into_iter().map(warning).collect()
    }
}
