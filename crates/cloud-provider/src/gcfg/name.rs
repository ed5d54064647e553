//! How names are compared: sections and keys do not care about case, nor a struct field about hyphens. Also which
//! names look like they hold a secret, and which known name a misspelt one probably meant.

use crate::nearest::nearest;

/// The longest name that a message shows in full: a line of a key pasted without quotes parses as a name.
const SHOWN: usize = 40;

/// Parts of a name that make its value unfit for messages, in squashed spelling.
const SECRET: [&str; 8] = ["password", "passwd", "passphrase", "pwd", "secret", "token", "key", "credential"];

/// Whether a name may begin with this character.
pub(super) fn starts(c: char) -> bool {
    c.is_alphabetic()
}

/// Whether a name may go on with this character. Go asks for Unicode letters and decimal digits; Rust's classes are
/// a little wider, so every name that Go knows is a name here.
pub(super) fn continues(c: char) -> bool {
    c.is_alphanumeric() || c == '-'
}

/// The spelling under which names are the same name: lower case, hyphens for underscores.
pub(super) fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase().replace('_', "-");
    }
    let folded = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.map(|c| if c == '_' { '-' } else { c }).collect()
}

/// The folded spelling without hyphens: `auth-url`, `AuthURL` and `auth_url` are all `authurl`.
pub(super) fn squash(name: &str) -> String {
    fold(name).replace('-', "")
}

/// The field that a name in a file means: the same words with the same hyphens, or else the same letters written as one
/// word (`AuthURL`). Hyphens in other places are a typo: Go would ignore such a key, and its value must stop nobody.
pub(super) fn field_for(fields: &[&'static str], name: &str) -> Option<&'static str> {
    let folded = fold(name);
    let exact = fields.iter().find(|field| fold(field) == folded);
    let one_word = || fields.iter().find(|field| !folded.contains('-') && squash(field) == folded);
    exact.or_else(one_word).copied()
}

/// The known name nearest to a misspelt one, spelt as people write it in files.
pub(super) fn suggestion(known: &[&str], name: &str) -> Option<String> {
    let squashed: Vec<String> = known.iter().map(|field| squash(field)).collect();
    // A name of any length may stand in a file; what is longer than it can be shown is no slip of the pen.
    let typed = Some(squash(name)).filter(|typed| typed.chars().count() <= SHOWN)?;
    let meant = nearest(&typed, squashed.iter().map(String::as_str))?;
    let position = squashed.iter().position(|field| field == meant)?;
    Some(known[position].replace('_', "-"))
}

/// Whether the value under this name must stay out of messages.
pub(super) fn looks_secret(name: &str) -> bool {
    let squashed = squash(name);
    SECRET.iter().any(|part| squashed.contains(part))
}

/// A name or value cut to a length that a message can bear.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("auth-url", Some("auth_url"))]
    #[case("AuthURL", Some("auth_url"))]
    #[case("Auth-Url", Some("auth_url"))]
    #[case("AUTHURL", Some("auth_url"))]
    #[case("auth-uri", None)]
    #[case("route-r", None)]
    #[case("router-", None)]
    #[case("lb-method", Some("lb-method"))]
    #[case("lbmethod", Some("lbmethod"))]
    fn a_name_finds_its_field(#[case] name: &str, #[case] field: Option<&str>) {
        assert_eq!(field_for(&["auth_url", "router", "lb-method", "lbmethod"], name), field);
    }

    #[rstest]
    #[case("auth-ulr", Some("auth-url"))]
    #[case("authurll", Some("auth-url"))]
    #[case("regoin", Some("region"))]
    #[case("floating-network", None)]
    #[case("x", None)]
    fn a_typo_finds_its_neighbour(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(suggestion(&["region", "auth_url", "tenant-name"], name).as_deref(), expected);
    }

    #[rstest]
    #[case("password", true)]
    #[case("Trustee-Password", true)]
    #[case("application-credential-secret", true)]
    #[case("SecretKey", true)]
    #[case("vmcAccessToken", true)]
    #[case("region", false)]
    #[case("monitor-delay", false)]
    fn names_of_secrets_are_recognised(#[case] name: &str, #[case] secret: bool) {
        assert_eq!(looks_secret(name), secret);
    }
}
