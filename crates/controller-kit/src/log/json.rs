//! component-base's JSON: `ts` (milliseconds), `caller`, `msg`, `v` (absent on errors), then the fields.

use serde_json::{Map, Value as Json};
use tracing::Level;

use super::Line;
use super::fields::Value;
use super::verbosity::implied_by;

/// One line, with its end.
pub(super) fn format(line: &Line<'_>) -> String {
    let mut object = Map::new();
    let nanoseconds = line.time.as_nanosecond();
    // Milliseconds with microseconds behind the point: what a double holds of a date in this century.
    #[expect(
        clippy::cast_precision_loss,
        reason = "51 bits of microseconds fit a double until the year 2255"
    )]
    let milliseconds = (nanoseconds / 1000) as f64 / 1000.0;
    object.insert("ts".into(), milliseconds.into());
    object.insert("caller".into(), line.caller.to_string().into());
    object.insert("msg".into(), line.fields.message.clone().into());
    if line.level != Level::ERROR {
        let verbosity = line.fields.verbosity.unwrap_or_else(|| implied_by(line.level).into());
        object.insert("v".into(), verbosity.into());
    }
    // component-base has no key for it; without one a warning could not be told from a remark.
    if line.level == Level::WARN {
        object.insert("severity".into(), "warning".into());
    }
    for (name, value) in &line.fields.pairs {
        object.insert((*name).to_owned(), json(value));
    }
    let mut out = Json::Object(object).to_string();
    out.push('\n');
    out
}

fn json(value: &Value) -> Json {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Signed(value) => (*value).into(),
        Value::Unsigned(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(value) => value.clone().into(),
    }
}
