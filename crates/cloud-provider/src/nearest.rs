//! "Did you mean …?": the known name nearest to a misspelt one.

/// The nearest of `known` to `typed`, ignoring case, if it is near enough to be meant: one slip in three letters.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.to_lowercase().chars().collect();
    let bound = (typed.len() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&typed, &name.to_lowercase().chars().collect::<Vec<_>>()), name))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out, changed, or swapped with their neighbour to turn `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("openstak", Some("openstack"))]
    #[case("OpenStack", Some("openstack"))]
    #[case("asw", Some("aws"))]
    #[case("lcoal", Some("local"))]
    #[case("digitalocean", None)]
    #[case("", None)]
    fn a_slip_is_recognised_and_another_word_is_not(#[case] typed: &str, #[case] meant: Option<&str>) {
        assert_eq!(nearest(typed, ["aws", "local", "openstack"]), meant);
    }
}
