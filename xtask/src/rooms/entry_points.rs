//! The one import rule that no manifest can show: a provider names the manager only in its `main.rs`, because
//! cargo knows no dependency of a binary alone. It is checked over the tokens of the sources, so that words in
//! comments and texts do not count.

use proc_macro2::{TokenStream, TokenTree};

use super::Breach;

const MANAGER: &str = "cloud_controller_manager";

/// Looks through the sources (path relative to the root, text) of all providers.
pub fn check(sources: &[(String, String)]) -> Vec<Breach> {
    let outside_main =
        |path: &str| path.starts_with("providers/") && path.contains("/src/") && !is_entry_point(path);
    sources
        .iter()
        .filter(|(path, text)| outside_main(path) && names_the_manager(text))
        .map(|(path, _)| Breach {
            found: format!("{path} names `{MANAGER}`"),
            rule: "a provider knows the manager only in its own main.rs".to_owned(),
            remedy: "take what the file needs from `cloud-provider`, or move the call to main.rs".to_owned(),
        })
        .collect()
}

fn is_entry_point(path: &str) -> bool {
    path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

fn names_the_manager(text: &str) -> bool {
    // What does not lex does not compile either; the compiler says that better.
    text.parse::<TokenStream>().is_ok_and(mentions)
}

fn mentions(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == MANAGER,
        TokenTree::Group(group) => mentions(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[(path.to_owned(), text.to_owned())]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_manager_in_a_providers_library_is_refused() {
        let text = "fn x() { cloud_controller_manager::main(&[]); }";
        let sentences = found("providers/fake/src/lib.rs", text);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].contains("providers/fake/src/lib.rs") && sentences[0].contains("main.rs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn the_manager_in_an_entry_point_a_comment_or_another_room_passes() {
        let text = "use cloud_controller_manager::main_with;";
        assert!(found("providers/fake/src/main.rs", text).is_empty());
        assert!(found("providers/fake/src/bin/fake.rs", text).is_empty());
        assert!(found("crates/nephos/src/list.rs", text).is_empty());
        let words = "// cloud_controller_manager\nconst X: &str = \"cloud_controller_manager\";";
        assert!(found("providers/fake/src/lib.rs", words).is_empty());
    }
}
