//! The fields of spans and events, in the order in which they were recorded.

use std::fmt;

use tracing::field::{Field, Visit};

/// A value as tracing hands it over.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Everything one line may carry beside its header.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    /// The verbosity that the event states; the level implies one otherwise.
    pub(super) verbosity: Option<u64>,
    pub(super) pairs: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Takes over the fields of an enclosing span.
    pub(super) fn extend(&mut self, other: &Self) {
        for (name, value) in &other.pairs {
            self.set(name, value.clone());
        }
    }

    /// The innermost value of a name wins and keeps the outermost place.
    fn set(&mut self, name: &'static str, value: Value) {
        // klog and component-base call it `err`.
        let name = if name == "error" { "err" } else { name };
        match self.pairs.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.set(name, Value::Text(format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.set(name, Value::Text(value.to_owned())),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), Value::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            "v" => self.verbosity = Some(u64::try_from(value).unwrap_or(0)),
            name => self.set(name, Value::Signed(value)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "v" => self.verbosity = Some(value),
            name => self.set(name, Value::Unsigned(value)),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field.name(), Value::Text(super::report(value).to_string()));
    }
}
