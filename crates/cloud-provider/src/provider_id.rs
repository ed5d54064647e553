//! The provider ID: `<provider>://<rest>`, the name by which a Node and an instance know each other.
//!
//! INVARIANT: what was read is written back byte for byte. `spec.providerID` is write-once in the Kubernetes API; an
//! ID that came out spelled differently would orphan every Node that carries the old spelling.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A provider ID, kept exactly as it was spelled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProviderId {
    text: String,
    scheme: usize,
}

/// Why a string is not a provider ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseProviderIdError {
    /// There is no `://` in it.
    #[error("provider ID {0:?} has no scheme: expected <provider>://<id>")]
    NoScheme(String),
    /// What stands before `://` cannot be a provider's name.
    #[error("provider ID {0:?} has a bad scheme: letters, digits, '-', '.' and '+' are allowed before '://'")]
    BadScheme(String),
    /// Nothing stands after `://`.
    #[error("provider ID {0:?} names no instance: nothing follows '://'")]
    NoInstance(String),
}

impl ProviderId {
    /// The ID `<provider>://<rest>`.
    pub fn new(provider: &str, rest: &str) -> Result<Self, ParseProviderIdError> {
        format!("{provider}://{rest}").parse()
    }

    /// What stands before `://`: the provider's name.
    pub fn scheme(&self) -> &str {
        &self.text[..self.scheme]
    }

    /// Everything after `://`, slashes included.
    pub fn rest(&self) -> &str {
        &self.text[self.scheme + 3..]
    }

    /// The last part of the path, where most clouds put the instance's own ID.
    pub fn last_segment(&self) -> &str {
        self.rest().rsplit('/').next().unwrap_or_default()
    }

    /// The whole ID as it was spelled.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for ProviderId {
    type Err = ParseProviderIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(scheme) = text.find("://") else {
            return Err(ParseProviderIdError::NoScheme(text.to_owned()));
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+');
        if scheme == 0 || !text[..scheme].chars().all(allowed) {
            return Err(ParseProviderIdError::BadScheme(text.to_owned()));
        }
        if text[scheme + 3..].trim_matches('/').is_empty() {
            return Err(ParseProviderIdError::NoInstance(text.to_owned()));
        }
        Ok(Self { text: text.to_owned(), scheme })
    }
}

impl TryFrom<String> for ProviderId {
    type Error = ParseProviderIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProviderId> for String {
    fn from(id: ProviderId) -> Self {
        id.text
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Proves: IFACE-6
    #[rstest]
    #[case("aws:///eu-west-1a/i-0123", "aws", "/eu-west-1a/i-0123", "i-0123")]
    #[case("openstack://region/8c2f", "openstack", "region/8c2f", "8c2f")]
    #[case("hcloud://42", "hcloud", "42", "42")]
    #[case("kind://docker/kind/kind-worker", "kind", "docker/kind/kind-worker", "kind-worker")]
    #[case(
        "azure:///subscriptions/x/virtualMachines/vm-0",
        "azure",
        "/subscriptions/x/virtualMachines/vm-0",
        "vm-0"
    )]
    #[case("fake://a://b", "fake", "a://b", "b")]
    fn known_shapes_are_read(
        #[case] text: &str,
        #[case] scheme: &str,
        #[case] rest: &str,
        #[case] last: &str,
    ) {
        let id: ProviderId = text.parse().unwrap();
        assert_eq!((id.scheme(), id.rest(), id.last_segment()), (scheme, rest, last));
        assert_eq!(id.to_string(), text);
    }

    #[rstest]
    #[case("", "has no scheme")]
    #[case("i-0123", "has no scheme")]
    #[case("aws:/i-0123", "has no scheme")]
    #[case("://i-0123", "has a bad scheme")]
    #[case("a b://x", "has a bad scheme")]
    #[case("aws://", "names no instance")]
    #[case("aws:///", "names no instance")]
    fn what_is_no_provider_id_is_refused_with_the_reason(#[case] text: &str, #[case] reason: &str) {
        let error = text.parse::<ProviderId>().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_kept_byte_for_byte(text in ".*") {
            if let Ok(id) = text.parse::<ProviderId>() {
                prop_assert_eq!(id.to_string(), text.clone());
                prop_assert_eq!(format!("{}://{}", id.scheme(), id.rest()), text);
            }
        }

        #[test]
        fn scheme_and_rest_make_the_id_again(scheme in "[a-z][a-z0-9-]{0,12}", rest in "[a-z0-9/._-]{0,20}[a-z0-9]") {
            let id = ProviderId::new(&scheme, &rest).unwrap();
            prop_assert_eq!((id.scheme(), id.rest()), (scheme.as_str(), rest.as_str()));
        }
    }
}
