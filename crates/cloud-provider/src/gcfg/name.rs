//! How names are compared: sections and keys do not care about case, nor a struct field about hyphens. Also which
//! names look like they hold a secret, and which known name a misspelt one probably meant.

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
    let folded = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.map(|c| if c == '_' { '-' } else { c }).collect()
}

/// The folded spelling without hyphens: `auth-url`, `AuthURL` and `auth_url` are all `authurl`.
pub(super) fn squash(name: &str) -> String {
    fold(name).replace('-', "")
}

/// The field that a name in a file means. The same words with the same hyphens win over the same letters.
pub(super) fn field_for(fields: &[&'static str], name: &str) -> Option<&'static str> {
    let (folded, squashed) = (fold(name), squash(name));
    let exact = fields.iter().find(|field| fold(field) == folded);
    exact.or_else(|| fields.iter().find(|field| squash(field) == squashed)).copied()
}

/// The known name nearest to a misspelt one, spelt as people write it in files.
pub(super) fn suggestion(known: &[&'static str], name: &str) -> Option<String> {
    let wanted: Vec<char> = squash(name).chars().take(SHOWN + 1).collect();
    // A third of the letters may differ: enough for a typo, too little for another word.
    let tolerance = if wanted.len() > SHOWN { 0 } else { (wanted.len() / 3).max(1) };
    known
        .iter()
        .map(|field| (distance(&wanted, &squash(field).chars().collect::<Vec<_>>()), *field))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, field)| field.replace('_', "-"))
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

/// Edits between two words, a swap of neighbours counting as one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(ca != cb);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
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
    #[case("route-r", Some("router"))]
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
