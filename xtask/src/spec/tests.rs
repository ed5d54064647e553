use rstest::rstest;

use super::{Error, Id, Spec, Status, item};

const AREAS: &str = "[[area]]\nname = 'a'\nitems = ['SVC-1..2', 'RT-1']\nstatus = 'open'\n";

#[test]
fn the_three_files_are_read() {
    let differences = "[[difference]]\nitems = ['RT-1']\nupstream = 'u'\nours = 'o'\nwhy = 'w'\n";
    let spec = Spec::read("RT-1\tone\nSVC-1\ttwo\nSVC-2\tthree\n", AREAS, differences).unwrap();
    assert_eq!(spec.items[2].title, "three");
    let ids: Vec<String> = spec.areas[0].items.iter().map(ToString::to_string).collect();
    assert_eq!(ids, ["SVC-1", "SVC-2", "RT-1"]);
    assert_eq!(spec.areas[0].status, Status::Open);
    assert_eq!(spec.differences[0].ours, "o");
}

#[rstest]
#[case::no_tab("RT-1 one", 1)]
#[case::no_id("RT-1\tone\nrt-2\ttwo", 2)]
#[case::padded_number("RT-01\tone", 1)]
#[case::a_gap("RT-1\tone\nRT-3\tthree", 2)]
#[case::a_duplicate("RT-1\tone\nRT-1\tone", 2)]
#[case::a_chapter_in_two_places("RT-1\tone\nSVC-1\ttwo\nRT-2\tthree", 3)]
#[case::no_title("RT-1\t", 1)]
#[case::a_title_that_breaks_the_table("RT-1\ta | b", 1)]
#[case::a_title_that_is_the_text("RT-1\t1234567890123456789012345678901234567890123456789012345678901", 1)]
fn a_broken_list_is_refused_with_its_line(#[case] list: &str, #[case] expected: usize) {
    let error = Spec::read(list, AREAS, "").unwrap_err();
    assert!(matches!(error, Error::List { line, .. } if line == expected), "{error}");
}

#[rstest]
#[case::status("[[area]]\nname = 'a'\nitems = []\nstatus = 'done'", "")]
#[case::unknown_key("[[area]]\nname = 'a'\nitems = []\nstatus = 'open'\nnote = ''", "")]
#[case::backwards("[[area]]\nname = 'a'\nitems = ['SVC-2..1']\nstatus = 'open'", "")]
#[case::no_number("[[area]]\nname = 'a'\nitems = ['SVC']\nstatus = 'open'", "")]
#[case::no_reason(AREAS, "[[difference]]\nitems = ['SVC-1']\nupstream = 'u'\nours = 'o'")]
fn a_broken_file_beside_the_list_is_refused(#[case] areas: &str, #[case] differences: &str) {
    assert!(Spec::read("SVC-1\tone", areas, differences).is_err());
}

#[test]
fn ids_order_by_number_within_a_chapter() {
    let mut ids: Vec<Id> = ["SVC-10", "SVC-9", "RT-11"].map(|id| id.parse().unwrap()).to_vec();
    ids.sort();
    assert_eq!(ids.iter().map(ToString::to_string).collect::<Vec<_>>(), ["RT-11", "SVC-9", "SVC-10"]);
}

#[test]
fn a_range_includes_both_ends() {
    let ids = item::parse_range("SVC-3..5").unwrap();
    assert_eq!(ids.iter().map(ToString::to_string).collect::<Vec<_>>(), ["SVC-3", "SVC-4", "SVC-5"]);
}
