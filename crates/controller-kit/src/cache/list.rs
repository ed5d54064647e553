//! Takes a list apart while it arrives, object by object. The API server answers a list from its cache in one piece,
//! whatever page size is asked for; decoding that piece as a whole would need ten times the memory of the result.

use serde::Deserialize;

/// What surrounds the objects.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Envelope {
    #[serde(default)]
    pub(super) metadata: EnvelopeMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvelopeMeta {
    pub(super) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(super) continue_token: Option<String>,
}

/// Whether a byte is part of a string, where brackets mean nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// Finds the elements of the top-level `items` array in JSON that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// Everything but the elements: the same list, empty.
    envelope: Vec<u8>,
    /// The element that has begun.
    item: Vec<u8>,
    /// Brackets and braces that are open.
    depth: usize,
    text: Text,
    /// Inside the `items` array.
    in_items: bool,
    /// Where in the envelope the last string began: a key, if a colon follows.
    string_start: usize,
    /// The last string at the top level was `items`, and a colon followed.
    at_items: bool,
}

impl Splitter {
    /// Takes the next piece; calls `each` with every element that ends in it.
    pub(super) fn feed<E>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // What belongs to the current element is copied in runs, not byte by byte.
        let mut run = 0;
        for (at, &byte) in piece.iter().enumerate() {
            let inside = self.in_items && self.depth > 2;
            let ended = self.step(byte);
            let still_inside = self.in_items && self.depth > 2;
            if !inside && still_inside {
                run = at;
            }
            if ended {
                self.item.extend_from_slice(&piece[run..=at]);
                each(&self.item)?;
                self.item.clear();
            } else if !inside && !still_inside {
                self.envelope.extend((!self.in_items || byte == b'[').then_some(byte));
            }
        }
        if self.in_items && self.depth > 2 {
            self.item.extend_from_slice(&piece[run..]);
        }
        Ok(())
    }

    /// The envelope, once everything was fed.
    pub(super) fn finish(self) -> Result<Envelope, serde_json::Error> {
        serde_json::from_slice(&self.envelope)
    }

    /// Follows one byte; tells whether it ends an element.
    fn step(&mut self, byte: u8) -> bool {
        if self.text != Text::Outside {
            self.text = match (self.text, byte) {
                (Text::Inside, b'\\') => Text::Escaped,
                (Text::Inside, b'"') => Text::Outside,
                _ => Text::Inside,
            };
            return false;
        }
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.string_start = self.envelope.len();
            }
            b':' if self.depth == 1 => {
                self.at_items = self.envelope.get(self.string_start..).is_some_and(is_items_key);
            }
            b',' if self.depth == 1 => self.at_items = false,
            b'[' | b'{' => {
                self.in_items |= byte == b'[' && self.depth == 1 && self.at_items;
                self.depth += 1;
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.in_items && self.depth == 1 {
                    self.in_items = false;
                }
                return self.in_items && self.depth == 2;
            }
            _ => {}
        }
        false
    }
}

/// Whether the envelope's tail is the key `items`, with white space behind it perhaps.
fn is_items_key(tail: &[u8]) -> bool {
    tail.trim_ascii_end() == b"\"items\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &[u8], piece: usize) -> (Vec<String>, Envelope) {
        let (mut splitter, mut items) = (Splitter::default(), Vec::new());
        for piece in text.chunks(piece.max(1)) {
            let each = |item: &[u8]| {
                items.push(String::from_utf8(item.to_vec()).unwrap());
                Ok::<_, std::convert::Infallible>(())
            };
            splitter.feed(piece, each).unwrap();
        }
        (items, splitter.finish().unwrap())
    }

    #[test]
    fn a_list_is_taken_apart_wherever_it_is_cut() {
        let text = br#"{"kind":"NodeList","metadata":{"resourceVersion":"7","continue":"x"},
            "items" : [ {"a":{"items":[1,{"b":"]}\\\"{"}]}} , {"c":[]},{} ] ,"more":["items",{"items":[{}]}]}"#;
        for piece in 1..text.len() {
            let (items, envelope) = split(text, piece);
            assert_eq!(
                items,
                [r#"{"a":{"items":[1,{"b":"]}\\\"{"}]}}"#, r#"{"c":[]}"#, "{}"],
                "cut at {piece}"
            );
            assert_eq!(envelope.metadata.resource_version.as_deref(), Some("7"));
            assert_eq!(envelope.metadata.continue_token.as_deref(), Some("x"));
        }
    }

    #[test]
    fn empty_lists_have_no_elements() {
        for text in [
            &br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#[..],
            br#"{"items":null,"metadata":{"resourceVersion":"1"}}"#,
            br#"{"metadata":{"resourceVersion":"1"}}"#,
        ] {
            let (items, envelope) = split(text, 3);
            assert!(items.is_empty());
            assert_eq!(envelope.metadata.resource_version.as_deref(), Some("1"));
        }
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error() {
        let mut splitter = Splitter::default();
        let nothing = |_: &[u8]| Ok::<_, std::convert::Infallible>(());
        splitter.feed(br#"{"metadata":{"resourceVersion":"1"},"items":[{"a":1},{"#, nothing).unwrap();
        assert!(splitter.finish().is_err());
    }

    proptest! {
        #[test]
        fn any_items_come_out_as_they_went_in(
            texts in proptest::collection::vec(".{0,20}", 0..8),
            piece in 1_usize..40,
        ) {
            let items: Vec<_> = texts.iter().map(|text| serde_json::json!({"name": text, "l": [text]})).collect();
            let list = serde_json::json!({"metadata": {"resourceVersion": "1"}, "items": items});
            let (found, _) = split(&serde_json::to_vec(&list).unwrap(), piece);
            let found: Vec<serde_json::Value> =
                found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            prop_assert_eq!(found, items);
        }
    }
}
