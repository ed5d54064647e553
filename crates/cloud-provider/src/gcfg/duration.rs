//! Durations as Go writes them: `30s`, `1h15m`, `1.5h`. Config files of Go programs are full of them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// A duration in Go's notation, with a sign and in whole nanoseconds, up to about 292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// A text that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {EXPECTED}")]
pub struct NotADuration;

const EXPECTED: &str = "a duration such as 300ms, 30s or 1h15m";

/// Units in nanoseconds, the largest first. Both Greek letters that look like a micro sign are in use.
const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ns", 1),
];

impl GoDuration {
    /// A duration of so many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The nanoseconds, with their sign.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The same as the standard library's duration, which has no sign: `None` below zero.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(NotADuration);
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (nanos, after) = component(rest).ok_or(NotADuration)?;
            total = total.checked_add(nanos).filter(|sum| *sum <= 1 << 63).ok_or(NotADuration)?;
            rest = after;
        }
        let signed = if negative { -i128::from(total) } else { i128::from(total) };
        i64::try_from(signed).map(Self).map_err(|_| NotADuration)
    }
}

/// One number with its unit, and what follows.
fn component(text: &str) -> Option<(u64, &str)> {
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(digits_end(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits_end(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(*scale)?.checked_add(fraction_of(fraction, *scale))?;
    (nanos <= 1 << 63).then_some((nanos, rest))
}

/// A decimal fraction of a unit. Go computes it in floating point and drops the digits that an integer of 64 bits
/// cannot hold; doing the same gives the same nanosecond.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go does"
)]
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut numerator, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let next = numerator.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= 1 << 63) else { break };
        numerator = next;
        scale *= 10.0;
    }
    (numerator as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        f.write_str(if self.0 < 0 { "-" } else { "" })?;
        let decimal = |f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str| {
            let width = unit.ilog10() as usize;
            let fraction = format!("{:0width$}", nanos % unit);
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            write!(f, "{}{point}{fraction}{name}", nanos / unit)
        };
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                decimal(f, nanos % 60_000_000_000, 1_000_000_000, "s")
            }
        }
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = GoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
                text.parse().map_err(|NotADuration| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("+0", 0)]
    #[case("5s", 5_000_000_000)]
    #[case("1h15m", 4_500_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case("-1.5s", -1_500_000_000)]
    #[case("300ms", 300_000_000)]
    #[case("1us", 1_000)]
    #[case("1µs", 1_000)]
    #[case("1μs", 1_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("0.100000000000000000000h", 360_000_000_000)]
    #[case("0.3333333333333333333h", 1_200_000_000_000)]
    #[case("0.000000000999999999999999999h", 3_600)]
    #[case("1.123456789012345678901234567s", 1_123_456_789)]
    #[case("2h3m4s5ms6us7ns", 7_384_005_006_007)]
    #[case("9223372036854775807ns", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    fn go_durations_are_understood(#[case] text: &str, #[case] nanos: i64) {
        assert_eq!(text.parse(), Ok(GoDuration::from_nanos(nanos)));
    }

    #[rstest]
    #[case("")]
    #[case("-")]
    #[case("30")]
    #[case("s")]
    #[case(".s")]
    #[case("1 s")]
    #[case("1d")]
    #[case("--1s")]
    #[case("9223372036854775808ns")]
    #[case("3000000h")]
    #[case("1h1")]
    fn other_texts_are_refused(#[case] text: &str) {
        assert_eq!(text.parse::<GoDuration>(), Err(NotADuration));
    }

    #[rstest]
    #[case(0, "0s")]
    #[case(1, "1ns")]
    #[case(1_100, "1.1µs")]
    #[case(2_200_000, "2.2ms")]
    #[case(-3_300_000_000, "-3.3s")]
    #[case(3_600_000_000_000, "1h0m0s")]
    #[case(245_001_000_000, "4m5.001s")]
    fn durations_are_printed_as_go_does(#[case] nanos: i64, #[case] text: &str) {
        assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
    }

    #[test]
    fn only_a_duration_without_sign_is_a_standard_one() {
        assert_eq!(GoDuration::from_nanos(1).to_std(), Some(Duration::from_nanos(1)));
        assert_eq!(GoDuration::from_nanos(-1).to_std(), None);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_understood(nanos: i64) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[-+.0-9hmsnuµ]{0,24}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
