//! A file as it was written: sections in order, keys in order, values as text. It knows nothing of types, and keeps
//! neither comments nor layout.

use std::fmt;

use super::{
    error::{Errors, Place},
    name, parse,
};

/// A parsed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    file: String,
    sections: Vec<Section>,
}

/// A header and the keys under it. The same header may come again: it is then another `Section` here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name, as written; compare it without regard to case.
    pub name: String,
    /// The quoted part of the header, unescaped; it is case-sensitive and never empty.
    pub subsection: Option<String>,
    /// The line of the header, counted from one.
    pub line: usize,
    /// The keys in the order of the file.
    pub entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, as written; compare it without regard to case.
    pub key: String,
    /// The value without quotes and escapes; `None` for a key that stands alone, `Some("")` for `key =`.
    pub value: Option<String>,
    /// The line of the key, counted from one.
    pub line: usize,
}

/// An entry together with the header that it stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'d> {
    /// The name of the section.
    pub section: &'d str,
    /// The subsection, if the header names one.
    pub subsection: Option<&'d str>,
    /// The entry itself.
    pub entry: &'d Entry,
}

impl Document {
    /// Parses a file. The name is used in messages only; all syntax errors are found at once.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Errors> {
        let (document, errors) = parse::parse(file, bytes);
        if errors.is_empty() { Ok(document) } else { Err(Errors::new(errors, Vec::new())) }
    }

    pub(super) fn new(file: &str, sections: Vec<Section>) -> Self {
        Self { file: file.to_owned(), sections }
    }

    /// The name of the file, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The sections in the order of the file.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Every key of every section, in the order of the file.
    pub fn settings(&self) -> impl Iterator<Item = Setting<'_>> {
        self.sections.iter().flat_map(|section| {
            section.entries.iter().map(|entry| Setting {
                section: &section.name,
                subsection: section.subsection.as_deref(),
                entry,
            })
        })
    }

    /// Whether both say the same, wherever the lines stand.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let headers = |document: &Self| -> Vec<(String, Option<String>, usize)> {
            let sections = document.sections.iter();
            sections.map(|s| (s.name.clone(), s.subsection.clone(), s.entries.len())).collect()
        };
        let same =
            |(a, b): (Setting<'_>, Setting<'_>)| a.entry.key == b.entry.key && a.entry.value == b.entry.value;
        headers(self) == headers(other) && self.settings().zip(other.settings()).all(same)
    }

    /// The document as text that parses to the same document, here and by Go's parser. Secrets are printed too,
    /// which is why this is not `Display`.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&header(section));
            for entry in &section.entries {
                text.push_str(&line(entry));
            }
        }
        text
    }

    /// The place of a header.
    pub(super) fn place_of(&self, section: &Section) -> Place {
        Place {
            file: self.file.clone(),
            line: Some(section.line),
            section: Some(section.name.clone()),
            subsection: section.subsection.clone(),
            key: None,
        }
    }
}

fn header(section: &Section) -> String {
    match &section.subsection {
        None => format!("[{}]\n", section.name),
        Some(subsection) => {
            let escaped = subsection.replace('\\', "\\\\").replace('"', "\\\"");
            format!("[{} \"{escaped}\"]\n", section.name)
        }
    }
}

fn line(entry: &Entry) -> String {
    let Some(value) = &entry.value else { return format!("{}\n", entry.key) };
    let plain = |c: char| c.is_alphanumeric() || "-_./:,+*@%".contains(c);
    if value.chars().all(plain) {
        return format!("{} = {value}\n", entry.key);
    }
    let mut quoted = String::new();
    for c in value.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // A backspace goes as it is: Go's parser does not know its escape.
            other => quoted.push(other),
        }
    }
    format!("{} = \"{quoted}\"\n", entry.key)
}

/// Shows no value whose key looks secret.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Entry");
        shown.field("key", &self.key);
        if name::looks_secret(&self.key) && self.value.is_some() {
            shown.field("value", &"(not shown)");
        } else {
            shown.field("value", &self.value);
        }
        shown.field("line", &self.line).finish()
    }
}
