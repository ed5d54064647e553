//! Text to numbers and truth values, by the rules of Go's reader.

use std::{fmt::Display, marker::PhantomData};

use serde::{Deserializer, de};

/// What a truth value may be spelt as.
pub(super) const BOOL: &str = "true, yes, on, 1, false, no, off or 0";

/// The truth value that a text spells.
pub(super) fn bool_from(text: &str) -> Option<bool> {
    let is = |word: &&str| text.eq_ignore_ascii_case(word);
    if ["true", "yes", "on", "1"].iter().any(is) {
        Some(true)
    } else if ["false", "no", "off", "0"].iter().any(is) {
        Some(false)
    } else {
        None
    }
}

/// Whether a leading zero makes a number octal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadingZero {
    /// `010` is ten: what Go's reader does for its plain integers.
    Decimal,
    /// `010` is eight: what it does for file modes and fields marked `int=dho`.
    Octal,
}

/// The whole number that a text spells: decimal, `0x` hexadecimal, and octal where that is asked for.
pub(super) fn int_from(text: &str, leading_zero: LeadingZero) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = |prefix: [&str; 2]| prefix.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let magnitude = if let Some(digits) = prefixed(["0x", "0X"]) {
        grouped(digits, 16)
    } else if leading_zero == LeadingZero::Decimal {
        plain(digits, 10)
    } else if let Some(digits) = prefixed(["0o", "0O"]) {
        grouped(digits, 8)
    } else if let Some(digits) = prefixed(["0b", "0B"]) {
        grouped(digits, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        grouped(&digits[1..], 8)
    } else {
        grouped(&format!("_{digits}"), 10)
    }?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Digits with single underscores between them or before the first, as Go writes `0x_dead_beef`.
fn grouped(digits: &str, radix: u32) -> Option<i128> {
    let groups = digits.strip_prefix('_').unwrap_or(digits);
    if groups.split('_').any(str::is_empty) {
        return None;
    }
    plain(&groups.replace('_', ""), radix)
}

fn plain(digits: &str, radix: u32) -> Option<i128> {
    // The standard parser takes a sign, of which one was already taken.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok()
}

/// For `#[serde(deserialize_with = "gcfg::any_base")]`: a whole number in which a leading zero means octal, as file
/// modes are written (`int=dho` in Go's struct tags). Plain integer fields read `010` as ten.
pub fn any_base<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    deserializer.deserialize_str(AnyBase(PhantomData))
}

struct AnyBase<T>(PhantomData<T>);

impl<T: TryFrom<i128>> de::Visitor<'_> for AnyBase<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number in range, decimal, 0x hexadecimal or 0 octal")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let number = int_from(text, LeadingZero::Octal).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// What an integer field of this range takes.
pub(super) fn whole_number(least: impl Display, most: impl Display) -> String {
    format!("a whole number from {least} to {most}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", Some(0))]
    #[case("42", Some(42))]
    #[case("-7", Some(-7))]
    #[case("+7", Some(7))]
    #[case("010", Some(10))]
    #[case("0x10", Some(16))]
    #[case("-0x10", Some(-16))]
    #[case("0x_1_0", Some(16))]
    #[case(" 5 ", Some(5))]
    #[case("", None)]
    #[case("-", None)]
    #[case("--1", None)]
    #[case("+-1", None)]
    #[case("0x", None)]
    #[case("0x+1", None)]
    #[case("1_000", None)]
    #[case("1.0", None)]
    #[case("1e3", None)]
    #[case("5s", None)]
    #[case("999999999999999999999999999999999999999999", None)]
    fn plain_integers_are_decimal_or_hexadecimal(#[case] text: &str, #[case] expected: Option<i128>) {
        assert_eq!(int_from(text, LeadingZero::Decimal), expected);
    }

    #[rstest]
    #[case("0644", Some(0o644))]
    #[case("0o644", Some(0o644))]
    #[case("0b11", Some(3))]
    #[case("0", Some(0))]
    #[case("1_000", Some(1000))]
    #[case("089", None)]
    fn a_leading_zero_may_mean_octal(#[case] text: &str, #[case] expected: Option<i128>) {
        assert_eq!(int_from(text, LeadingZero::Octal), expected);
    }
}
