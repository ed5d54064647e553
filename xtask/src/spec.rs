//! The list of upstream behaviours that this project answers for (`spec/behaviour.tsv`), the areas they are
//! worked on in (`spec/areas.toml`) and the departures we chose (`spec/differences.toml`).
//!
//! The files are read strictly: an unreadable one is an error. Whether they agree with each other is for
//! [`crate::coverage`] to say.

pub mod item;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Deserialize;

pub use item::{Id, Item};

/// Why the files of `spec/` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line of the list is not an ID, a tab and a short title in order.
    #[error("spec/behaviour.tsv line {line}: {what}")]
    List {
        /// The line, counted from one.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The areas are not TOML of the expected shape.
    #[error("decoding spec/areas.toml")]
    Areas(#[source] toml::de::Error),
    /// The differences are not TOML of the expected shape.
    #[error("decoding spec/differences.toml")]
    Differences(#[source] toml::de::Error),
    /// A list of items holds something that is neither an ID nor a range.
    #[error("spec/{file}: `{text}` is neither an item (SVC-3) nor a range of items (SVC-3..9)")]
    Range {
        /// The file that holds it.
        file: &'static str,
        /// What stands there.
        text: String,
    },
}

/// Everything that `spec/` says.
#[derive(Debug)]
pub struct Spec {
    /// The behaviours, in the order of the list.
    pub items: Vec<Item>,
    /// The areas, in the order of the file.
    pub areas: Vec<Area>,
    /// The differences, in the order of the file.
    pub differences: Vec<Difference>,
}

/// A part of the behaviours that is worked on, and finished, together.
#[derive(Debug)]
pub struct Area {
    /// Its heading on the page.
    pub name: String,
    /// The behaviours that belong to it.
    pub items: Vec<Id>,
    /// How far it is.
    pub status: Status,
}

/// How far an area is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Each behaviour has a test or a documented difference, and must keep it.
    Finished,
    /// Gaps are expected.
    Open,
}

/// A behaviour that we chose to have otherwise.
#[derive(Debug)]
pub struct Difference {
    /// The behaviours that differ.
    pub items: Vec<Id>,
    /// What the Go implementation does.
    pub upstream: String,
    /// What Nephos does.
    pub ours: String,
    /// Why that is better for its users.
    pub why: String,
}

impl Spec {
    /// Reads the three files.
    pub fn read(list: &str, areas: &str, differences: &str) -> Result<Self, Error> {
        let areas: AreasFile = toml::from_str(areas).map_err(Error::Areas)?;
        let differences: DifferencesFile = toml::from_str(differences).map_err(Error::Differences)?;
        let areas = areas.area.into_iter().map(|area| {
            let items = expand("areas.toml", &area.items)?;
            Ok(Area { name: area.name, items, status: area.status })
        });
        let differences = differences.difference.into_iter().map(|d| {
            let items = expand("differences.toml", &d.items)?;
            Ok(Difference { items, upstream: d.upstream, ours: d.ours, why: d.why })
        });
        Ok(Self {
            items: item::read_list(list)?,
            areas: areas.collect::<Result<_, _>>()?,
            differences: differences.collect::<Result<_, _>>()?,
        })
    }

    /// The IDs of all behaviours.
    pub fn ids(&self) -> BTreeSet<&Id> {
        self.items.iter().map(|item| &item.id).collect()
    }
}

fn expand(file: &'static str, texts: &[String]) -> Result<Vec<Id>, Error> {
    let mut ids = Vec::new();
    for text in texts {
        ids.extend(item::parse_range(text).ok_or_else(|| Error::Range { file, text: text.clone() })?);
    }
    Ok(ids)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AreasFile {
    area: Vec<AreaEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AreaEntry {
    name: String,
    items: Vec<String>,
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DifferencesFile {
    #[serde(default)]
    difference: Vec<DifferenceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DifferenceEntry {
    items: Vec<String>,
    upstream: String,
    ours: String,
    why: String,
}
