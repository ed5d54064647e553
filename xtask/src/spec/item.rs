//! One behaviour: its ID, its title, and the list they stand in.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// Longer titles would be the text of the behaviour instead of its name.
const LONGEST_TITLE: usize = 60;

/// The name of a behaviour: a chapter in capitals and a number, as in `SVC-13`. IDs order by chapter, then by
/// number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    chapter: String,
    number: u16,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.chapter, self.number)
    }
}

/// The text is not an ID.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an item such as SVC-13")]
pub struct NotAnId(String);

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let refuse = || NotAnId(text.to_owned());
        let (chapter, number) = text.split_once('-').ok_or_else(refuse)?;
        if chapter.is_empty()
            || !chapter.bytes().all(|b| b.is_ascii_uppercase())
            || number.starts_with(['0', '+'])
        {
            return Err(refuse());
        }
        Ok(Self { chapter: chapter.to_owned(), number: number.parse().map_err(|_| refuse())? })
    }
}

/// One line of `spec/behaviour.tsv`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name that tests refer to.
    pub id: Id,
    /// What it is about, in a few words.
    pub title: String,
}

/// Reads the list. Within a chapter the numbers count up from one without a gap, so that a line lost in a
/// merge is noticed.
pub(super) fn read_list(text: &str) -> Result<Vec<Item>, Error> {
    let mut items: Vec<Item> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let refuse = |what: String| Error::List { line: index + 1, what };
        let (id, title) =
            line.split_once('\t').ok_or_else(|| refuse("no tab between ID and title".to_owned()))?;
        let id: Id = id.parse().map_err(|error: NotAnId| refuse(error.to_string()))?;
        let length = title.chars().count();
        if title.trim() != title || length == 0 || length > LONGEST_TITLE || title.contains(['\t', '|']) {
            return Err(refuse(format!("the title of {id} must be 1 to {LONGEST_TITLE} plain characters")));
        }
        let expected = items.iter().filter(|item| item.id.chapter == id.chapter).count() + 1;
        let starts_again = items.last().is_some_and(|last| last.id.chapter != id.chapter) && expected > 1;
        if usize::from(id.number) != expected || starts_again {
            return Err(refuse(format!("{id} is out of order, {}-{expected} is next", id.chapter)));
        }
        items.push(Item { id, title: title.to_owned() });
    }
    Ok(items)
}

/// `SVC-3` or `SVC-3..9`, both ends included.
pub(super) fn parse_range(text: &str) -> Option<Vec<Id>> {
    let (first, last) = match text.split_once("..") {
        None => (text.parse::<Id>().ok()?, None),
        Some((first, last)) => (first.parse::<Id>().ok()?, Some(last.parse::<u16>().ok()?)),
    };
    let last = last.unwrap_or(first.number);
    (first.number <= last)
        .then(|| (first.number..=last).map(|number| Id { chapter: first.chapter.clone(), number }).collect())
}
