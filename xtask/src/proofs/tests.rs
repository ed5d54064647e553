//! Every form in which tests are written must be found, and nothing else.

use super::{Proof, Scan, scan};

/// Written with `@` for the mark, so that these texts are no claims to anyone who searches for it.
fn found(source: &str) -> Scan {
    scan("a.rs", &source.replace('@', "Proves:"))
}

fn only_proof(source: &str) -> Proof {
    let scan = found(source);
    assert_eq!(scan.strays, []);
    assert_eq!(scan.proofs.len(), 1, "{source}");
    scan.proofs[0].clone()
}

fn only_stray(source: &str) -> (usize, &'static str) {
    let scan = found(source);
    assert_eq!(scan.proofs, []);
    assert_eq!(scan.strays.len(), 1, "{source}");
    (scan.strays[0].line, scan.strays[0].why)
}

#[test]
fn a_plain_test_is_found_with_its_items_and_line() {
    let proof = only_proof("mod tests {\n    /// @ SVC-1, SVC-2\n    #[test]\n    fn it_works() {}\n}\n");
    let expected = Proof {
        file: "a.rs".into(),
        test: "it_works".into(),
        line: 2,
        claims: vec!["SVC-1".into(), "SVC-2".into()],
        ignored: false,
    };
    assert_eq!(proof, expected);
}

#[test]
fn asynchronous_and_parametrised_tests_are_found_whatever_the_order_of_their_attributes() {
    for source in [
        "/// @ SVC-1\n#[tokio::test(start_paused = true)]\nasync fn t() {}",
        "/// @ SVC-1\n#[rstest]\n#[case(1)]\n#[case(\n  2\n)]\nfn t(#[case] n: u8) {}",
        "#[rstest]\n/// @ SVC-1\n#[case(1)]\nfn t(#[case] n: u8) {}",
        "#[test]\n#[should_panic(expected = \"fn x\")]\n/// @ SVC-1\npub(crate) fn t() {}",
        "/// What it is about.\n///\n/// @ SVC-1\n///\n/// And why.\n#[test]\nfn t() {}",
        "/**\n * Why.\n * @ SVC-1\n */\n#[test]\nfn t() {}",
        "/// @ SVC-1\n// an aside\n\n#[test]\nfn t() {}",
    ] {
        let proof = only_proof(source);
        assert_eq!(
            (proof.test.as_str(), proof.claims.as_slice()),
            ("t", &["SVC-1".to_owned()][..]),
            "{source}"
        );
    }
}

#[test]
fn tests_inside_a_macro_are_found() {
    let source =
        "proptest! {\n    /// @ SVC-1\n    #[test]\n    fn holds(n in 0..9u8) { assert!(n < 9); }\n}";
    let proof = only_proof(source);
    assert_eq!((proof.test.as_str(), proof.line), ("holds", 2));
}

#[test]
fn several_lines_of_claims_add_up() {
    assert_eq!(only_proof("/// @ SVC-1,\n/// @ SVC-2\n#[test]\nfn t() {}").claims, ["SVC-1", "SVC-2"]);
}

#[test]
fn a_claim_of_nothing_is_kept_so_that_it_can_be_refused() {
    assert_eq!(only_proof("/// @\n#[test]\nfn t() {}").claims, [""]);
}

#[test]
fn a_test_that_only_runs_on_request_is_marked() {
    assert!(only_proof("/// @ SVC-1\n#[test]\n#[ignore = \"soak\"]\nfn t() {}").ignored);
}

#[test]
fn a_claim_above_anything_but_a_test_is_a_stray() {
    for source in [
        "/// @ SVC-1\nfn helper() {}",
        "/// @ SVC-1\n#[cfg(test)]\nmod tests { #[test] fn t() {} }",
        "/// @ SVC-1\nstruct X;\n#[test]\nfn t() {}",
        "//! @ SVC-1\n#[test]\nfn t() {}",
        "/// @ SVC-1\n",
    ] {
        assert_eq!(only_stray(source), (1, "it is not followed by a test function"), "{source}");
    }
}

#[test]
fn a_claim_in_an_ordinary_comment_is_a_stray() {
    let (line, why) = only_stray("\n    // @ SVC-1\n#[test]\nfn t() {}");
    assert_eq!(line, 2);
    assert!(why.contains("///"));
}

#[test]
fn words_in_a_text_are_no_claim() {
    assert_eq!(found("const X: &str = \"/// @ SVC-1\";\nconst Y: &str = r#\"@ SVC-1\"#;"), Scan::default());
}

#[test]
fn a_file_that_is_not_rust_is_reported() {
    assert_eq!(only_stray("fn x( {").0, 0);
}
