//! The syntax of cloud.conf, case by case: what is accepted with which values, and what is refused on which line.

use cloud_provider::gcfg::{Document, Problem};
use rstest::rstest;

/// A document as short text: `section/sub.key=value`, a key alone without `=`, a header that holds nothing as it is.
fn outline(document: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    for section in document.sections() {
        let sub = section.subsection.as_ref().map_or_else(String::new, |sub| format!("/{sub}"));
        let header = format!("{}{sub}", section.name);
        if section.entries.is_empty() {
            lines.push(header.clone());
        }
        for entry in &section.entries {
            let value = entry.value.as_ref().map_or_else(String::new, |value| format!("={value}"));
            lines.push(format!("{header}.{}{value}", entry.key));
        }
    }
    lines
}

fn parse(text: &[u8]) -> Document {
    Document::parse("cloud.conf", text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[rstest]
#[case::nothing("", &[])]
#[case::only_blanks(" \t\r\n\n  ", &[])]
#[case::only_comments("; one\n# two\n   ; three", &[])]
#[case::empty_section("[Global]", &["Global"])]
#[case::one_key("[Global]\nregion=eu", &["Global.region=eu"])]
#[case::blanks_around("  [ Global ]  \n\tregion \t = \t eu \t \n", &["Global.region=eu"])]
#[case::hyphens("[load-balancer]\nlb-method=x", &["load-balancer.lb-method=x"])]
#[case::hyphen_at_the_end("[a]\nx--=1", &["a.x--=1"])]
#[case::digits_in_names("[zone1]\nkey2=v", &["zone1.key2=v"])]
#[case::letters_of_the_world("[甲]\n乙=丙", &["甲.乙=丙"])]
#[case::case_is_kept("[GLOBAL]\nAuthURL=x", &["GLOBAL.AuthURL=x"])]
#[case::repeated_section("[a]\nx=1\n[b]\n[a]\nx=2", &["a.x=1", "b", "a.x=2"])]
#[case::repeated_key("[a]\nx=1\nx=2", &["a.x=1", "a.x=2"])]
#[case::key_alone("[a]\nflag", &["a.flag"])]
#[case::key_alone_with_comment("[a]\nflag ; yes\nother# no blank\n", &["a.flag", "a.other"])]
#[case::key_without_text("[a]\nx=\ny =   \n", &["a.x=", "a.y="])]
#[case::key_without_text_at_the_end("[a]\nx=", &["a.x="])]
#[case::key_with_comment_only("[a]\nx=; nothing\ny= # nothing", &["a.x=", "a.y="])]
#[case::equals_in_value("[a]\nx=b=c==", &["a.x=b=c=="])]
#[case::second_equals("[a]\nx==b", &["a.x==b"])]
#[case::inner_blanks("[a]\nx = one  two\tthree  ", &["a.x=one  two\tthree"])]
#[case::comment_after_value("[a]\nx=v;c\ny=v #c", &["a.x=v", "a.y=v"])]
#[case::comment_after_header("[a];c\nx=1\n[b] # c\n", &["a.x=1", "b"])]
#[case::quote_in_comment("[a]\nx=v ; it's \"fine", &["a.x=v"])]
#[case::quoted("[a]\nx=\"v\"", &["a.x=v"])]
#[case::quoted_nothing("[a]\nx=\"\"", &["a.x="])]
#[case::quoted_blanks("[a]\nx=\"  v  \"  ", &["a.x=  v  "])]
#[case::quoted_comment_signs("[a]\nx=\"a;b#c\" ; d", &["a.x=a;b#c"])]
#[case::quoted_in_parts("[a]\nx=a \"b  c\" d\"e\"", &["a.x=a b  c de"])]
#[case::blanks_before_empty_quotes("[a]\nx=a \"\"", &["a.x=a "])]
#[case::escaped_quote("[a]\nx=\"say \\\"hi\\\"\"", &["a.x=say \"hi\""])]
#[case::escaped_quote_outside("[a]\nx=\\\"hi\\\"", &["a.x=\"hi\""])]
#[case::escaped_backslash("[a]\nx=\"C:\\\\temp\"", &["a.x=C:\\temp"])]
#[case::escaped_backslash_outside("[a]\nx=C:\\\\temp", &["a.x=C:\\temp"])]
#[case::escaped_newline_and_tab("[a]\nx=\"1\\n2\\t3\"", &["a.x=1\n2\t3"])]
#[case::escaped_backspace("[a]\nx=\"1\\b\"", &["a.x=1\u{8}"])]
#[case::continued("[a]\nx=one \\\n  two", &["a.x=one   two"])]
#[case::continued_twice("[a]\nx=1,\\\n2,\\\n3\ny=4", &["a.x=1,2,3", "a.y=4"])]
#[case::continued_in_quotes("[a]\nx=\"one \\\ntwo\"", &["a.x=one two"])]
#[case::continued_into_nothing("[a]\nx=one \\\n   \n", &["a.x=one "])]
#[case::continued_from_nothing("[a]\nx=\\\n two", &["a.x= two"])]
#[case::crlf("[a]\r\nx=v\r\nflag\r\n", &["a.x=v", "a.flag"])]
#[case::crlf_and_quotes("[a]\r\nx=\"v\"\r\n", &["a.x=v"])]
#[case::crlf_continued("[a]\r\nx=1 \\\r\n2\r\n", &["a.x=1 2"])]
#[case::crlf_with_comments("; c\r\n[a] ; c\r\nx=v ; c\r\n", &["a.x=v"])]
#[case::stray_carriage_return("[a]\nx=1\r2\ny=\"3\r4\"", &["a.x=12", "a.y=34"])]
#[case::carriage_return_before_escaped_quote("[a]\nx=1\\\r\"2", &["a.x=1\"2"])]
#[case::byte_order_mark("\u{feff}[a]\nx=v", &["a.x=v"])]
#[case::mark_inside_value("[a]\nx=\u{feff}v", &["a.x=\u{feff}v"])]
#[case::no_break_space_is_text("[a]\nx=\u{a0}v\u{a0}", &["a.x=\u{a0}v\u{a0}"])]
#[case::subsection("[S \"A\"]\nx=1", &["S/A.x=1"])]
#[case::subsection_keeps_its_case("[s \"A\"]\n[s \"a\"]", &["s/A", "s/a"])]
#[case::subsection_with_anything("[s \"10.0.0.1:443 ;#]=[é\"]", &["s/10.0.0.1:443 ;#]=[é"])]
#[case::subsection_escapes("[s \"a\\\"b\\\\c\"]", &["s/a\"b\\c"])]
#[case::subsection_without_blank("[s\"a\"]", &["s/a"])]
#[case::subsection_with_many_blanks("[ s \t \"a\" ]", &["s/a"])]
#[case::subsection_keeps_carriage_return("[s \"a\rb\"]", &["s/a\rb"])]
#[case::value_of_symbols("[a]\nx=~^pub-[0-9]+$ !*/:,@%&", &["a.x=~^pub-[0-9]+$ !*/:,@%&"])]
#[case::single_quotes_are_text("[a]\nx='v'", &["a.x='v'"])]
fn accepted(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(outline(&parse(text.as_bytes())), expected);
}

#[rstest]
#[case::no_section("x=1", 1, Problem::NoSection)]
#[case::empty_header("[a]\n[]", 2, Problem::SectionName)]
#[case::header_of_digits("[1a]", 1, Problem::SectionName)]
#[case::quoted_section("[\"a\"]", 1, Problem::SectionName)]
#[case::dotted_section("[a.b]", 1, Problem::UnexpectedCharacter('.'))]
#[case::two_words("[a b]", 1, Problem::UnexpectedCharacter('b'))]
#[case::open_header("[a\nx=1", 1, Problem::HeaderEnd)]
#[case::open_header_after_subsection("[a \"b\"", 1, Problem::HeaderEnd)]
#[case::header_over_two_lines("[a \"b\"\n]", 1, Problem::HeaderEnd)]
#[case::two_subsections("[a \"b\" \"c\"]", 1, Problem::HeaderEnd)]
#[case::empty_subsection("[a \"\"]", 1, Problem::EmptySubsection)]
#[case::open_subsection("[a \"b]", 1, Problem::OpenQuote)]
#[case::subsection_over_two_lines("[a \"b\\\nc\"]", 1, Problem::Escape(r#"\\ \""#))]
#[case::subsection_escape("[a \"b\\tc\"]", 1, Problem::Escape(r#"\\ \""#))]
#[case::text_after_header("[a] x=1", 1, Problem::AfterHeader)]
#[case::key_of_digits("[a]\n1x=1", 2, Problem::UnexpectedCharacter('1'))]
#[case::key_with_underscore("[a]\nauth_url=1", 2, Problem::UnexpectedCharacter('_'))]
#[case::key_with_dot("[a]\na.b=1", 2, Problem::UnexpectedCharacter('.'))]
#[case::no_key("[a]\n=1", 2, Problem::UnexpectedCharacter('='))]
#[case::colon("[a]\nx: 1", 2, Problem::UnexpectedCharacter(':'))]
#[case::no_equals("[a]\nx 1", 2, Problem::NoEquals)]
#[case::open_quote("[a]\nx=\"1", 2, Problem::OpenQuote)]
#[case::open_quote_over_two_lines("[a]\nx=\"1\n2\"", 2, Problem::OpenQuote)]
#[case::open_quote_after_continuation("[a]\nx=1 \\\n \"2\n", 3, Problem::OpenQuote)]
#[case::unknown_escape("[a]\nx=\"\\a\"", 2, Problem::Escape(r#"\\ \" \n \t \b and the end of the line"#))]
#[case::bare_backslash("[a]\nx=C:\\temp", 2, Problem::BareBackslash)]
#[case::backslash_at_the_end("[a]\nx=1\\", 2, Problem::BareBackslash)]
#[case::nul("[a]\nx=1\0b", 2, Problem::Nul)]
#[case::nul_in_comment("; \0", 1, Problem::Nul)]
#[case::second_mark("\u{feff}\u{feff}[a]", 1, Problem::UnexpectedCharacter('\u{feff}'))]
fn refused(#[case] text: &str, #[case] line: usize, #[case] problem: Problem) {
    let errors = Document::parse("cloud.conf", text.as_bytes()).expect_err("this must not parse");
    let first = errors.iter().next().expect("an error");
    assert_eq!((first.place.line, &first.problem), (Some(line), &problem));
}

#[test]
fn bytes_that_are_no_text_are_named_by_their_line() {
    let errors = Document::parse("cloud.conf", b"[a]\nx = caf\xe9\ny = ok\n; \xff\n").unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "cloud.conf:2: expected text in UTF-8, found other bytes",
            "cloud.conf:4: expected text in UTF-8, found other bytes",
        ]
    );
}

#[test]
fn all_syntax_errors_come_at_once_and_without_values() {
    let errors = Document::parse("broken.conf", include_bytes!("testdata/gcfg/broken.conf")).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "broken.conf:2: expected a section such as [Global] before the first key",
            "broken.conf:4: [Global] auth: unexpected '_': a name is a letter, then letters, digits and '-'",
            "broken.conf:5: [Global] username: expected '=' after the key",
            "broken.conf:6: [Global] password: expected a closing '\"' before the end of the line",
            "broken.conf:7: [Global] region: unexpected '\\': outside quotes a backslash goes with '\"', '\\' or the \
             end of the line; quote the value",
            r#"broken.conf:8: [Global] tenant-name: unknown escape: in quotes, a backslash goes with one of \\ \" \n \t \b and the end of the line"#,
            "broken.conf:9: [Global]: unexpected '1': a name is a letter, then letters, digits and '-'",
            "broken.conf:10: unexpected 'B': a name is a letter, then letters, digits and '-'",
            "broken.conf:12: expected ']' after the name of the section",
            "broken.conf:13: expected the name of a section after '['",
            "broken.conf:14: expected a name between the quotes of the subsection",
            "broken.conf:15: expected the end of the line after ']'",
            "broken.conf:16: expected ']' after the name of the section",
            "broken.conf:17: unexpected '=': a name is a letter, then letters, digits and '-'",
        ]
    );
}

#[test]
fn a_binary_file_gives_a_hundred_errors_and_no_more() {
    let bytes: Vec<u8> = (0..2_000).flat_map(|_| *b"\x7f\x00\xff\n").collect();
    let errors = Document::parse("cloud.conf", &bytes).unwrap_err();
    assert_eq!(errors.iter().count(), 101);
    let last = errors.iter().last().expect("errors").to_string();
    assert_eq!(last, "cloud.conf: more is wrong; only the first 100 errors are shown");
}

#[test]
fn entries_know_their_lines() {
    let document = parse(b"\n[a]\nx = 1 \\\n  2\ny\n\n[a \"b\"] ; c\nz = 3");
    let lines: Vec<(usize, &str)> =
        document.settings().map(|s| (s.entry.line, s.entry.key.as_str())).collect();
    assert_eq!(lines, [(3, "x"), (5, "y"), (8, "z")]);
    assert_eq!(document.sections().iter().map(|s| s.line).collect::<Vec<_>>(), [2, 7]);
    let last = document.settings().last().expect("settings");
    assert_eq!((last.section, last.subsection), ("a", Some("b")));
    assert_eq!(document.file(), "cloud.conf");
}

#[test]
fn a_document_prints_as_people_write() {
    let text =
        "[Global]\nregion=eu\nflag\nempty=\npassword=\"a;b \\\"c\\\"\"\n[S \"x\\\\y\"]\nv=\"1\\n2\\b\"";
    let expected = "[Global]\nregion = eu\nflag\nempty = \npassword = \"a;b \\\"c\\\"\"\n\n[S \"x\\\\y\"]\nv = \"1\\n2\u{8}\"\n";
    assert_eq!(parse(text.as_bytes()).print(), expected);
}

#[test]
fn debug_output_hides_what_looks_secret() {
    let shown = format!("{:?}", parse(b"[Global]\nregion = eu\nsecret-key = hunter2\nApi-Token = t0p\n"));
    assert!(shown.contains("eu"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("t0p"), "{shown}");
}
