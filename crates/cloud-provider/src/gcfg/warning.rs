//! What is odd in a file and stops nobody: Go's readers ignore it, so existing files have it. A warning is data; who
//! reads the file decides where to show it.

use super::error::Place;

/// One odd thing, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {oddity}")]
pub struct Warning {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub oddity: Oddity,
}

/// What is odd at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Oddity {
    /// Nobody reads a section of this name.
    #[error("unknown section, ignored{}", did_you_mean(suggestion.as_deref()))]
    UnknownSection {
        /// The section that was probably meant.
        suggestion: Option<String>,
    },
    /// The section exists, but not in parts.
    #[error("this section has no subsections, ignored")]
    UnknownSubsection,
    /// Nobody reads a key of this name in this section.
    #[error("unknown key, ignored{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// The key takes one value and is given again further down.
    #[error("ignored, because line {by} gives it again")]
    Overridden {
        /// The line whose value holds.
        by: usize,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}
