//! Formats of names and labels, with the sentences that the real server refuses them in.

pub(super) const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
    '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Letters, digits and `-`, neither first nor last a `-`, at most 63 of them.
pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels joined by dots, at most 253 characters.
pub(super) fn is_dns_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

fn is_qualified_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().next_back())
}

/// What is wrong with the key of a label, an annotation or a finalizer.
pub(super) fn label_key_problems(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut problems = Vec::new();
    if prefix.is_some_and(str::is_empty) {
        problems.push("prefix part must be non-empty".to_owned());
    } else if prefix.is_some_and(|p| !is_dns_subdomain(p)) {
        problems.push(format!("prefix part {DNS_SUBDOMAIN}"));
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        problems.push(LABEL_KEY.to_owned());
    }
    problems
}

/// What is wrong with the value of a label.
pub(super) fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!value.is_empty() && !is_qualified_part(value)).then(|| LABEL_VALUE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("a.b-c", true)]
    #[case("A", false)]
    #[case("a..b", false)]
    #[case("-a", false)]
    #[case("", false)]
    fn subdomains_are_recognised(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_dns_subdomain(text), expected);
    }

    #[rstest]
    #[case("zone", true)]
    #[case("example.com/zone", true)]
    #[case("/zone", false)]
    #[case("example.com/", false)]
    #[case("two words", false)]
    fn label_keys_are_recognised(#[case] key: &str, #[case] expected: bool) {
        assert_eq!(label_key_problems(key).is_empty(), expected);
    }
}
