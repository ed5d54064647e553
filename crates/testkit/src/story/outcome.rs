//! What a server answered, and what a story expects of it.

use serde_json::Value;

/// A server's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The HTTP status.
    pub code: u16,
    /// The object, list or `Status`; the text where it is not JSON.
    pub body: Value,
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "expectations are statements as often as links of a chain"
)]
impl Outcome {
    /// The answer must be good.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert!((200..300).contains(&self.code), "expected success, got {}: {}", self.code, self.body);
        self
    }

    /// The answer must be this refusal; the empty reason stands for none.
    #[track_caller]
    pub fn is_refused(self, code: u16, reason: &str) -> Self {
        let found = self.body["reason"].as_str().unwrap_or_default();
        assert_eq!((self.code, found), (code, reason), "got {}", self.body);
        self
    }

    /// The value at a JSON pointer must be this.
    #[track_caller]
    pub fn has(self, pointer: &str, expected: impl Into<Value>) -> Self {
        let expected = expected.into();
        assert_eq!(self.at(pointer), &expected, "at {pointer} of {}", self.body);
        self
    }

    /// There must be nothing at a JSON pointer.
    #[track_caller]
    pub fn lacks(self, pointer: &str) -> Self {
        assert_eq!(self.at(pointer), &Value::Null, "at {pointer} of {}", self.body);
        self
    }

    /// The value at a JSON pointer; null when there is none.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// The object's version.
    pub fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// The object's UID.
    pub fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// The object with a change.
    #[must_use]
    pub fn with(&self, pointer: &str, value: impl Into<Value>) -> Value {
        let mut object = self.body.clone();
        match object.pointer_mut(pointer) {
            Some(place) => *place = value.into(),
            None => panic!("nothing at {pointer} of {object}"),
        }
        object
    }
}
