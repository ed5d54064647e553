//! An error on its way up through serde. It starts as a cause without a place; the storey that knows the place adds it.

use std::fmt::{self, Display};

use serde::de::{Expected, Unexpected};

use crate::gcfg::error::{Error, Found, Place, Problem};

/// What went wrong, and as much of where as is known so far.
#[derive(Debug)]
pub(in crate::gcfg) struct Fault {
    pub(in crate::gcfg) cause: Cause,
    pub(in crate::gcfg) place: Option<Box<Place>>,
    found: Option<Found>,
}

/// What went wrong.
#[derive(Debug)]
pub(in crate::gcfg) enum Cause {
    /// The value is not what the field takes.
    Expected(String),
    /// A type of the provider refused, in its own words.
    Message(String),
    /// A field without default has no key, or no section.
    Missing(&'static str),
    /// Two names of one field are both in the file.
    Twice,
    /// The struct is of a shape that the format has not.
    Unsupported(&'static str),
}

impl From<Cause> for Fault {
    fn from(cause: Cause) -> Self {
        Self { cause, place: None, found: None }
    }
}

impl Fault {
    /// Places a fault that has no place yet.
    pub(super) fn at(self, place: &Place, found: Option<&Found>) -> Self {
        if self.place.is_some() {
            return self;
        }
        Self { cause: self.cause, place: Some(Box::new(place.clone())), found: found.cloned() }
    }

    /// Places what a section as a whole lacks or has twice; `last` is the key that was read last.
    pub(super) fn in_section(self, section: &Place, last: Option<&Place>) -> Self {
        match (&self.cause, last) {
            (Cause::Missing(key), _) => {
                let place = Place { key: Some((*key).replace('_', "-")), ..section.clone() };
                self.at(&place, None)
            }
            (Cause::Twice, Some(last)) => self.at(last, None),
            _ => self,
        }
    }

    /// Places what the file as a whole lacks.
    pub(super) fn in_file(self, file: &str) -> Self {
        let section = match &self.cause {
            Cause::Missing(section) => Some((*section).to_owned()),
            _ => None,
        };
        self.at(&Place { file: file.to_owned(), section, ..Place::default() }, None)
    }

    /// The error that a person reads. A type's own words may quote the value, so a secret's are not repeated.
    pub(in crate::gcfg) fn into_error(self) -> Error {
        let found = self.found.unwrap_or(Found::Hidden);
        let problem = match self.cause {
            Cause::Expected(expected) => Problem::Value { expected, found },
            Cause::Message(_)
                if found == Found::Hidden && self.place.as_ref().is_some_and(|p| p.key.is_some()) =>
            {
                Problem::Value { expected: "a value that this key takes".to_owned(), found }
            }
            Cause::Message(message) => Problem::Refused(message),
            Cause::Missing(_) => Problem::Missing,
            Cause::Twice => Problem::Twice,
            Cause::Unsupported(why) => Problem::Unsupported(why),
        };
        Error { place: self.place.map(|place| *place).unwrap_or_default(), problem }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading a config file")
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Cause::Message(message.to_string()).into()
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Cause::Expected(expected.to_string()).into()
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Cause::Expected(expected.to_string()).into()
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Cause::Expected(expected.to_string()).into()
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Cause::Expected(one_of(variants)).into()
    }

    fn missing_field(field: &'static str) -> Self {
        Cause::Missing(field).into()
    }

    fn duplicate_field(_: &'static str) -> Self {
        Cause::Twice.into()
    }
}

/// What a choice takes.
fn one_of(variants: &[&str]) -> String {
    match variants {
        [] => "nothing".to_owned(),
        [only] => format!("{only:?}"),
        many => format!("one of {}", many.join(", ")),
    }
}
