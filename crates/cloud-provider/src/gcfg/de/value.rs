//! The values of one key: a list of all of them, or the last one as a scalar. Without lines it stands in for a
//! required key that is missing, so that the pass can go on and find what else is wrong.

use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};

use super::{Cause, Fault, Line, Pass};
use crate::gcfg::{
    name,
    text::{self, LeadingZero},
    warning::Oddity,
};

/// The lines that give one key.
pub(super) struct Value<'p, 'd> {
    pub(super) pass: &'p Pass<'d>,
    pub(super) lines: Vec<Line<'d>>,
}

impl<'d> Value<'_, 'd> {
    /// The line that holds for a key of one value: the last. Those before it are odd.
    fn last(&self) -> Option<Line<'d>> {
        let (last, overridden) = self.lines.split_last()?;
        for line in overridden.iter().filter(|line| !line.inherited) {
            let oddity = Oddity::Overridden { by: last.entry.line };
            self.pass.warn(line.place(self.pass.document), oddity);
        }
        Some(*last)
    }

    /// The last value converted; the stand-in's default for a key without lines.
    fn convert<T: Default>(&self, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Fault> {
        let Some(line) = self.last() else { return Ok(T::default()) };
        let value = line.entry.value.as_deref();
        value.and_then(read).ok_or_else(|| line.refuse(self.pass, expected))
    }

    /// The last value as it is; for a stand-in, what numbers and durations can be read from.
    fn text(&self) -> Result<String, Fault> {
        if self.lines.is_empty() {
            return Ok("0".to_owned());
        }
        self.convert("a value after '='", |text| Some(text.to_owned()))
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $int:ty),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let read = |text: &str| <$int>::try_from(text::int_from(text, LeadingZero::Decimal)?).ok();
            visitor.$visit(self.convert(&text::whole_number(<$int>::MIN, <$int>::MAX), read)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'_, '_> {
    type Error = Fault;

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let alone = self.lines.last().is_some_and(|line| line.entry.value.is_none());
        if alone {
            self.last();
            return visitor.visit_bool(true);
        }
        visitor.visit_bool(self.convert(text::BOOL, text::bool_from)?)
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64, deserialize_u128 visit_u128 u128,
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f32(self.convert("a number", |text| text.trim().parse().ok())?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.convert("a number", |text| text.trim().parse().ok())?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let only = |text: &str| Some(text.chars().next()?).filter(|c| c.len_utf8() == text.len());
        visitor.visit_char(self.convert("one character", only)?)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_byte_buf(self.text()?.into_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
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

    /// A key alone empties the list: what stood before it is forgotten.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let alone = self.lines.iter().rposition(|line| line.entry.value.is_none());
        let lines = self.lines[alone.map_or(0, |at| at + 1)..].iter();
        visitor.visit_seq(Elements { pass: self.pass, lines })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    /// A choice by name. Its spelling is as free as that of keys.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let text = self.text()?;
        let stand_in = variants.first().filter(|_| self.lines.is_empty()).copied();
        let variant = stand_in.or_else(|| name::field_for(variants, &text)).map_or(text, str::to_owned);
        visitor.visit_enum(variant.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::from(Cause::Unsupported("a key holds a value or a list of values")))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        v: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(v)
    }

    serde::forward_to_deserialize_any! { str string unit unit_struct identifier }
}

/// The values of a list, one line each.
struct Elements<'p, 'd, I> {
    pass: &'p Pass<'d>,
    lines: I,
}

impl<'de, 'd: 'l, 'l, I: Iterator<Item = &'l Line<'d>>> SeqAccess<'de> for Elements<'_, 'd, I> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(line) = self.lines.next() else { return Ok(None) };
        let element = Value { pass: self.pass, lines: vec![*line] };
        let placed = |fault: Fault| fault.at(&line.place(self.pass.document), Some(&line.found()));
        seed.deserialize(element).map(Some).map_err(placed)
    }
}
