//! Document to struct: a serde deserializer in three storeys. This file is the upper two, a document as sections and
//! a section as its subsections; `keys` is a section as keys, `value` the values of one key.

use std::cell::RefCell;

use serde::de::{Deserializer, Visitor, value::StringDeserializer};

use super::{
    document::{Document, Entry, Section},
    error::{Found, Place},
    name,
    recovery::Recovery,
    warning::Oddity,
};

mod fault;
mod keys;
mod notes;
mod pairs;
mod value;

pub(super) use fault::{Cause, Fault};
use keys::Keys;
use notes::Notes;
use pairs::{Pair, Pairs};

/// What all storeys share during one pass over a document.
pub(super) struct Pass<'d> {
    pub(super) document: &'d Document,
    /// What earlier passes found wrong, and this one steps around.
    pub(super) recovery: &'d Recovery,
    notes: RefCell<Notes>,
}

impl<'d> Pass<'d> {
    pub(super) fn new(document: &'d Document, recovery: &'d Recovery) -> Self {
        Self { document, recovery, notes: RefCell::default() }
    }

    /// What this pass found odd.
    pub(super) fn into_notes(self) -> Notes {
        self.notes.into_inner()
    }

    fn warn(&self, place: Place, oddity: Oddity) {
        self.notes.borrow_mut().add(place, oddity);
    }

    fn warn_of_unknown(&self, place: Place, known: &'static [&'static str]) {
        self.notes.borrow_mut().add_unknown(place, known);
    }
}

/// One line of a file as a section sees it.
#[derive(Clone, Copy)]
struct Line<'d> {
    section: &'d Section,
    entry: &'d Entry,
    /// It stands in the section of defaults, which already said what is odd about it.
    inherited: bool,
}

impl Line<'_> {
    fn place(&self, document: &Document) -> Place {
        let mut place = document.place_of(self.section);
        place.line = Some(self.entry.line);
        place.key = Some(self.entry.key.clone());
        place
    }

    fn found(&self) -> Found {
        Found::new(&self.entry.key, self.entry.value.as_deref())
    }
}

fn lines_of<'d>(sections: &[&'d Section], inherited: bool) -> Vec<Line<'d>> {
    let of =
        |section: &'d Section| section.entries.iter().map(move |entry| Line { section, entry, inherited });
    sections.iter().copied().flat_map(of).collect()
}

/// A document as a map from section names to sections.
pub(super) struct Root<'p, 'd>(pub(super) &'p Pass<'d>);

impl<'p, 'd> Root<'p, 'd> {
    /// The sections under the names that `name_of` gives them, in the order of their first header.
    fn groups(&self, name_of: impl Fn(&'d Section) -> Option<String>) -> Vec<Group<'p, 'd>> {
        let mut groups: Vec<Group<'p, 'd>> = Vec::new();
        for section in self.0.document.sections() {
            let Some(name) = name_of(section) else { continue };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.sections.push(section),
                None => {
                    groups.push(Group { pass: self.0, name, sections: vec![section], defaults: Vec::new() });
                }
            }
        }
        groups
    }

    fn visit<'de, V: Visitor<'de>>(self, groups: Vec<Group<'p, 'd>>, visitor: V) -> Result<V::Value, Fault> {
        let pairs = groups.into_iter().map(|group| {
            let place = group.place();
            Pair { key: group.name.clone(), place, found: None, value: group }
        });
        let file = self.0.document.file();
        visitor.visit_map(&mut Pairs::new(pairs)).map_err(|fault| fault.in_file(file))
    }
}

impl<'de> Deserializer<'de> for Root<'_, '_> {
    type Error = Fault;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let pass = self.0;
        let mut groups = self.groups(|section| {
            let field = name::field_for(fields, &section.name);
            if field.is_none() {
                pass.warn_of_unknown(pass.document.place_of(section), fields);
            }
            field.map(str::to_owned)
        });
        for field in fields.iter().filter(|field| pass.recovery.stands_in_for_section(field)) {
            if groups.iter().all(|group| group.name != **field) {
                let name = (*field).to_owned();
                groups.push(Group { pass, name, sections: Vec::new(), defaults: Vec::new() });
            }
        }
        // `default-x` holds what every subsection of `x` starts from.
        let defaults: Vec<_> =
            groups.iter().map(|group| (group.name.clone(), group.sections.clone())).collect();
        for group in &mut groups {
            let wanted = name::squash(&format!("default-{}", group.name));
            let found = defaults.iter().find(|(name, _)| name::squash(name) == wanted);
            group.defaults = found.map(|(_, sections)| sections.clone()).unwrap_or_default();
        }
        groups.retain(|group| !pass.recovery.drops(&group.place()));
        self.visit(groups, visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let groups = self.groups(|section| Some(name::fold(&section.name)));
        self.visit(groups, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// All sections of one name: a struct of keys, or a map of subsections.
struct Group<'p, 'd> {
    pass: &'p Pass<'d>,
    name: String,
    sections: Vec<&'d Section>,
    defaults: Vec<&'d Section>,
}

impl<'p, 'd> Group<'p, 'd> {
    /// The first header, or the name alone for a section that is missing.
    fn place(&self) -> Place {
        let document = self.pass.document;
        match self.sections.first() {
            Some(section) => Place { subsection: None, ..document.place_of(section) },
            None => Place {
                file: document.file().to_owned(),
                section: Some(self.name.clone()),
                ..Place::default()
            },
        }
    }

    /// The keys, when the section is a struct.
    fn plain(self) -> Keys<'p, 'd> {
        let place = self.place();
        let (plain, divided): (Vec<_>, Vec<_>) = self.sections.iter().partition(|s| s.subsection.is_none());
        for section in divided {
            self.pass.warn(self.pass.document.place_of(section), Oddity::UnknownSubsection);
        }
        Keys { pass: self.pass, place, lines: lines_of(&plain, false) }
    }

    /// The keys under each subsection, when the section is a map. Without a quoted name it is the empty one.
    fn subsections(self) -> Vec<Pair<Keys<'p, 'd>>> {
        let mut parts: Vec<(&str, Vec<&'d Section>)> = Vec::new();
        for section in self.sections {
            let name = section.subsection.as_deref().unwrap_or_default();
            match parts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sections)) => sections.push(section),
                None => parts.push((name, vec![section])),
            }
        }
        let (pass, defaults) = (self.pass, self.defaults);
        let pairs = parts.into_iter().filter_map(|(name, sections)| {
            let place = pass.document.place_of(sections.first()?);
            let mut lines = lines_of(&defaults, true);
            lines.extend(lines_of(&sections, false));
            let keys = Keys { pass, place: place.clone(), lines };
            Some(Pair { key: name.to_owned(), place, found: None, value: keys })
        });
        pairs.filter(|pair| !pass.recovery.drops(&pair.place)).collect()
    }
}

impl<'de> Deserializer<'de> for Group<'_, '_> {
    type Error = Fault;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.plain().deserialize_struct(name, fields, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(&mut Pairs::new(self.subsections().into_iter()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::from(Cause::Unsupported("a section is a struct of keys or a map of subsections")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct enum identifier
    }
}

/// The key of a pair, as serde wants it.
fn key_deserializer(key: String) -> StringDeserializer<Fault> {
    serde::de::IntoDeserializer::into_deserializer(key)
}
