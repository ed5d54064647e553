//! Text to document. Every error is reported with its line, and parsing goes on with the next line, so that one
//! reading shows all there is to mend. INVARIANT: what Go's parser accepts is accepted here with the same values;
//! existing files must not stop a cluster that changes over.

use std::collections::BTreeMap;

use super::{
    cursor::Cursor,
    document::{Document, Entry, Section},
    error::{Error, MOST_ERRORS, Place, Problem},
    name,
};

/// Parses what can be parsed, and says what could not.
pub(super) fn parse(file: &str, bytes: &[u8]) -> (Document, Vec<Error>) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let unreadable = unreadable_lines(bytes);
    let text = String::from_utf8_lossy(bytes);
    let mut parser = Parser {
        file,
        cursor: Cursor::new(&text),
        stand: Stand::Before,
        sections: Vec::new(),
        errors: Vec::new(),
    };
    parser.run();
    let Parser { sections, mut errors, .. } = parser;
    // What an unreadable line looks like to the parser is of no interest.
    errors.retain(|error| error.place.line.is_none_or(|line| !unreadable.contains_key(&line)));
    for (line, problem) in unreadable {
        let place = Place { file: file.to_owned(), line: Some(line), ..Place::default() };
        errors.push(Error { place, problem });
    }
    (Document::new(file, sections), errors)
}

/// The lines that are not text. Go's parser refuses them too, even inside comments.
fn unreadable_lines(bytes: &[u8]) -> BTreeMap<usize, Problem> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let problem = |line: &[u8]| match std::str::from_utf8(line) {
        Err(_) => Some(Problem::NotText),
        Ok(text) => text.contains('\0').then_some(Problem::Nul),
    };
    lines.filter_map(|(n, line)| Some((n + 1, problem(line)?))).take(MOST_ERRORS + 1).collect()
}

/// Where the parser stands among the sections.
enum Stand {
    /// Before the first header; keys here are errors, reported once.
    Before,
    /// Below a header that could not be read, or among keys whose lack of a header is already reported: syntax is
    /// checked, keys are dropped.
    Adrift,
    /// In the last section.
    In,
}

struct Parser<'a> {
    file: &'a str,
    cursor: Cursor<'a>,
    stand: Stand,
    sections: Vec<Section>,
    errors: Vec<Error>,
}

impl Parser<'_> {
    fn run(&mut self) {
        while let Some(c) = self.cursor.peek() {
            let done = match c {
                '\n' | ' ' | '\t' | '\r' => {
                    self.cursor.bump();
                    Ok(())
                }
                ';' | '#' => {
                    self.cursor.skip_line();
                    Ok(())
                }
                '[' => self.header(),
                _ if name::starts(c) => self.entry(),
                _ => Err((Problem::UnexpectedCharacter(c), None)),
            };
            if let Err((problem, key)) = done {
                self.report(problem, key);
                if self.errors.len() > MOST_ERRORS {
                    return;
                }
                self.cursor.skip_line();
            }
        }
    }

    fn report(&mut self, problem: Problem, key: Option<String>) {
        let here = match self.stand {
            Stand::In => self.sections.last(),
            Stand::Before | Stand::Adrift => None,
        };
        let place = Place {
            file: self.file.to_owned(),
            line: Some(self.cursor.line()),
            section: here.map(|section| section.name.clone()),
            subsection: here.and_then(|section| section.subsection.clone()),
            key,
        };
        self.errors.push(Error { place, problem });
    }

    /// `[name]` or `[name "sub"]`, and nothing else on the line but a comment.
    fn header(&mut self) -> Result<(), (Problem, Option<String>)> {
        // Until the header is whole, what follows belongs to nobody.
        self.stand = Stand::Adrift;
        let section = self.read_header().map_err(|problem| (problem, None))?;
        self.sections.push(section);
        self.stand = Stand::In;
        Ok(())
    }

    fn read_header(&mut self) -> Result<Section, Problem> {
        let cursor = &mut self.cursor;
        let line = cursor.line();
        cursor.bump();
        cursor.skip_blanks();
        let name = cursor.take_name().ok_or(Problem::SectionName)?.to_owned();
        cursor.skip_blanks();
        let subsection = if cursor.peek() == Some('"') { Some(cursor.take_subsection()?) } else { None };
        cursor.skip_blanks();
        match cursor.peek() {
            Some(']') => cursor.bump(),
            Some(c) if subsection.is_none() && !c.is_whitespace() => {
                return Err(Problem::UnexpectedCharacter(c));
            }
            _ => return Err(Problem::HeaderEnd),
        }
        cursor.skip_blanks();
        match cursor.peek() {
            None | Some('\n') => {}
            Some(';' | '#') => cursor.skip_line(),
            Some(_) => return Err(Problem::AfterHeader),
        }
        Ok(Section { name, subsection, line, entries: Vec::new() })
    }

    /// `key` or `key = value`, up to the end of the line.
    fn entry(&mut self) -> Result<(), (Problem, Option<String>)> {
        let line = self.cursor.line();
        let Some(key) = self.cursor.take_name().map(str::to_owned) else { return Ok(()) };
        let value = read_value(&mut self.cursor).map_err(|problem| (problem, Some(key.clone())))?;
        match (&self.stand, self.sections.last_mut()) {
            (Stand::In, Some(section)) => section.entries.push(Entry { key, value, line }),
            (Stand::Before, _) => {
                self.stand = Stand::Adrift;
                let place =
                    Place { file: self.file.to_owned(), line: Some(line), key: None, ..Place::default() };
                self.errors.push(Error { place, problem: Problem::NoSection });
            }
            _ => {}
        }
        Ok(())
    }
}

/// What follows a key: nothing, or `=` and a value.
fn read_value(cursor: &mut Cursor<'_>) -> Result<Option<String>, Problem> {
    let touching = cursor.peek();
    cursor.skip_blanks();
    match cursor.peek() {
        None | Some('\n') => Ok(None),
        Some(';' | '#') => {
            cursor.skip_line();
            Ok(None)
        }
        Some('=') => {
            cursor.bump();
            cursor.skip_blanks();
            cursor.take_value().map(Some)
        }
        Some(c) if touching == Some(c) => Err(Problem::UnexpectedCharacter(c)),
        Some(_) => Err(Problem::NoEquals),
    }
}
