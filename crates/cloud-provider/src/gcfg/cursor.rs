//! A position in the text, and the pieces that can be read from it: names, quoted subsections, values. It decides
//! about characters only; what the pieces mean is the parser's.

use super::{error::Problem, name};

/// A position in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The line of the next character, counted from one.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Steps over one character; at the end of the text, over nothing.
    pub(super) fn bump(&mut self) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
    }

    /// Steps over blanks. A carriage return is one, wherever it stands: this is all there is to CRLF.
    pub(super) fn skip_blanks(&mut self) {
        while self.peek().is_some_and(blank) {
            self.bump();
        }
    }

    /// Goes to the end of the line, not over it.
    pub(super) fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    /// The name that begins here, if one does.
    pub(super) fn take_name(&mut self) -> Option<&'a str> {
        let text = self.text;
        let rest = &text[self.at..];
        if !rest.starts_with(name::starts) {
            return None;
        }
        let end = rest.find(|c| !name::continues(c)).unwrap_or(rest.len());
        self.at += end;
        Some(&rest[..end])
    }

    /// The subsection whose opening quote is here. Only `\\` and `\"` are escapes; a carriage return is itself.
    pub(super) fn take_subsection(&mut self) -> Result<String, Problem> {
        self.bump();
        let mut subsection = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(Problem::OpenQuote),
                Some('"') => break,
                Some('\\') => {
                    self.bump();
                    let escaped = self.peek().filter(|c| matches!(c, '\\' | '"'));
                    subsection.push(escaped.ok_or(Problem::Escape(r#"\\ \""#))?);
                }
                Some(c) => subsection.push(c),
            }
            self.bump();
        }
        self.bump();
        if subsection.is_empty() { Err(Problem::EmptySubsection) } else { Ok(subsection) }
    }

    /// The value that begins here, up to the end of the line or a comment. Blanks at its end go, unless quoted;
    /// carriage returns go wherever they are.
    pub(super) fn take_value(&mut self) -> Result<String, Problem> {
        let mut value = String::new();
        let mut kept = 0;
        let mut quoted = false;
        loop {
            match self.peek() {
                None | Some('\n') if quoted => return Err(Problem::OpenQuote),
                None | Some('\n') => break,
                Some(';' | '#') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => {
                    self.bump();
                    quoted = !quoted;
                    kept = value.len();
                }
                Some('\\') => {
                    value.extend(self.take_escape(quoted)?);
                    kept = value.len();
                }
                Some('\r') => self.bump(),
                Some(c) => {
                    self.bump();
                    value.push(c);
                    if quoted || !blank(c) {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Ok(value)
    }

    /// The character that the escape here stands for; none for a line that goes on in the next one. Outside quotes
    /// git would read `C:\temp` with a tab in it; Go refuses that, and so does this.
    fn take_escape(&mut self, quoted: bool) -> Result<Option<char>, Problem> {
        self.bump();
        if self.peek() == Some('\r') {
            self.bump();
        }
        let meaning = match self.peek() {
            Some('\n') => None,
            Some(c @ ('"' | '\\')) => Some(c),
            Some('n') if quoted => Some('\n'),
            Some('t') if quoted => Some('\t'),
            Some('b') if quoted => Some('\u{8}'),
            _ if quoted => return Err(Problem::Escape(r#"\\ \" \n \t \b and the end of the line"#)),
            _ => return Err(Problem::BareBackslash),
        };
        self.bump();
        Ok(meaning)
    }
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}
