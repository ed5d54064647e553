//! What must not stand in a tracked file: absolute paths of somebody's machine. A note of work left to do
//! without the name of who will do it is only reported.

use std::fmt;

// Pieces, so that this file does not find itself.
const MACHINE_PATHS: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];
const NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// One place that is worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root.
    pub path: String,
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong with it.
    pub what: What,
}

/// Why a line was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The line holds an absolute path that exists on a developer's machine only.
    MachinePath(&'static str),
    /// The line holds a note of work left to do that names nobody.
    OwnerlessNote(&'static str),
}

impl Finding {
    /// Whether this ends the check with a failure, rather than a warning.
    pub fn fails(&self) -> bool {
        matches!(self.what, What::MachinePath(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.path, self.line)?;
        match self.what {
            What::MachinePath(path) => {
                write!(f, "`{path}` is a path of one machine: write it relative or invent one")
            }
            What::OwnerlessNote(note) => {
                write!(f, "`{note}` without an owner: write `{note}(name): ...` or do it")
            }
        }
    }
}

/// Looks through one file.
pub fn inspect(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut push = |what| findings.push(Finding { path: path.to_owned(), line: index + 1, what });
        for machine_path in MACHINE_PATHS {
            if starts_in(line, machine_path, |before| !is_inside_a_path(before)).is_some() {
                push(What::MachinePath(machine_path));
            }
        }
        for note in NOTES {
            let rest = starts_in(line, note, |before| !is_inside_a_name(before));
            if rest.is_some_and(|rest| !has_owner(rest) && !rest.starts_with(is_inside_a_name)) {
                push(What::OwnerlessNote(note));
            }
        }
    }
    findings
}

/// The text after the first occurrence of `needle` whose preceding character passes.
fn starts_in<'l>(line: &'l str, needle: &str, may_follow: impl Fn(char) -> bool) -> Option<&'l str> {
    line.match_indices(needle)
        .find(|(at, _)| line[..*at].chars().next_back().is_none_or(&may_follow))
        .map(|(at, _)| &line[at + needle.len()..])
}

/// After such a character a slash continues a relative path or an address on the network.
fn is_inside_a_path(c: char) -> bool {
    c.is_alphanumeric() || "._-~/}*".contains(c)
}

/// After such a character a word is part of a longer name, such as a function of another language.
fn is_inside_a_name(c: char) -> bool {
    c.is_alphanumeric() || "._".contains(c)
}

fn has_owner(rest: &str) -> bool {
    rest.strip_prefix('(').is_some_and(|rest| rest.find(')').is_some_and(|end| end > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::at_the_start("/HOME/jane/nephos", "/ho|me/")]
    #[case::in_quotes("let x = \"/ROOT/.kube/config\";", "/ro|ot/")]
    #[case::after_a_colon("see file:/WORK/x", "/wo|rk/")]
    fn an_absolute_path_of_a_machine_fails(#[case] line: &str, #[case] expected: &str) {
        let found = inspect("a.md", &format!("fine\n{}", line.to_lowercase()));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].fails());
        assert_eq!(found[0].line, 2);
        assert_eq!(
            found[0].what,
            What::MachinePath(MACHINE_PATHS.iter().find(|p| **p == expected.replace('|', "")).unwrap())
        );
    }

    #[rstest]
    #[case::relative("crates/WORK/src")]
    #[case::on_the_network("https://example.org/HOME/page")]
    #[case::other_absolute("/etc/kubernetes/cloud.conf")]
    fn other_paths_pass(#[case] line: &str) {
        assert_eq!(inspect("a.md", &line.to_lowercase()), []);
    }

    #[rstest]
    #[case::bare("// @: later", true)]
    #[case::empty_owner("// @(): later", true)]
    #[case::owned("// @(jane): later", false)]
    #[case::a_go_function("ctx := context.@()", false)]
    #[case::part_of_a_word("@S is a list", false)]
    fn a_note_without_an_owner_is_a_warning(#[case] line: &str, #[case] found: bool) {
        for note in NOTES {
            let findings = inspect("a.rs", &line.replace('@', note));
            assert_eq!(!findings.is_empty(), found, "{line}");
            assert!(findings.iter().all(|finding| !finding.fails()));
        }
    }

    #[test]
    fn a_finding_names_the_place_and_the_remedy() {
        let finding = &inspect("docs/x.md", &format!("`{}x`", MACHINE_PATHS[0]))[0];
        assert!(finding.to_string().starts_with("docs/x.md:1: "));
        assert!(finding.to_string().contains("write it relative"));
    }
}
