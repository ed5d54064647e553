//! What client and server agree on besides JSON: headers, the query of a list, percent signs.

use std::fmt::Write;

use cloud_provider::Verb;

use crate::api::Filter;

/// The header that names the calling cluster.
pub(crate) const CLUSTER_HEADER: &str = "nephos-cluster";

/// The header in which a write shows what its permit allows: `create`, `update` or `delete`.
pub(crate) const PERMIT_HEADER: &str = "nephos-permit";

/// The verb of a permit, from the header.
pub(crate) fn verb(text: &str) -> Option<Verb> {
    [Verb::Create, Verb::Update, Verb::Delete].into_iter().find(|verb| verb.to_string() == text)
}

/// The query of a list: `?name=a1&page=2:lb-000100`.
pub(crate) fn query(filter: &Filter, page: Option<&str>) -> String {
    let mut pairs = Vec::new();
    match filter {
        Filter::All => {}
        Filter::Named(name) => pairs.push(("name", name.clone())),
        Filter::Tagged(key, value) => pairs.push(("tag", format!("{key}={value}"))),
        Filter::Token(token) => pairs.push(("token", token.clone())),
    }
    pairs.extend(page.map(|page| ("page", page.to_owned())));
    let pairs: Vec<String> =
        pairs.into_iter().map(|(key, value)| format!("{key}={}", escape(&value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// What a query asks for; what it cannot read it says.
pub(crate) fn read_query(query: &str) -> Result<(Filter, Option<String>), String> {
    let (mut filter, mut page) = (Filter::All, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} has no value"))?;
        let value = unescape(value).ok_or_else(|| format!("{pair:?} is badly escaped"))?;
        match key {
            "name" => filter = Filter::Named(value),
            "token" => filter = Filter::Token(value),
            "page" => page = Some(value),
            "tag" => {
                let (key, value) = value.split_once('=').ok_or_else(|| format!("{value:?} is no tag"))?;
                filter = Filter::Tagged(key.to_owned(), value.to_owned());
            }
            _ => return Err(format!("{key:?} is none of name, tag, token and page")),
        }
    }
    Ok((filter, page))
}

/// Text as it may stand in a path or a query.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_that_cannot_be_read_says_why() {
        assert_eq!(read_query("nam=a"), Err("\"nam\" is none of name, tag, token and page".to_owned()));
        assert_eq!(read_query("page"), Err("\"page\" has no value".to_owned()));
        assert_eq!(read_query("page=%4"), Err("\"page=%4\" is badly escaped".to_owned()));
    }

    proptest! {
        #[test]
        fn what_a_client_asks_is_what_the_server_reads(text in ".*", page in proptest::option::of(".+")) {
            let filters = [
                Filter::All,
                Filter::Named(text.clone()),
                Filter::Token(text.clone()),
                Filter::Tagged("key".into(), text),
            ];
            for filter in filters {
                let written = query(&filter, page.as_deref());
                prop_assert_eq!(read_query(written.trim_start_matches('?')), Ok((filter, page.clone())));
            }
        }
    }
}
