//! Truth as Go's `strconv.ParseBool` reads it.

/// The text is not one of the twelve forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid boolean {0:?}: expected one of 1, t, T, true, TRUE, True, 0, f, F, false, FALSE, False")]
pub struct BoolError(String);

/// A clap value parser for boolean flags.
///
/// An argument that uses it should also say `num_args(0..=1)`, `require_equals(true)` and
/// `default_missing_value("true")`, so that `--flag` means true and `--flag false` is refused, as in Go.
pub fn boolean(text: &str) -> Result<bool, BoolError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(BoolError(other.to_owned())),
    }
}
