//! Values into fields: every kind of field, every kind of error, every kind of warning.

use std::collections::BTreeMap;

use cloud_provider::gcfg::{self, Document, GoDuration, Oddity};
use rstest::rstest;
use serde::Deserialize;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Config {
    global: Global,
    class: BTreeMap<String, Class>,
    default_class: Class,
    extra: Option<Class>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Global {
    text: String,
    maybe: Option<String>,
    flag: bool,
    small: i8,
    port: u16,
    long: u64,
    signed: i64,
    ratio: f64,
    letter: char,
    wait: GoDuration,
    kind: Kind,
    names: Vec<String>,
    maybe_names: Option<Vec<String>>,
    numbers: Vec<i32>,
    flags: Vec<bool>,
    #[serde(deserialize_with = "gcfg::any_base")]
    mode: u32,
    api_token: u16,
    #[serde(alias = "old-name")]
    new_name: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    RoundRobin,
    SourceIp,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Class {
    subnet: String,
    tags: Vec<String>,
}

fn global(lines: &str) -> Global {
    let text = format!("[Global]\n{lines}\n");
    gcfg::read::<Config>("f", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}")).config.global
}

#[rstest]
#[case::text("text = a b", Global { text: "a b".into(), ..Global::default() })]
#[case::empty_text("text =", Global::default())]
#[case::given_text("maybe = x", Global { maybe: Some("x".into()), ..Global::default() })]
#[case::given_empty_text("maybe =", Global { maybe: Some(String::new()), ..Global::default() })]
#[case::flag_alone("flag", Global { flag: true, ..Global::default() })]
#[case::flag_true("flag = tRuE", Global { flag: true, ..Global::default() })]
#[case::flag_yes("flag = yes", Global { flag: true, ..Global::default() })]
#[case::flag_on("flag = \"on\"", Global { flag: true, ..Global::default() })]
#[case::flag_one("flag = 1", Global { flag: true, ..Global::default() })]
#[case::flag_false("flag\nflag = false", Global::default())]
#[case::flag_no("flag\nflag = NO", Global::default())]
#[case::flag_off("flag\nflag = off", Global::default())]
#[case::flag_zero("flag\nflag = 0", Global::default())]
#[case::small("small = -128", Global { small: -128, ..Global::default() })]
#[case::zero_padded("port = 0443", Global { port: 443, ..Global::default() })]
#[case::hexadecimal("port = 0x1F", Global { port: 31, ..Global::default() })]
#[case::quoted_number("port = \" 443 \"", Global { port: 443, ..Global::default() })]
#[case::largest("long = 18446744073709551615", Global { long: u64::MAX, ..Global::default() })]
#[case::smallest("signed = -9223372036854775808", Global { signed: i64::MIN, ..Global::default() })]
#[case::ratio("ratio = 2.5e-1", Global { ratio: 0.25, ..Global::default() })]
#[case::letter("letter = é", Global { letter: 'é', ..Global::default() })]
#[case::duration("wait = 1m30s", Global { wait: GoDuration::from_nanos(90_000_000_000), ..Global::default() })]
#[case::choice("kind = source-ip", Global { kind: Kind::SourceIp, ..Global::default() })]
#[case::choice_spelt_freely("kind = SOURCE_IP", Global { kind: Kind::SourceIp, ..Global::default() })]
#[case::list_of_one("names = a", Global { names: vec!["a".into()], ..Global::default() })]
#[case::list("names = a\nNames = b\nNAMES = a", Global { names: vec!["a".into(), "b".into(), "a".into()], ..Global::default() })]
#[case::list_emptied("names = a\nnames\nnames = b", Global { names: vec!["b".into()], ..Global::default() })]
#[case::list_left_empty("maybe-names = a\nmaybe-names", Global { maybe_names: Some(vec![]), ..Global::default() })]
#[case::numbers("numbers = 1\nnumbers = 0x10\nnumbers = -010", Global { numbers: vec![1, 16, -10], ..Global::default() })]
#[case::flags("flags = on\nflags = 0", Global { flags: vec![true, false], ..Global::default() })]
#[case::octal_mode("mode = 0644", Global { mode: 0o644, ..Global::default() })]
#[case::last_one_counts("text = a\ntext = b", Global { text: "b".into(), ..Global::default() })]
#[case::hyphens_left_out("maybenames = a", Global { maybe_names: Some(vec!["a".into()]), ..Global::default() })]
#[case::camel_case("NewName = a", Global { new_name: "a".into(), ..Global::default() })]
#[case::alias("old-name = a", Global { new_name: "a".into(), ..Global::default() })]
#[case::section_again("text = a\n[other]\ntext = b\n[GLOBAL]\nport = 1", Global { text: "a".into(), port: 1, ..Global::default() })]
fn fields(#[case] lines: &str, #[case] expected: Global) {
    assert_eq!(global(lines), expected);
}

#[rstest]
#[case("text", "text: expected a value after '=', found no value")]
#[case("port", "port: expected a whole number from 0 to 65535, found no value")]
#[case("flag = maybe", r#"flag: expected true, yes, on, 1, false, no, off or 0, found "maybe""#)]
#[case("flag =", r#"flag: expected true, yes, on, 1, false, no, off or 0, found """#)]
#[case("port = 65536", r#"port: expected a whole number from 0 to 65535, found "65536""#)]
#[case("port = -1", r#"port: expected a whole number from 0 to 65535, found "-1""#)]
#[case("port =", r#"port: expected a whole number from 0 to 65535, found """#)]
#[case("Small = 1.5", r#"Small: expected a whole number from -128 to 127, found "1.5""#)]
#[case("ratio = half", r#"ratio: expected a number, found "half""#)]
#[case("letter = ab", r#"letter: expected one character, found "ab""#)]
#[case("wait = 30", r#"wait: expected a duration such as 300ms, 30s or 1h15m, found "30""#)]
#[case("kind = random", r#"kind: expected one of round-robin, source-ip, found "random""#)]
#[case(
    "mode = 0888",
    r#"mode: expected a whole number in range, decimal, 0x hexadecimal or 0 octal, found "0888""#
)]
#[case(
    "api-token = hunter2",
    "api-token: expected a whole number from 0 to 65535, found something else (not shown)"
)]
#[case(
    "port = https://user:pw@host",
    "port: expected a whole number from 0 to 65535, found something else (not shown)"
)]
#[case("new-name = a\nold-name = b", "old-name: given under two names")]
fn refused(#[case] lines: &str, #[case] message: &str) {
    let text = format!("[Global]\n{lines}\n");
    let line = 1 + lines.lines().count();
    let errors = gcfg::read::<Config>("f", text.as_bytes()).unwrap_err();
    assert_eq!(errors.to_string(), format!("f:{line}: [Global] {message}"));
}

#[test]
fn long_values_are_cut_and_control_characters_escaped_in_messages() {
    let text = format!("[Global]\nport = \"\\n\u{1b}[31m{}\"\n", "x".repeat(500));
    let message = gcfg::read::<Config>("f", text.as_bytes()).unwrap_err().to_string();
    assert!(message.len() < 150 && !message.contains('\u{1b}') && !message.contains('\n'), "{message}");
}

#[test]
fn errors_of_syntax_and_of_values_come_together_in_the_order_of_lines() {
    let text = b"[Global]\nflag = maybe\nports 1\nnumbers = 1\nnumbers = x\nnumbers = 3\nnumbers = y\nport = 1\nport = z\n";
    let errors = gcfg::read::<Config>("f", text).unwrap_err();
    let lines: Vec<Option<usize>> = errors.iter().map(|error| error.place.line).collect();
    assert_eq!(lines, [Some(2), Some(3), Some(5), Some(7), Some(9)]);
}

#[derive(Debug, Deserialize)]
struct Strict {
    #[serde(rename = "global")]
    _global: StrictGlobal,
    #[serde(rename = "centre")]
    _centre: BTreeMap<String, StrictGlobal>,
    #[serde(rename = "labels")]
    _labels: StrictGlobal,
    #[serde(rename = "nodes")]
    _nodes: StrictGlobal,
}

#[derive(Debug, Deserialize)]
struct StrictGlobal {
    #[serde(rename = "user")]
    _user: String,
    #[serde(rename = "wait-for")]
    _wait: GoDuration,
    #[serde(rename = "port")]
    _port: u16,
    #[serde(rename = "kind")]
    _kind: Kind,
}

#[test]
fn a_required_key_that_nothing_can_stand_in_for_hides_no_error_of_another_section() {
    #[derive(Debug, Deserialize)]
    struct Nets {
        #[serde(rename = "nodes")]
        _nodes: Net,
        #[serde(rename = "zone")]
        _zone: BTreeMap<String, Net>,
    }
    #[derive(Debug, Deserialize)]
    struct Net {
        #[serde(rename = "subnet")]
        _subnet: ipnet::IpNet,
    }
    let text = b"[nodes]\n[zone \"a\"]\n[zone \"b\"]\nsubnet = 10.0.0.0/8\n[zone \"c\"]\nsubnet = no\n";
    let errors = gcfg::read::<Nets>("f", text).unwrap_err();
    let lines: Vec<Option<usize>> = errors.iter().map(|error| error.place.line).collect();
    assert_eq!(lines, [Some(1), Some(2), Some(6)], "{errors}");
}

#[test]
fn everything_that_is_missing_is_named_at_once() {
    let text = b"[Global]\nprot = 1\n[Centre \"a\"]\nuser = x\nwait-for = soon\nport = 1\nkind = source-ip\n\
        [centre \"b\"]\nport = z\nkind = source-ip\n";
    let errors = gcfg::read::<Strict>("f", text).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "f:1: [Global] user: required, and not given",
            "f:1: [Global] wait-for: required, and not given",
            "f:1: [Global] port: required, and not given",
            "f:1: [Global] kind: required, and not given",
            "f:5: [Centre \"a\"] wait-for: expected a duration such as 300ms, 30s or 1h15m, found \"soon\"",
            "f:8: [centre \"b\"] user: required, and not given",
            "f:8: [centre \"b\"] wait-for: required, and not given",
            "f:9: [centre \"b\"] port: expected a whole number from 0 to 65535, found \"z\"",
            "f: [labels]: required, and not given",
            "f: [nodes]: required, and not given",
        ]
    );
    let warnings: Vec<String> = errors.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings, [r#"f:2: [Global] prot: unknown key, ignored; did you mean "port"?"#]);
}

#[rstest]
#[case("[Global]\ntxt = a", r#"f:2: [Global] txt: unknown key, ignored; did you mean "text"?"#)]
#[case(
    "[Global]\nMaybeNmaes = a",
    r#"f:2: [Global] MaybeNmaes: unknown key, ignored; did you mean "maybe-names"?"#
)]
#[case("[Global]\npor-t = z", r#"f:2: [Global] por-t: unknown key, ignored; did you mean "port"?"#)]
#[case("[Glo-bal]\nport = z", r#"f:1: [Glo-bal]: unknown section, ignored; did you mean "global"?"#)]
#[case("[Global]\nnothing-like-it", "f:2: [Global] nothing-like-it: unknown key, ignored")]
#[case("[Golbal]\ntext = a", r#"f:1: [Golbal]: unknown section, ignored; did you mean "global"?"#)]
#[case("[BlockStorage]\nbs-version = v3", "f:1: [BlockStorage]: unknown section, ignored")]
#[case("[Global \"x\"]\ntext = a", "f:1: [Global \"x\"]: this section has no subsections, ignored")]
#[case("[class \"x\"]\nsubnt = a", r#"f:2: [class "x"] subnt: unknown key, ignored; did you mean "subnet"?"#)]
#[case("[Global]\ntext = a\n\ntext = b", "f:2: [Global] text: ignored, because line 4 gives it again")]
fn warned(#[case] text: &str, #[case] message: &str) {
    let loaded = gcfg::read::<Config>("f", text.as_bytes()).unwrap();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, [message]);
}

#[test]
fn what_is_ignored_is_really_ignored() {
    let loaded =
        gcfg::read::<Config>("f", b"[Golbal]\ntext = a\n[Global \"x\"]\nport = z\n[Global]\ntxt = b\n")
            .unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings.len(), 3);
}

#[test]
fn a_pasted_secret_does_not_reach_a_warning_in_full() {
    let pasted = "A".repeat(64);
    let loaded = gcfg::read::<Config>("f", format!("[Global]\n{pasted}\n").as_bytes()).unwrap();
    assert!(matches!(loaded.warnings[0].oddity, Oddity::UnknownKey { suggestion: None }));
    assert!(!loaded.warnings[0].to_string().contains(&pasted));
}

#[test]
fn subsections_are_a_map_in_which_a_plain_header_is_the_empty_name() {
    let text =
        b"[class]\nsubnet = plain\n[Class \"A\"]\nsubnet = a\n[CLASS \"a\"]\n[class \"A\"]\ntags = t\n";
    let config = gcfg::read::<Config>("f", text).unwrap().config;
    assert_eq!(config.class.keys().collect::<Vec<_>>(), ["", "A", "a"]);
    assert_eq!(config.class[""].subnet, "plain");
    assert_eq!(config.class["A"], Class { subnet: "a".into(), tags: vec!["t".into()] });
    assert_eq!(config.class["a"], Class::default());
}

#[test]
fn subsections_start_from_their_section_of_defaults() {
    let text = b"[class \"a\"]\ntags = own\n[class \"b\"]\nsubnet = b\n[default-class]\nsubnet = d\ntags = all\nodd = 1\n";
    let loaded = gcfg::read::<Config>("f", text).unwrap();
    let class = &loaded.config.class;
    assert_eq!(class["a"], Class { subnet: "d".into(), tags: vec!["all".into(), "own".into()] });
    assert_eq!(class["b"], Class { subnet: "b".into(), tags: vec!["all".into()] });
    assert_eq!(loaded.config.default_class, Class { subnet: "d".into(), tags: vec!["all".into()] });
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["f:8: [default-class] odd: unknown key, ignored"]);
}

#[test]
fn an_optional_section_is_there_when_its_header_is() {
    assert_eq!(gcfg::read::<Config>("f", b"").unwrap().config.extra, None);
    assert_eq!(gcfg::read::<Config>("f", b"[extra]").unwrap().config.extra, Some(Class::default()));
}

#[test]
fn a_types_own_refusal_is_shown_unless_the_key_is_a_secrets() {
    #[derive(Debug, Deserialize)]
    struct Nets {
        #[serde(rename = "global")]
        _global: BTreeMap<String, BTreeMap<String, ipnet::IpNet>>,
    }
    let errors =
        gcfg::read::<Nets>("f", b"[global]\nsubnet = 10.0.0.0/99\nsecret-net = hunter2\n").unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("f:2: [global] subnet: "), "{lines:?}");
    assert!(
        lines[1].starts_with("f:3: [global] secret-net: expected ") && !lines[1].contains("hunter2"),
        "{lines:?}"
    );
}

#[test]
fn a_struct_of_the_wrong_shape_is_an_error_and_no_panic() {
    #[derive(Debug, Deserialize)]
    struct Wrong {
        #[serde(rename = "global")]
        _global: String,
    }
    let errors = gcfg::read::<Wrong>("f", b"[Global]\nx = 1\n").unwrap_err();
    assert_eq!(
        errors.to_string(),
        "f:1: [Global]: cannot be read into this type: a section is a struct of keys or a map of subsections"
    );
}

#[test]
fn a_parsed_document_can_be_read_later() {
    let document = Document::parse("f", b"[Global]\nport = 7\n").unwrap();
    assert_eq!(document.read::<Config>().unwrap().config.global.port, 7);
    assert!(document.read::<Strict>().is_err());
}
