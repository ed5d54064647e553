//! `A=true,B=false` maps such as `--feature-gates`: each pair is one clap value, the last of equal keys wins.

use std::collections::BTreeMap;

/// Why a pair of a map flag was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// There is no `=`.
    #[error("malformed pair {0:?}: expected key=value")]
    Malformed(String),
    /// The value is of another type.
    #[error("invalid value for {key:?}: {why}")]
    Value {
        /// The key of the pair.
        key: String,
        /// What the value's parser said.
        why: String,
    },
}

/// A clap value parser for one `key=value` pair; use it with `value_delimiter(',')` and `ArgAction::Append`.
/// Spaces around key and value are ignored.
pub fn assignment<V, E: std::fmt::Display>(
    value: impl Fn(&str) -> Result<V, E> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<(String, V), AssignmentError> + Clone + Send + Sync + 'static {
    move |pair| {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(AssignmentError::Malformed(pair.to_owned()));
        };
        let key = key.trim().to_owned();
        match value(text.trim()) {
            Ok(value) => Ok((key, value)),
            Err(error) => Err(AssignmentError::Value { key, why: error.to_string() }),
        }
    }
}

/// All pairs that were given, in the order of the command line, as one map.
pub fn merged<V>(pairs: impl IntoIterator<Item = (String, V)>) -> BTreeMap<String, V> {
    pairs.into_iter().collect()
}
