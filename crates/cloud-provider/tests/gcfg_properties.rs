//! What holds for every cloud.conf, and for every file that is none.

use std::collections::BTreeMap;

use cloud_provider::gcfg::{self, Document};
use proptest::prelude::*;

type Untyped = BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>;

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
struct Config {
    global: Global,
    sub: BTreeMap<String, Global>,
}

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
struct Global {
    auth_url: String,
    flag: bool,
    port: Option<u16>,
    names: Vec<String>,
}

/// Bytes that the syntax cares about, so that random files reach its corners.
fn nearly_a_file() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "[",
            "]",
            "\"",
            "\\",
            "\n",
            "\r\n",
            "\r",
            "=",
            ";",
            "#",
            " ",
            "\t",
            "-",
            "_",
            ".",
            "\\\n",
            "\\\"",
            "\u{feff}",
            "[Global]\n",
            "[sub \"a\"]\n",
            "auth-url",
            "flag",
            "port = 1",
            "names = ",
            "é",
            "true",
            "\0",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..3),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A value that needs no quotes, or one that does.
fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9./:-]{1,12}", "[^\\x00\r]{0,12}"]
}

fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// The same letters in another case.
fn recased(name: &str, upper: &[bool]) -> String {
    let cased = |(n, c): (usize, char)| if upper[n % upper.len()] { c.to_ascii_uppercase() } else { c };
    name.chars().enumerate().map(cased).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Document::parse("f", &bytes);
        let _ = gcfg::read::<Config>("f", &bytes);
    }

    #[test]
    fn no_nearly_right_file_panics_and_errors_have_lines(bytes in nearly_a_file()) {
        let typed = gcfg::read::<Config>("f", &bytes);
        match Document::parse("f", &bytes) {
            Ok(document) => prop_assert!(document.read::<Untyped>().is_ok()),
            Err(errors) => {
                prop_assert!(typed.is_err());
                prop_assert!(errors.iter().all(|error| error.place.line.is_some()));
            }
        }
    }

    #[test]
    fn what_is_printed_parses_to_the_same(bytes in nearly_a_file()) {
        let Ok(document) = Document::parse("f", &bytes) else { return Ok(()) };
        let printed = document.print();
        let again = Document::parse("f", printed.as_bytes());
        prop_assert!(again.is_ok_and(|again| again.says_the_same_as(&document)), "{}", printed);
    }

    #[test]
    fn any_value_survives_quoting(value in value(), sub in "[^\\x00\n]{1,12}") {
        let header = quoted(&sub);
        let text = format!("[s {header}]\nk = {}\n", quoted(&value));
        let document = Document::parse("f", text.as_bytes()).unwrap();
        let setting = document.settings().next().unwrap();
        prop_assert_eq!(setting.subsection, Some(sub.as_str()));
        prop_assert_eq!(setting.entry.value.as_deref(), Some(value.as_str()));
        let printed = Document::parse("f", document.print().as_bytes()).unwrap();
        prop_assert!(printed.says_the_same_as(&document));
    }

    #[test]
    fn names_do_not_care_about_case(upper in prop::collection::vec(any::<bool>(), 1..12), port: u16) {
        let read = |global: &str, auth: &str, key: &str| {
            let text = format!("[{global}]\n{auth} = u\n{key} = {port}\n[{} \"a\"]\nflag\n", recased("sub", &upper));
            gcfg::read::<Config>("f", text.as_bytes()).unwrap()
        };
        let plain = read("global", "auth-url", "port");
        let other = read(&recased("global", &upper), &recased("authurl", &upper), &recased("port", &upper));
        prop_assert_eq!(plain.config.global.port, Some(port));
        prop_assert_eq!(&plain.config, &other.config);
        prop_assert!(plain.warnings.is_empty() && other.warnings.is_empty());
    }

    #[test]
    fn subsections_do_care_about_case(name in "[a-z]{1,8}") {
        let text = format!("[sub \"{name}\"]\nport=1\n[sub \"{}\"]\nport=2\n", name.to_uppercase());
        let config = gcfg::read::<Config>("f", text.as_bytes()).unwrap().config;
        prop_assert_eq!(config.sub.len(), 2);
        prop_assert_eq!(config.sub[&name].port, Some(1));
    }

    #[test]
    fn lists_keep_their_order_and_scalars_their_last(names in prop::collection::vec("[a-z]{1,4}", 1..20)) {
        let lines = names.iter().enumerate().map(|(n, name)| {
            // Every third name under a header of its own: sections of one name are one section.
            let header = if n % 3 == 0 { "[Global]\n" } else { "" };
            format!("{header}names = {name}\nauth-url = {name}\n")
        });
        let text: String = lines.collect();
        let loaded = gcfg::read::<Config>("f", text.as_bytes()).unwrap();
        prop_assert_eq!(&loaded.config.global.names, &names);
        prop_assert_eq!(Some(&loaded.config.global.auth_url), names.last());
        prop_assert_eq!(loaded.warnings.len(), names.len() - 1);
    }

    #[test]
    fn every_bad_value_is_reported(ports in prop::collection::vec(any::<i32>(), 1..20)) {
        let sections = ports.iter().enumerate().map(|(n, port)| format!("[sub \"{n}\"]\nport = {port}\n"));
        let text: String = sections.collect();
        let bad = ports.iter().filter(|port| u16::try_from(**port).is_err()).count();
        let found = gcfg::read::<Config>("f", text.as_bytes()).err().map_or(0, |errors| errors.iter().count());
        prop_assert_eq!(found, bad);
    }
}
