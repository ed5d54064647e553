//! Any bytes: parsing and typed reading never panic; a document that parses prints to one that says the same, and
//! printing is then a fixed point. Start it with the sample files as seeds:
//! `cargo +nightly fuzz run gcfg fuzz/corpus/gcfg crates/cloud-provider/tests/testdata/gcfg`.

#![no_main]

use std::collections::BTreeMap;

use cloud_provider::gcfg::{self, Document, GoDuration};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

/// One field of every kind, under names short enough for a fuzzer to find.
#[derive(Deserialize, Default)]
#[serde(default)]
#[allow(dead_code)]
struct Config {
    a: Option<Required>,
    b: BTreeMap<String, Plain>,
    default_b: Plain,
    global: Plain,
}

#[derive(Deserialize, Default)]
#[serde(default)]
#[allow(dead_code)]
struct Plain {
    b: bool,
    i: i32,
    u: Option<u64>,
    f: f64,
    d: GoDuration,
    l: Vec<i8>,
    s: String,
    e: Choice,
    #[serde(deserialize_with = "gcfg::any_base")]
    m: u32,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Required {
    s: String,
    d: GoDuration,
    e: Choice,
}

#[derive(Deserialize, Default)]
enum Choice {
    #[default]
    X,
    Y,
}

fuzz_target!(|bytes: &[u8]| {
    let typed = gcfg::read::<Config>("fuzz.conf", bytes);
    if let Err(errors) = &typed {
        assert!(errors.iter().count() > 0 && !errors.to_string().is_empty());
    }
    match Document::parse("fuzz.conf", bytes) {
        Err(errors) => {
            assert!(errors.iter().all(|error| error.place.line.is_some() || errors.iter().count() > 100));
            assert!(typed.is_err(), "syntax errors are errors of reading, too");
        }
        Ok(document) => {
            let printed = document.print();
            let again = Document::parse("printed.conf", printed.as_bytes()).expect("what is printed parses");
            assert!(again.says_the_same_as(&document));
            assert_eq!(again.print(), printed);
            let untyped = document.read::<BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>>();
            assert!(untyped.is_ok(), "lists of texts under any name take every document");
        }
    }
});
