//! Each way in which a claim can fail must be seen to fail.

use super::{Pages, Problem, survey};
use crate::spec::Spec;

const LIST: &str = "RT-1\tfirst thing\nRT-2\tsecond thing\n";

fn area(status: &str) -> String {
    format!("[[area]]\nname = 'runtime'\nitems = ['RT-1..2']\nstatus = '{status}'\n")
}

fn difference(items: &str, why: &str) -> String {
    format!("[[difference]]\nitems = [{items}]\nupstream = 'waits'\nours = 'does not\nwait | ever'\nwhy = '{why}'\n")
        .replace("'does not\nwait | ever'", "'''does not\nwait | ever'''")
}

/// One source with a test for each of the claims.
fn tests_for(claims: &[&str]) -> String {
    let mark = "Proves:";
    let tests =
        claims.iter().enumerate().map(|(n, claim)| format!("/// {mark} {claim}\n#[test]\nfn t{n}() {{}}\n"));
    tests.collect::<Vec<_>>().concat()
}

fn run(areas: &str, differences: &str, source: &str) -> (Pages, Vec<String>) {
    let spec = Spec::read(LIST, areas, differences).unwrap();
    let (pages, problems) = survey(&spec, &[("crates/x/src/a.rs".to_owned(), source.to_owned())]);
    (pages, problems.iter().map(Problem::to_string).collect())
}

#[test]
fn a_finished_area_with_a_test_or_a_difference_for_each_item_passes() {
    let (pages, problems) = run(&area("finished"), &difference("'RT-2'", "faster"), &tests_for(&["RT-1"]));
    assert_eq!(problems, [""; 0]);
    assert_eq!(pages.summary, "2 items: 1 proved, 1 different, 0 open");
    let expected = "| RT-1 | first thing | [crates/x/src/a.rs](../../crates/x/src/a.rs): `t0` |\n\
                    | RT-2 | second thing | [difference](differences.md) |\n";
    assert!(pages.coverage.ends_with(expected), "{}", pages.coverage);
    assert!(pages.coverage.contains("| runtime | finished | 2 | 1 | 1 | 0 |"), "{}", pages.coverage);
    assert!(
        pages.differences.ends_with("| RT-2 | waits | does not wait \\| ever | faster |\n"),
        "{}",
        pages.differences
    );
}

#[test]
fn a_gap_in_a_finished_area_fails_and_in_an_open_one_does_not() {
    let (_, problems) = run(&area("finished"), "", &tests_for(&["RT-1"]));
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("RT-2 (second thing) belongs to the finished area `runtime`"),
        "{problems:?}"
    );
    let (pages, problems) = run(&area("open"), "", &tests_for(&["RT-1"]));
    assert_eq!(problems, [""; 0]);
    assert!(pages.coverage.ends_with("| RT-2 | second thing | *open* |\n"));
}

#[test]
fn a_test_that_runs_on_request_only_does_not_finish_an_item() {
    let source = tests_for(&["RT-1, RT-2"]).replace("#[test]", "#[test]\n#[ignore]");
    let (pages, problems) = run(&area("finished"), "", &source);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(pages.coverage.contains("`t0` *(on request)*"), "{}", pages.coverage);
}

#[test]
fn a_claim_of_an_unknown_item_fails() {
    for claim in ["RT-3", "RT-1.", "RT-1..2", ""] {
        let (_, problems) = run(&area("open"), "", &tests_for(&[claim]));
        let expected = format!("crates/x/src/a.rs:1: the test `t0` proves `{claim}`, which is no item");
        assert!(problems[0].starts_with(&expected), "{problems:?}");
    }
}

#[test]
fn a_claim_without_a_test_fails() {
    let (_, problems) = run(&area("open"), "", &tests_for(&["RT-1"]).replace("#[test]", ""));
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("crates/x/src/a.rs:1") && problems[0].contains("not followed by a test"),
        "{problems:?}"
    );
}

#[test]
fn areas_and_differences_must_name_known_items() {
    let areas = area("open").replace("RT-1..2", "RT-1..3");
    let (_, problems) = run(&areas, &difference("'RT-4'", "faster"), "");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("spec/areas.toml names RT-3"), "{problems:?}");
    assert!(problems[1].starts_with("spec/differences.toml names RT-4"), "{problems:?}");
}

#[test]
fn each_item_belongs_to_one_area() {
    let (_, problems) = run(&area("open").replace("RT-1..2", "RT-1"), "", "");
    assert_eq!(problems, ["RT-2 belongs to 0 areas of spec/areas.toml instead of one"]);
    let (_, problems) = run(&format!("{}{}", area("open"), area("open").replace("RT-1..2", "RT-2")), "", "");
    assert_eq!(problems, ["RT-2 belongs to 2 areas of spec/areas.toml instead of one"]);
}

#[test]
fn a_difference_explains_itself() {
    let (_, problems) = run(&area("open"), &difference("'RT-1'", " "), "");
    assert_eq!(problems, ["the difference of spec/differences.toml for RT-1 leaves `why` empty"]);
    let (_, problems) = run(&area("open"), &difference("", "faster"), "");
    assert!(problems[0].contains("no item at all leaves `items` empty"), "{problems:?}");
}

#[test]
fn a_new_proof_changes_the_page() {
    let (before, _) = run(&area("open"), "", "");
    let (after, _) = run(&area("open"), "", &tests_for(&["RT-2"]));
    assert_ne!(before.coverage, after.coverage);
}

#[test]
fn the_tests_of_an_item_stand_in_a_stable_order_and_once() {
    let spec = Spec::read(LIST, &area("open"), "").unwrap();
    let a = ("crates/a.rs".to_owned(), tests_for(&["RT-1, RT-1"]));
    let b = ("crates/b.rs".to_owned(), tests_for(&["RT-1"]));
    let (one, _) = survey(&spec, &[a.clone(), b.clone()]);
    let (other, _) = survey(&spec, &[b, a]);
    assert_eq!(one.coverage, other.coverage);
    assert_eq!(one.coverage.matches("crates/a.rs): `t0`").count(), 1);
}
