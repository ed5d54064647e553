//! A section as keys: a struct whose fields are known, or a map that takes any key.

use serde::de::{Deserializer, Visitor};

use super::{Cause, Fault, Line, Pair, Pairs, Pass, value::Value};
use crate::gcfg::{
    error::{Found, Place},
    name,
};

/// The keys of one section or subsection.
pub(super) struct Keys<'p, 'd> {
    pub(super) pass: &'p Pass<'d>,
    pub(super) place: Place,
    pub(super) lines: Vec<Line<'d>>,
}

impl<'p, 'd> Keys<'p, 'd> {
    /// The values under the names that `name_of` gives their keys, in the order of their first line.
    fn values(&self, name_of: impl Fn(&Line<'d>) -> Option<String>) -> Vec<Pair<Value<'p, 'd>>> {
        let mut named: Vec<(String, Vec<Line<'d>>)> = Vec::new();
        for line in &self.lines {
            let Some(name) = name_of(line).filter(|_| !self.pass.recovery.skips(line.entry.line)) else {
                continue;
            };
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, lines)) => lines.push(*line),
                None => named.push((name, vec![*line])),
            }
        }
        named.into_iter().map(|(key, lines)| self.pair(key, lines)).collect()
    }

    fn pair(&self, key: String, lines: Vec<Line<'d>>) -> Pair<Value<'p, 'd>> {
        let last = lines.last();
        let place = last.map_or_else(
            || Place { line: None, key: Some(key.clone()), ..self.place.clone() },
            |line| line.place(self.pass.document),
        );
        let found = last.map(Line::found);
        Pair { key, place, found, value: Value { pass: self.pass, lines } }
    }

    fn visit<'de, V: Visitor<'de>>(
        &self,
        pairs: Vec<Pair<Value<'p, 'd>>>,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mut pairs = Pairs::new(pairs.into_iter());
        visitor.visit_map(&mut pairs).map_err(|fault| fault.in_section(&self.place, pairs.last.as_ref()))
    }
}

impl<'de> Deserializer<'de> for Keys<'_, '_> {
    type Error = Fault;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mut values = self.values(|line| {
            let field = name::field_for(fields, &line.entry.key);
            if field.is_none() && !line.inherited {
                self.pass.warn_of_unknown(line.place(self.pass.document), fields);
            }
            field.map(str::to_owned)
        });
        for field in fields {
            let stands_in = self.pass.recovery.stands_in_for_key(&self.place, field);
            if stands_in && values.iter().all(|pair| pair.key != *field) {
                values.push(self.pair((*field).to_owned(), Vec::new()));
            }
        }
        self.visit(values, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let values = self.values(|line| Some(name::fold(&line.entry.key)));
        self.visit(values, visitor)
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
        Err(Fault::from(Cause::Unsupported("a subsection is a struct or a map of keys")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct enum identifier
    }
}

impl Line<'_> {
    /// The fault of a value that is not what the field takes.
    pub(super) fn refuse(&self, pass: &Pass<'_>, expected: impl Into<String>) -> Fault {
        let found: Found = self.found();
        Fault::from(Cause::Expected(expected.into())).at(&self.place(pass.document), Some(&found))
    }
}
