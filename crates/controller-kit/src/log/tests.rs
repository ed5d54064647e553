//! The layer is run in a subscriber of its own, and its lines are read back.

use std::io;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tracing::{debug, error, info, trace, warn};

use super::*;
use crate::clock::WallClock;

struct Frozen;

impl WallClock for Frozen {
    fn now(&self) -> Timestamp {
        "2026-11-15T00:12:01.1234569Z".parse().unwrap()
    }
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `events` writes, and the handle with which it may change the verbosity.
fn written(options: &Options, events: impl FnOnce(&Page, &Handle)) -> String {
    let page = Page::default();
    let writer = page.clone();
    let (layer, handle) = layer(options, Arc::new(Frozen), move || writer.clone()).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || events(&page, &handle));
    page.take()
}

fn at(verbosity: u8) -> Options {
    Options { verbosity, ..Options::default() }
}

fn messages(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split('"').nth(1).unwrap()).collect()
}

#[test]
fn a_text_line_is_klogs() {
    let line = line!() + 3;
    let text = written(&at(2), |_, _| {
        let _span = tracing::info_span!("sync", controller = "cloud-node", key = "n0").entered();
        info!(v = 2, key = "n1", retries = 3, ready = true, "Initialised \"node\"\nfake");
    });
    let expected = format!(
        "I1115 00:12:01.123456 {:>7} tests.rs:{line}] \"Initialised \\\"node\\\"\\nfake\" \
         controller=\"cloud-node\" key=\"n1\" retries=3 ready=true\n",
        std::process::id()
    );
    assert_eq!(text, expected);
}

#[test]
fn severity_is_the_first_letter() {
    let text = written(&at(0), |_, _| {
        info!("a");
        warn!("b");
        error!("c");
    });
    let letters: String = text.lines().map(|line| line.chars().next().unwrap()).collect();
    assert_eq!(letters, "IWE");
}

#[test]
fn a_json_line_has_component_bases_keys() {
    let line = line!() + 3;
    let options = Options { format: Format::Json, verbosity: 4, ..Options::default() };
    let text = written(&options, |_, _| {
        debug!(v = 4, node = %"n1", n = -1, "Seen");
        let failure = io::Error::other("boom");
        error!(error = &failure as &dyn Error, "Failed");
    });
    let (first, second) = text.trim_end().split_once('\n').unwrap();
    let keys = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    assert_eq!(
        keys(first),
        serde_json::json!({
            "ts": 1_794_701_521_123.456, "caller": format!("tests.rs:{line}"), "msg": "Seen", "v": 4,
            "node": "n1", "n": -1,
        })
    );
    assert!(first.starts_with(r#"{"ts":1794701521123.456,"#) || first.contains(r#""ts":1794701521123.456"#));
    let second = keys(second);
    assert_eq!((second["msg"].as_str(), second["err"].as_str()), (Some("Failed"), Some("boom")));
    assert!(second.get("v").is_none(), "errors have no verbosity");
}

#[test]
fn the_verbosity_chooses_levels_and_numbers() {
    let events = || {
        error!("error");
        info!("v0");
        info!(v = 2, "v2");
        info!(v = 3, "v3");
        debug!("v4");
        debug!(v = 5, "v5");
        trace!("v6");
        trace!(v = 10, "v10");
    };
    let shown = |verbosity| messages(&written(&at(verbosity), |_, _| events())).join(" ");
    assert_eq!(shown(0), "error v0");
    assert_eq!(shown(2), "error v0 v2");
    assert_eq!(shown(4), "error v0 v2 v3 v4");
    assert_eq!(shown(5), "error v0 v2 v3 v4 v5");
    assert_eq!(shown(6), "error v0 v2 v3 v4 v5 v6");
    assert_eq!(shown(10), "error v0 v2 v3 v4 v5 v6 v10");
}

#[test]
fn vmodule_raises_single_files() {
    let events = |_: &Page, _: &Handle| {
        debug!("here");
        info!(v = 3, "here too");
    };
    let shown = |vmodule: &str| {
        let options = Options { vmodule: vmodule.to_owned(), ..Options::default() };
        messages(&written(&options, events)).len()
    };
    assert_eq!(shown(""), 0);
    assert_eq!(shown("tests=4"), 2);
    assert_eq!(shown("te?t*=3"), 1);
    assert_eq!(shown("other=9,*/log/tests=4"), 2);
    assert_eq!(shown("log/tests=4"), 0, "with a slash the whole path must match");
    assert!(Verbosity::new(0, "tests").is_err());
    assert!(Verbosity::new(0, "tests=high").is_err());
}

#[test]
fn the_handle_changes_the_verbosity_while_running() {
    let text = written(&at(0), |page, handle| {
        let speak = |what| debug!("{what}");
        speak("before");
        handle.set_verbosity(4);
        speak("during");
        assert_eq!(handle.verbosity(), 4);
        assert_eq!(messages(&page.take()), ["during"]);
        handle.set_verbosity(0);
        handle.set_vmodule("tests=4").unwrap();
        speak("by module");
        assert!(handle.set_vmodule("nonsense").is_err());
        speak("still");
        handle.set_vmodule("").unwrap();
        speak("after");
    });
    assert_eq!(messages(&text), ["by module", "still"]);
}

#[test]
fn libraries_are_quiet_and_bodies_are_never_written() {
    let events = |_: &Page, _: &Handle| {
        info!(target: "hyper::client", "info");
        debug!(target: "hyper::client", "debug");
        warn!(target: "hyper::client", "warn");
        warn!(target: "kube_client::client", "a whole response body");
        trace!(target: "kube_client::client::builder", "a header");
        debug!(target: "hyperspace", "ours");
    };
    assert_eq!(messages(&written(&at(0), events)), ["warn"]);
    assert_eq!(messages(&written(&at(4), events)), ["info", "warn", "ours"]);
    assert_eq!(messages(&written(&at(10), events)), ["info", "debug", "warn", "ours"]);
}

#[test]
fn characters_that_could_mislead_a_reader_are_escaped() {
    let text = written(&at(0), |_, _| info!(name = "a\u{1b}[31m\u{202e}b\u{7f}é", "x"));
    assert!(text.ends_with("name=\"a\\x1b[31m\\u202eb\\x7fé\"\n"), "{text}");
}

#[test]
fn a_secret_shows_itself_nowhere() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Credentials {
        user: String,
        password: Secret,
    }
    let credentials: Credentials = serde_json::from_str(r#"{"user":"u","password":"canary-7"}"#).unwrap();
    assert_eq!(credentials.password.expose(), "canary-7");
    let text = written(&at(10), |_, _| {
        info!(?credentials, password = %credentials.password, "Read");
    });
    let everywhere = format!("{text}{credentials:#?}{}", serde_json::to_string(&credentials).unwrap());
    assert!(!everywhere.contains("canary"), "{everywhere}");
    assert_eq!(everywhere.matches("[redacted]").count(), 4);
}

#[test]
fn a_report_names_each_cause_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("writing the status")]
    struct Outer(#[source] Middle);
    #[derive(Debug, thiserror::Error)]
    #[error("service error: {0}")]
    struct Middle(#[source] io::Error);
    let error = Outer(Middle(io::Error::other("connection refused")));
    assert_eq!(report(&error).to_string(), "writing the status: service error: connection refused");
}

#[test]
fn a_report_does_not_quote_what_could_not_be_decoded() {
    let decoder = serde_json::from_str::<u8>(r#""canary""#).unwrap_err();
    let text = report(&kube::Error::SerdeError(decoder)).to_string();
    assert_eq!(text, "decoding the answer of the API server: unexpected JSON at line 1 column 8");
}
