//! Durations as Go's `time.ParseDuration` reads and `Duration.String` prints them: `15s`, `1m0s`, `1.5h`, `0s`.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A duration on the command line or in a configuration file; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(Duration);

/// Why a duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a sequence of numbers with units.
    #[error("invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not know.
    #[error("unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// What was typed.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// Below zero; no flag of ours means anything then.
    #[error("duration {0:?} is negative")]
    Negative(String),
}

impl GoDuration {
    /// Wraps a duration.
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The duration itself.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl Deref for GoDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut nanoseconds: u64 = 0;
        while !rest.is_empty() {
            let (part, remaining) = take_part(text, rest)?;
            nanoseconds = nanoseconds.checked_add(part).ok_or_else(invalid)?;
            rest = remaining;
        }
        // Go keeps nanoseconds in an int64; what does not fit there is refused there too.
        if i64::try_from(nanoseconds).is_err() {
            return Err(invalid());
        }
        if negative && nanoseconds > 0 {
            return Err(DurationError::Negative(text.to_owned()));
        }
        Ok(Self(Duration::from_nanos(nanoseconds)))
    }
}

/// Reads one `<number><unit>` from the head of `rest`; answers nanoseconds and what is left.
fn take_part<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let number_end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(invalid());
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let scale = match unit {
        "" => return Err(DurationError::MissingUnit(text.to_owned())),
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return Err(DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() }),
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let nanoseconds = whole.checked_mul(scale).ok_or_else(invalid)?;
    let total = nanoseconds.checked_add(fraction_of(fraction, scale)).ok_or_else(invalid)?;
    Ok((total, rest))
}

/// `0.<digits>` of a unit in nanoseconds, cut towards zero as Go does.
fn fraction_of(digits: &str, scale: u64) -> u64 {
    let mut total: u128 = 0;
    let mut weight: u128 = 1;
    // Eighteen digits are more than a nanosecond can show of an hour.
    for digit in digits.bytes().take(18) {
        total = total * 10 + u128::from(digit - b'0');
        weight *= 10;
    }
    u64::try_from(total * u128::from(scale) / weight).unwrap_or(u64::MAX)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(nanoseconds, 1_000)),
            1_000_000..SECOND => write!(f, "{}ms", decimal(nanoseconds, 1_000_000)),
            _ => {
                let (hours, minutes) = (nanoseconds / (3600 * SECOND), nanoseconds / (60 * SECOND) % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(nanoseconds % (60 * SECOND), SECOND))
            }
        }
    }
}

/// `value / unit` with as many decimals as it needs; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(unit.ilog10()).unwrap_or(0);
    format!("{whole}.{}", format!("{fraction:0width$}").trim_end_matches('0'))
}
