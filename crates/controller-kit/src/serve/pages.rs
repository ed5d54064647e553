//! The pages for people: what runs here, with which flags, and how much it logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use super::answer::{self, Answer};
use crate::log::Handle;

const FOR_PEOPLE: &str =
    "Warning: this page is for people. Its form may change at any time; programs read /metrics.";

/// What `/statusz` shows.
pub(super) struct Status<'a> {
    pub(super) component: &'a str,
    pub(super) version: &'a str,
    pub(super) started: Timestamp,
    pub(super) up: Duration,
    pub(super) verbosity: Option<u8>,
}

pub(super) fn status(status: &Status<'_>) -> Answer {
    let seconds = status.up.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("\n{} statusz\n{FOR_PEOPLE}\n\n", status.component);
    let _ = writeln!(text, "Started: {}", status.started.strftime("%a %b %e %H:%M:%S UTC %Y"));
    let _ = writeln!(text, "Up: {hours} hr {minutes:02} min {:02} sec", seconds % 60);
    let _ = writeln!(text, "Binary version: {}", status.version);
    if let Some(verbosity) = status.verbosity {
        let _ = writeln!(text, "Log verbosity: {verbosity}");
    }
    let _ = writeln!(text, "Paths: /configz /flagz /healthz /livez /metrics /metrics/slis /readyz");
    answer::text(StatusCode::OK, text)
}

pub(super) fn flags(component: &str, flags: &BTreeMap<String, String>) -> Answer {
    let mut text = format!("\n{component} flagz\n{FOR_PEOPLE}\n\n");
    for (name, value) in flags {
        let _ = writeln!(text, "{name}={value}");
    }
    answer::text(StatusCode::OK, text)
}

/// `PUT /debug/flags/v` with the new verbosity as its body.
pub(super) fn set_verbosity(log: &Handle, body: &Bytes) -> Answer {
    let text = String::from_utf8_lossy(body);
    match text.trim().parse() {
        Ok(verbosity) => {
            log.set_verbosity(verbosity);
            tracing::info!(verbosity, "Log verbosity changed");
            answer::text(StatusCode::OK, format!("successfully set log verbosity to {verbosity}\n"))
        }
        Err(_) => answer::text(StatusCode::BAD_REQUEST, "the log verbosity must be a number from 0 to 255\n"),
    }
}
