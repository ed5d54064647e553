//! What can be wrong with a file, where, and how it is said. Values appear in a message only where they help and
//! cannot be a secret.

use std::fmt;

use super::{name, warning::Warning};

/// The most errors that one reading reports: a binary file given by mistake should not fill the log.
pub(super) const MOST_ERRORS: usize = 100;

/// A place in a file: as much of it as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file, as the caller gave it.
    pub file: String,
    /// The line, counted from one; `None` for what is missing altogether.
    pub line: Option<usize>,
    /// The section, as written in the file.
    pub section: Option<String>,
    /// The quoted name of the subsection, if there is one.
    pub subsection: Option<String>,
    /// The key, as written in the file.
    pub key: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match (&self.section, &self.subsection) {
            (Some(section), None) => write!(f, ": [{}]", name::shortened(section))?,
            (Some(section), Some(subsection)) => {
                write!(f, ": [{} {:?}]", name::shortened(section), name::shortened(subsection))?;
            }
            (None, _) => {}
        }
        match &self.key {
            Some(key) if self.section.is_some() => write!(f, " {}", name::shortened(key)),
            Some(key) => write!(f, ": {}", name::shortened(key)),
            None => Ok(()),
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Error {
    /// Where it is wrong.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The line is not text.
    #[error("expected text in UTF-8, found other bytes")]
    NotText,
    /// The line holds a zero byte.
    #[error("expected text, found a NUL byte")]
    Nul,
    /// A character that begins nothing, or that a name cannot hold.
    #[error("unexpected {0:?}: a name is a letter, then letters, digits and '-'")]
    UnexpectedCharacter(char),
    /// `[` is not followed by a name.
    #[error("expected the name of a section after '['")]
    SectionName,
    /// `[section ""]`.
    #[error("expected a name between the quotes of the subsection")]
    EmptySubsection,
    /// The header has no end.
    #[error("expected ']' after the name of the section")]
    HeaderEnd,
    /// Something stands behind the header.
    #[error("expected the end of the line after ']'")]
    AfterHeader,
    /// A key stands before the first header.
    #[error("expected a section such as [Global] before the first key")]
    NoSection,
    /// A key is followed by something else than its value.
    #[error("expected '=' after the key")]
    NoEquals,
    /// A quote is opened and not closed.
    #[error("expected a closing '\"' before the end of the line")]
    OpenQuote,
    /// A backslash inside quotes, before a character that it does not go with.
    #[error("unknown escape: in quotes, a backslash goes with one of {0}")]
    Escape(&'static str),
    /// A backslash outside quotes.
    #[error(
        "unexpected '\\': outside quotes a backslash goes with '\"', '\\' or the end of the line; quote the value"
    )]
    BareBackslash,
    /// A value that does not fit its key.
    #[error("expected {expected}, found {found}")]
    Value {
        /// What the key takes.
        expected: String,
        /// What was there instead.
        found: Found,
    },
    /// The provider's own type refused the value, in its own words.
    #[error("{0}")]
    Refused(String),
    /// A key or a section that the provider cannot do without.
    #[error("required, and not given")]
    Missing,
    /// A setting that has two names was given under both.
    #[error("given under two names")]
    Twice,
    /// The provider's struct asks for what the format cannot hold: a mistake in the provider, not in the file.
    #[error("cannot be read into this type: {0}")]
    Unsupported(&'static str),
    /// There is more, and it is not shown.
    #[error("more is wrong; only the first {MOST_ERRORS} errors are shown")]
    More,
}

/// What stood in place of the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This text.
    Text(String),
    /// The key alone, without `=`.
    NoValue,
    /// A text that is not shown, because it may be a secret.
    Hidden,
}

impl Found {
    /// What a message may say about the value of a key.
    pub(super) fn new(key: &str, value: Option<&str>) -> Self {
        match value {
            None => Self::NoValue,
            // A URL may carry a password, whatever its key is called.
            Some(text) if name::looks_secret(key) || text.contains('@') => Self::Hidden,
            Some(text) => Self::Text(name::shortened(text)),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::NoValue => f.write_str("no value"),
            Self::Hidden => f.write_str("something else (not shown)"),
        }
    }
}

/// All that is wrong with a file, in the order of its lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    errors: Vec<Error>,
    warnings: Vec<Warning>,
}

impl Errors {
    pub(super) fn new(mut errors: Vec<Error>, warnings: Vec<Warning>) -> Self {
        errors.sort_by_key(|error| error.place.line.unwrap_or(usize::MAX));
        if errors.len() > MOST_ERRORS {
            errors.truncate(MOST_ERRORS);
            let file = errors.first().map(|error| error.place.file.clone()).unwrap_or_default();
            errors.push(Error { place: Place { file, ..Place::default() }, problem: Problem::More });
        }
        Self { errors, warnings }
    }

    /// The errors.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.errors.iter()
    }

    /// What was odd besides: a misspelt key is often the reason for a missing one.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a Error;
    type IntoIter = std::slice::Iter<'a, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
