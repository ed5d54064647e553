//! Finds the tests that say what they prove.
//!
//! A test names the behaviours it proves in a line of its doc comment, `Proves: SVC-13, SVC-14`. The search
//! runs over tokens, not lines: attributes may stand in any order and over several lines, tests inside macros
//! such as `proptest!` are seen, and the same words in a text or an ordinary comment are not.

#[cfg(test)]
mod tests;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// How the line of a doc comment begins.
const MARK: &str = "Proves:";

/// Attributes that make a function a test, by the last part of their path.
const TEST_ATTRIBUTES: [&str; 5] = ["test", "rstest", "proptest", "property_test", "test_case"];

/// What may stand between the attributes of a function and its `fn`.
const QUALIFIERS: [&str; 5] = ["pub", "async", "const", "unsafe", "extern"];

/// A test and what it says it proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The source, relative to the root.
    pub file: String,
    /// The name of the test function.
    pub test: String,
    /// Where the claim stands, counted from one.
    pub line: usize,
    /// The items as written.
    pub claims: Vec<String>,
    /// Whether the test only runs when asked for.
    pub ignored: bool,
}

/// A claim that no test stands behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The source, relative to the root.
    pub file: String,
    /// Where the claim stands, counted from one; zero when the file could not be read as Rust.
    pub line: usize,
    /// Why it does not count.
    pub why: &'static str,
}

/// What one source holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The tests that prove something.
    pub proofs: Vec<Proof>,
    /// The claims that prove nothing.
    pub strays: Vec<Stray>,
}

/// Searches one source.
pub fn scan(file: &str, source: &str) -> Scan {
    let mut scan = Scan::default();
    let mut stray = |line, why| scan.strays.push(Stray { file: file.to_owned(), line, why });
    for (index, line) in source.lines().enumerate() {
        if line.trim_start().strip_prefix("// ").is_some_and(|comment| comment.trim_start().starts_with(MARK))
        {
            stray(index + 1, "it stands in an ordinary comment: a claim starts with `///`");
        }
    }
    match source.parse::<TokenStream>() {
        Ok(tokens) => Walk { file, scan: &mut scan }.walk(tokens),
        Err(_) => stray(0, "the file is not Rust that can be read"),
    }
    scan
}

/// What was gathered since the last token that does not belong to the head of a function.
#[derive(Default)]
struct Head {
    claims: Vec<String>,
    line: usize,
    is_test: bool,
    ignored: bool,
}

struct Walk<'a> {
    file: &'a str,
    scan: &'a mut Scan,
}

impl Walk<'_> {
    fn walk(&mut self, tokens: TokenStream) {
        let mut head = Head::default();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let inner =
                        tokens.next_if(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == '!')).is_some();
                    let Some(TokenTree::Group(attribute)) = tokens.next_if(is_bracket) else { continue };
                    head.read(&attribute);
                    if inner {
                        self.drop_head(&mut head);
                    }
                }
                TokenTree::Ident(ident) if QUALIFIERS.iter().any(|word| ident == word) => {}
                TokenTree::Literal(_) => {} // the ABI of an `extern` function
                TokenTree::Ident(ident) if ident == "fn" => match tokens.next() {
                    Some(TokenTree::Ident(name)) => self.function(&mut head, &name.to_string()),
                    _ => self.drop_head(&mut head),
                },
                TokenTree::Group(group) => {
                    // `pub(crate)` is still the head; any other group ends it.
                    if group.delimiter() != Delimiter::Parenthesis || head.claims.is_empty() {
                        self.drop_head(&mut head);
                    }
                    self.walk(group.stream());
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.drop_head(&mut head),
            }
        }
        self.drop_head(&mut head);
    }

    fn function(&mut self, head: &mut Head, name: &str) {
        if !head.is_test {
            return self.drop_head(head);
        }
        let head = std::mem::take(head);
        if !head.claims.is_empty() {
            self.scan.proofs.push(Proof {
                file: self.file.to_owned(),
                test: name.to_owned(),
                line: head.line,
                claims: head.claims,
                ignored: head.ignored,
            });
        }
    }

    /// The head turned out not to be that of a test.
    fn drop_head(&mut self, head: &mut Head) {
        let head = std::mem::take(head);
        if !head.claims.is_empty() {
            let why = "it is not followed by a test function";
            self.scan.strays.push(Stray { file: self.file.to_owned(), line: head.line, why });
        }
    }
}

fn is_bracket(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket)
}

impl Head {
    fn read(&mut self, attribute: &Group) {
        let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
        if let [TokenTree::Ident(doc), _, TokenTree::Literal(text)] = tokens.as_slice()
            && doc == "doc"
        {
            let claims = claims(&text.to_string());
            if !claims.is_empty() {
                self.line =
                    if self.claims.is_empty() { attribute.span_open().start().line } else { self.line };
                self.claims.extend(claims);
            }
            return;
        }
        let path = tokens.iter().take_while(|token| match token {
            TokenTree::Ident(_) => true,
            TokenTree::Punct(punct) => punct.as_char() == ':',
            TokenTree::Group(_) | TokenTree::Literal(_) => false,
        });
        let last = path.filter(|token| matches!(token, TokenTree::Ident(_))).last().map(ToString::to_string);
        self.is_test |= last.as_deref().is_some_and(|name| TEST_ATTRIBUTES.contains(&name));
        self.ignored |= last.as_deref() == Some("ignore");
    }
}

/// The items named in one doc comment, given as the literal that the lexer makes of it: quoted, with the line
/// ends of a block comment escaped.
fn claims(literal: &str) -> Vec<String> {
    let text = literal.trim_start_matches(['r', '#', '"']).trim_end_matches(['"', '#']);
    let lines = text.split("\\n").flat_map(str::lines);
    lines
        .filter_map(|line| line.trim_start_matches([' ', '*', '\t']).strip_prefix(MARK))
        .flat_map(items)
        .collect()
}

/// `SVC-1, SVC-2`. A comma at the end is no item; a claim of nothing is kept, for the reader to refuse.
fn items(list: &str) -> Vec<String> {
    list.trim().trim_end_matches(',').split(',').map(|item| item.trim().to_owned()).collect()
}
