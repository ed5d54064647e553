//! klog's structured text: `I1115 00:12:01.123456       1 node.rs:42] "Initialised" node="n1" v=…`.

use std::fmt::Write as _;

use tracing::Level;

use super::Line;
use super::fields::Value;

/// One line, with its end. Whatever the values hold, it stays one line: nobody can forge a second one.
pub(super) fn format(line: &Line<'_>) -> String {
    let severity = match line.level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let time = line.time.strftime("%m%d %H:%M:%S%.6f");
    let mut out = format!("{severity}{time} {:>7} {}] ", line.process, line.caller);
    quote(&mut out, &line.fields.message);
    for (name, value) in &line.fields.pairs {
        let _ = write!(out, " {name}=");
        match value {
            Value::Bool(value) => drop(write!(out, "{value}")),
            Value::Signed(value) => drop(write!(out, "{value}")),
            Value::Unsigned(value) => drop(write!(out, "{value}")),
            Value::Float(value) => drop(write!(out, "{value}")),
            Value::Text(value) => quote(&mut out, value),
        }
    }
    out.push('\n');
    out
}

/// Go's `%q`: quoted, with everything escaped that a terminal or a reader could take for something else.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c if c.is_control() || is_invisible(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Characters that have no width or turn the direction of what follows.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
